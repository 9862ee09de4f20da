"""A case: a published regression that bigiron reproduces from one command, the figures side by side."""

import csv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bigiron.errors import UserError
from bigiron.study.store import Study

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Figure:
    """A published figure and bigiron's own, in words: what was measured, or predicted with its interval."""

    what: str
    published: str
    ours: str


@dataclass(frozen=True)
class Claim:
    """Something that the published text says, whether what was measured here agrees, and why.

    `agrees` is None where it cannot be told from what was measured.
    """

    says: str
    agrees: bool | None
    evidence: str


@dataclass(frozen=True)
class Report:
    """What a case found."""

    figures: list[Figure]
    claims: list[Claim]
    notes: list[str]


class Published:
    """The published figures of a case: published.csv, with the columns table, row, column, value, unit."""

    def __init__(self, path: Path) -> None:
        with path.open(newline="", encoding="utf-8") as file:
            self._values = {
                (row["table"], row["row"], row["column"]): float(row["value"]) for row in csv.DictReader(file)
            }

    def value(self, table: str, row: str, column: str) -> float:
        """One figure, in the unit that the file gives."""
        return self._values[table, row, column]


@dataclass(frozen=True)
class Case:
    """A case's name, what it is about in one line, and how its study becomes a report."""

    name: str
    description: str
    report: Callable[[Study, Published], Report]

    @property
    def folder(self) -> Path:
        """Where its study.toml, quick.toml, published.csv and README.md are."""
        installed = _HERE / self.name
        return installed if installed.is_dir() else _HERE.parent.parent.parent / "cases" / self.name

    def spec_file(self, quick: bool) -> Path:
        """The study that it asks for."""
        return self.folder / ("quick.toml" if quick else "study.toml")

    def measure_up(self, study: Study) -> Report:
        """Its figures beside the published ones; UserError where the study is not whole."""
        missing = [cell for cell in study.plan() if not ((record := study.record(cell)) and record.measured)]
        if missing:
            raise UserError(
                f"{study.folder} lacks {len(missing)} cells, such as {missing[0].id}: run it again"
            )
        return self.report(study, Published(self.folder / "published.csv"))
