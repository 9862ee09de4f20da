"""A bar over a study's cells, for a terminal. Loading what draws it takes as long as a tenth of a cell."""

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


class Bar:
    """So many cells, what is running, how long it may still take; above it, what is printed."""

    def __init__(self, cells: int) -> None:
        self._bar = Progress(
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("cells"),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[running]}"),
            console=Console(stderr=True, highlight=False),
        )
        self._task = self._bar.add_task("cells", total=cells, running="")

    def start(self) -> None:
        """Show it."""
        self._bar.start()

    def stop(self) -> None:
        """Leave it as it is."""
        self._bar.stop()

    def more(self, cells: int) -> None:
        """There are so many more cells."""
        self._bar.update(self._task, total=(self._bar.tasks[0].total or 0) + cells)

    def advance(self) -> None:
        """One is done."""
        self._bar.advance(self._task)

    def running(self, what: str) -> None:
        """That is running now."""
        self._bar.update(self._task, running=escape(what))

    def print(self, line: str, *, dim: bool = False) -> None:
        """Print a line above it."""
        self._bar.console.print(escape(line), style="dim" if dim else None, soft_wrap=True)
