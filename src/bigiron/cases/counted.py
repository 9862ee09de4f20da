"""Counts per operation in a case's study: exact, by variant, CPUs and tasks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import gcd

from bigiron.study.store import CellRecord, Study
from bigiron.util.lazy import polars as pl


@dataclass(frozen=True)
class LockCounts:
    """A lock, per operation."""

    acquisitions: float
    held: float  # instructions

    @property
    def each(self) -> float:
        """Instructions that it is held for each time."""
        return self.held / self.acquisitions if self.acquisitions else 0.0


class CountedStudy:
    """The tables of a study with the probes conflicts, locks and instructions; one repetition a cell."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self._tables: dict[str, pl.DataFrame] = {}

    def cells(self) -> list[CellRecord]:
        """Those that were measured."""
        return [record for record in self.study.records() if record.measured]

    def operations(self, cell: CellRecord) -> float:
        """How many were recorded, of all tasks."""
        return cell.operations("instructions")

    def work(self, cell: CellRecord, function: str = ".*") -> float:
        """Instructions per operation of functions whose name matches, whatever they were executed for."""
        rows = self._of(cell, "instructions").filter(pl.col("function").str.contains(f"^(?:{function})$"))
        return float(rows["instructions"].sum()) / self.operations(cell)

    def calls(self, cell: CellRecord, function: str, caller: str) -> int:
        """How often the one calls the other, which has no branch: each call executes the same.

        What one call executes is the greatest number that divides what each CPU of each cell executes there.
        """
        there = self._table("instructions").filter(
            (pl.col("function") == function) & pl.col("path").str.contains(f"(^|;){caller}$")
        )
        by_cpu = there.group_by("cell", "cpu").agg(pl.col("instructions").sum())
        each = gcd(*by_cpu["instructions"])
        return int(by_cpu.filter(pl.col("cell") == cell.id)["instructions"].sum()) // each if each else 0

    def lock(self, cell: CellRecord, object: str, taken_in: str = "") -> LockCounts:
        """What an operation takes of the locks whose name matches, in a path or wherever."""
        rows = self._of(cell, "locks").filter(pl.col("path").str.contains(taken_in))
        return self._taken(cell, rows.filter(pl.col("object").str.contains(object)))

    def lock_of(self, cell: CellRecord, path: str, taken_in: str = "") -> LockCounts:
        """The same of locks by a path in which they are taken, there or wherever: they need no name."""
        rows = self._of(cell, "locks").filter(pl.col("context") == "process")
        locks = rows.filter(pl.col("path").str.contains(path))["lock"].unique()
        rows = rows.filter(pl.col("lock").is_in(locks.implode()) & pl.col("path").str.contains(taken_in))
        return self._taken(cell, rows)

    def _taken(self, cell: CellRecord, rows: pl.DataFrame) -> LockCounts:
        operations = self.operations(cell)
        return LockCounts(
            float(rows["acquisitions"].sum()) / operations,
            float(rows["instructions"].sum()) / operations,
        )

    def grace_periods(self, cell: CellRecord) -> float:
        """How many RCU began: rcu_gp_init() takes the lock of each node of its tree once, interrupts off.

        Older ones do so with one mutex for all CPUs that come and go.
        """
        rows = self._of(cell, "locks").filter(pl.col("path").str.ends_with("rcu_gp_init"))
        mutex = rows.filter(pl.col("function") == "mutex_lock")
        if mutex.height:
            return float(mutex["acquisitions"].sum())
        rows = rows.filter(pl.col("function") == "_raw_spin_lock_irqsave")
        nodes = rows["lock"].n_unique()
        return float(rows["acquisitions"].sum()) / nodes if nodes else 0.0

    def accesses(self, cell: CellRecord, object: str) -> float:
        """Accesses per operation to shared cache lines of objects whose name matches."""
        rows = self._of(cell, "conflicts").filter(pl.col("object").str.contains(object))
        return float((rows["reads"] + rows["writes"]).sum()) / self.operations(cell)

    def beside(self, cell: CellRecord, function: str, part: str) -> set[str]:
        """What lies in shared cache lines with those objects that a function reads: names without the CPU."""
        rows = self._of(cell, "conflicts")
        read = (pl.col("function") == function) & pl.col("object").str.contains(part)
        lines = rows.filter(read)["line"].unique()
        objects = rows.filter(pl.col("line").is_in(lines.implode()))["object"].unique()
        return {re.sub(r" of CPU \d+|\[\d+\]", "", name) for name in objects}

    def offsets(self, cell: CellRecord, function: str, part: str) -> list[int]:
        """At which bytes of a pair of lines those objects lie that a function reads."""
        rows = self._of(cell, "conflicts").filter(
            (pl.col("function") == function) & pl.col("object").str.contains(part)
        )
        return sorted((rows["address"] % cell.facts["conflicts"]["pair_bytes"]).unique())

    def _of(self, cell: CellRecord, probe: str) -> pl.DataFrame:
        return self._table(probe).filter(pl.col("cell") == cell.id)

    def _table(self, probe: str) -> pl.DataFrame:
        if probe not in self._tables:
            self._tables[probe] = self.study.tables(probe)
        return self._tables[probe]
