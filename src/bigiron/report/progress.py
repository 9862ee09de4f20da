"""Progress of a study on stderr: cells done, cells running, estimated time left."""

import sys
from copy import copy
from types import TracebackType
from typing import TYPE_CHECKING

from bigiron.study.plan import Cell
from bigiron.study.store import CellRecord

if TYPE_CHECKING:
    from bigiron.report.formats.bar import Bar


class _ProgressLines:
    """Lines instead of a bar, where stderr is not a terminal."""

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def more(self, cells: int) -> None: ...
    def advance(self) -> None: ...
    def running(self, what: str) -> None: ...

    def print(self, line: str, *, dim: bool = False) -> None:
        sys.stderr.write(f"{line}\n")


def _shown(cells: int) -> "Bar | _ProgressLines":
    if not sys.stderr.isatty():
        return _ProgressLines()
    from bigiron.report.formats.bar import Bar  # imported here, as it takes long to load

    return Bar(cells)


class ProgressBar:
    """On a terminal a bar over the cells; elsewhere a line for each cell that ends. All on stderr."""

    def __init__(self, cells: list[Cell]) -> None:
        self._shown = _shown(len(cells))
        self._stages: dict[str, str] = {}
        self._within = ""

    def __enter__(self) -> "ProgressBar":
        self._shown.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._shown.stop()

    def within(self, name: str, cells: int) -> "ProgressBar":
        """The same bar, extended by the cells of one of several studies."""
        bar = copy(self)
        bar._within = f"{name}, "
        self._shown.more(cells)
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
        self._shown.advance()
        self._update()
        if record.failure is None:
            self._shown.print(f"{self._called(cell)}: measured in {record.seconds:.1f} s")
            return
        if record.failure.console:
            self._shown.print(record.failure.console, dim=True)
        self._shown.print(f"bigiron: {self._called(cell)}: {record.failure.reason}")

    def added(self, cells: list[Cell], why: str) -> None:
        """More cells are to be measured than there were."""
        self._shown.more(len(cells))
        self._shown.print(why)

    def note(self, line: str) -> None:
        """Something that concerns no cell alone."""
        self._shown.print(f"bigiron: {line}")

    def _called(self, cell: Cell) -> str:
        return f"{self._within}{cell}"

    def _update(self) -> None:
        self._shown.running("; ".join(f"{cell}: {stage}" for cell, stage in list(self._stages.items())))
