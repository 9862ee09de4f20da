"""The progress bar of a study: cells done, what is running, how long it may still take."""

from copy import copy
from types import TracebackType

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from bigiron.study.plan import Cell
from bigiron.study.store import CellRecord


class ProgressBar:
    """On a terminal a bar over the cells; elsewhere a line for each cell that ends. All on stderr."""

    def __init__(self, cells: list[Cell]) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._bar = Progress(
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("cells"),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[running]}"),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task("cells", total=len(cells), running="")
        self._stages: dict[str, str] = {}
        self._within = ""

    def __enter__(self) -> "ProgressBar":
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def within(self, name: str, cells: int) -> "ProgressBar":
        """The same bar for the cells of one study of several, so many more than it has."""
        bar = copy(self)
        bar._within = f"{name}, "
        self._bar.update(self._task, total=(self._bar.tasks[0].total or 0) + cells)
        return bar

    def started(self, cell: Cell) -> None:
        """A machine starts for the cell."""
        self.stage(cell, "booting")

    def stage(self, cell: Cell, stage: str) -> None:
        """The cell has come to a stage."""
        self._stages[self._called(cell)] = stage
        self._update()

    def ended(self, cell: Cell, record: CellRecord) -> None:
        """The cell is measured, or has failed."""
        self._stages.pop(self._called(cell), None)
        self._bar.advance(self._task)
        self._update()
        if record.failure is None:
            self._bar.console.print(
                f"{escape(self._called(cell))}: measured in {record.seconds:.1f} s", soft_wrap=True
            )
            return
        if record.failure.console:
            self._bar.console.print(escape(record.failure.console), style="dim", soft_wrap=True)
        self._bar.console.print(
            f"bigiron: {escape(self._called(cell))}: {escape(record.failure.reason)}", soft_wrap=True
        )

    def added(self, cells: list[Cell], why: str) -> None:
        """More cells are to be measured than there were."""
        total = self._bar.tasks[0].total or 0
        self._bar.update(self._task, total=total + len(cells))
        self._bar.console.print(escape(why), soft_wrap=True)

    def note(self, line: str) -> None:
        """Something that concerns no cell alone."""
        self._bar.console.print(f"bigiron: {escape(line)}", soft_wrap=True)

    def _called(self, cell: Cell) -> str:
        return f"{self._within}{cell}"

    def _update(self) -> None:
        running = "; ".join(f"{cell}: {stage}" for cell, stage in list(self._stages.items()))
        self._bar.update(self._task, running=escape(running))
