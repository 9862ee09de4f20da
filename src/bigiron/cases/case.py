"""A case: a published regression that bigiron reproduces from one command, the figures side by side."""

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from bigiron.errors import UserError
from bigiron.study import spec as specs
from bigiron.study.spec import Spec
from bigiron.study.store import Study

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class PublishedFigure:
    """A published figure and bigiron's own, in words: what was measured, or predicted with its interval."""

    what: str
    published: str
    ours: str


@dataclass(frozen=True)
class Claim:
    """Something that the published text says, whether what was measured here agrees, and why.

    `agrees` is None where what was measured does not decide it.
    """

    says: str
    agrees: bool | None
    evidence: str


@dataclass(frozen=True)
class Simulated:
    """What a case that measures has simulated besides: it stands apart."""

    figures: list[PublishedFigure]
    claims: list[Claim]


@dataclass(frozen=True)
class CaseReport:
    """What a case found."""

    figures: list[PublishedFigure]
    claims: list[Claim]
    notes: list[str]
    simulated: Simulated | None = None


class Published:
    """The published figures of a case: published.csv, with the columns table, row, column, value, unit."""

    def __init__(self, path: Path) -> None:
        with path.open(newline="", encoding="utf-8") as file:
            self._values = {
                (row["table"], row["row"], row["column"]): row["value"] for row in csv.DictReader(file)
            }

    def value(self, table: str, row: str, column: str) -> float:
        """One figure, in the unit that the file gives."""
        return float(self._values[table, row, column])


@dataclass(frozen=True)
class Quick:
    """What a study of a case asks for where it is to be quick."""

    cpus: list[int]
    repetitions: int = 1  # at most
    without: tuple[str, ...] = ()  # variants
    tasks: tuple[int, ...] = ()  # instead of the study's own, if any
    operations: int = 0  # instead of the study's own, if any
    shorter: int = 1  # times that less virtual time is simulated


@dataclass(frozen=True)
class Build:
    """A kernel of a case's own: built from `source` with what lies in the case's folder."""

    name: str
    source: str  # "": the tree that the user has of the kernel of the time (`Case.of_the_time`)
    arch: str
    patches: tuple[str, ...] = ()  # in its folder patches/
    fragments: tuple[str, ...] = ()  # of configuration


@dataclass(frozen=True)
class Case:
    """A case's name, what it is about in one line, and how its studies become a report.

    In its folder are, for each study, its spec as STUDY.toml, published.csv and README.md.
    """

    name: str
    description: str
    studies: tuple[str, ...]
    quick: Mapping[str, Quick]  # of each study
    report: Callable[[Mapping[str, Study], Published], CaseReport]
    builds: tuple[Build, ...] = ()
    of_the_time: str = ""  # the version of which a user may have the source: the kernel that was reported
    with_tree: tuple[str, ...] = ()  # studies of that kernel, besides

    @property
    def folder(self) -> Path:
        """Where its files are."""
        return _HERE / self.name

    def spec(self, study: str, quick: bool) -> Spec:
        """What one of its studies asks for."""
        spec = specs.read(self.folder / f"{study}.toml")
        if spec.simulation.machine.endswith(".toml"):
            machine = str(self.folder / spec.simulation.machine)
            spec = replace(spec, simulation=replace(spec.simulation, machine=machine))
        if not quick:
            return spec
        less = self.quick[study]
        repetitions = min(spec.repetitions, less.repetitions)
        variants = [variant for variant in spec.variant if variant.name not in less.without]
        tasks = list(less.tasks) or spec.tasks
        duration_ms = spec.simulation.duration_ms / less.shorter
        return replace(
            spec,
            cpus=less.cpus,
            tasks=tasks,
            repetitions=repetitions,
            operations=less.operations or spec.operations,
            simulation=replace(spec.simulation, duration_ms=duration_ms),
            variant=variants,
        )

    def measure_up(self, studies: Mapping[str, Study]) -> CaseReport:
        """Its figures beside the published ones; UserError where a study is not whole."""
        for study in studies.values():
            cells = study.plan()
            missing = [cell for cell in cells if not ((record := study.record(cell)) and record.measured)]
            if missing:
                raise UserError(
                    f"{study.folder} lacks {len(missing)} cells, such as {missing[0].id}: run it again"
                )
        return self.report(studies, Published(self.folder / "published.csv"))
