"""What an operation counts in a case's study: exact, by variant, CPUs and tasks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from bigiron.lazy import polars as pl
from bigiron.study.store import CellRecord, Study


@dataclass(frozen=True)
class Taken:
    """A lock, per operation."""

    acquisitions: float
    held: float  # instructions
    taken_by: int = 0  # CPUs

    @property
    def each(self) -> float:
        """Instructions that it is held for each time."""
        return self.held / self.acquisitions if self.acquisitions else 0.0


class Counted:
    """The tables of a study with the probes conflicts, locks and work; one repetition a cell."""

    def __init__(self, study: Study) -> None:
        self.study = study

    @cached_property
    def _records(self) -> dict[str, CellRecord]:
        return {record.id: record for record in self.study.records()}

    @cached_property
    def _tables(self) -> dict[str, pl.DataFrame]:
        return {probe: self.study.tables(probe) for probe in ("conflicts", "locks", "work")}

    def cells(self) -> list[CellRecord]:
        """Those that were measured."""
        return [record for record in self._records.values() if record.measured]

    def operations(self, cell: CellRecord) -> int:
        """How many were recorded, of all tasks."""
        return sum(cell.facts["work"]["operations"])

    def work(self, cell: CellRecord, function: str = ".*") -> float:
        """Instructions an operation of functions whose name matches, whatever they were executed for."""
        rows = self._of(cell, "work").filter(pl.col("function").str.contains(f"^(?:{function})$"))
        return float(rows["instructions"].sum()) / self.operations(cell)

    def lock(self, cell: CellRecord, object: str, path: str = "") -> Taken:
        """What an operation takes of the locks whose name matches, in call paths that match."""
        rows = self._of(cell, "locks").filter(
            pl.col("object").str.contains(object) & pl.col("path").str.contains(path)
        )
        operations = self.operations(cell)
        return Taken(
            float(rows["acquisitions"].sum()) / operations,
            float(rows["instructions"].sum()) / operations,
            rows["cpu"].n_unique(),
        )

    def grace_periods(self, cell: CellRecord) -> float:
        """How many RCU began: rcu_gp_init() takes the lock of each node of its tree once, interrupts off."""
        rows = self._of(cell, "locks").filter(
            (pl.col("function") == "_raw_spin_lock_irqsave") & pl.col("path").str.ends_with("rcu_gp_init")
        )
        nodes = rows["lock"].n_unique()
        return float(rows["acquisitions"].sum()) / nodes if nodes else 0.0

    def accesses(self, cell: CellRecord, object: str) -> float:
        """Accesses an operation to shared lines of objects whose name matches."""
        rows = self._of(cell, "conflicts").filter(pl.col("object").str.contains(object))
        return float((rows["reads"] + rows["writes"]).sum()) / self.operations(cell)

    def lines_read_in(self, cell: CellRecord, function: str) -> pl.DataFrame:
        """All rows of the shared lines that a function reads."""
        rows = self._of(cell, "conflicts")
        lines = rows.filter((pl.col("function") == function) & (pl.col("reads") > 0))["line"].unique()
        return rows.filter(pl.col("line").is_in(lines.implode()))

    def _of(self, cell: CellRecord, probe: str) -> pl.DataFrame:
        return self._tables[probe].filter(pl.col("cell") == cell.id)


def names(objects: Iterable[str]) -> list[str]:
    """Names of objects, each once, without the CPU and the number of the one that was met."""
    return sorted({re.sub(r" of CPU \d+|\[\d+\]", "", name) for name in objects})
