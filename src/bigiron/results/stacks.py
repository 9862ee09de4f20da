"""Call stacks of a study's cells, weighted per operation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from bigiron import probes
from bigiron.analysis.comparison.profiles import Weights
from bigiron.errors import UserError
from bigiron.probes import StackSource
from bigiron.study.store import CellRecord, Study
from bigiron.util.english import cpus_and_tasks
from bigiron.util.lazy import polars as pl

SCALE = 1_000_000
"""Other tools need whole numbers, so a weight is per this many operations."""


def source(probe: str) -> StackSource:
    """The source of a probe's stacks; UserError if it records none."""
    found = probes.probe(probe).stacks
    if not found:
        names = ", ".join(one.name for one in probes.probes() if one.stacks)
        raise UserError(f"stacks are recorded by the probes {names}, not by {probe}")
    return found


def what(probe: str, records: Iterable[CellRecord]) -> str:
    """What the weight of a stack counts, with its units."""
    known = source(probe)
    units = dict.fromkeys(known.unit(record.facts.get(probe, {})) for record in records)
    return known.what.format(unit=" or ".join(filter(None, units)) or known.weights[0])


@dataclass(frozen=True)
class StackComparison:
    """The stacks of one variant at one number of CPUs and tasks; the mean of its repetitions."""

    title: str
    cpus: int
    tasks: int
    started: str  # start of the first repetition, UTC, ISO 8601
    weights: tuple[str, ...]  # the requested weight first
    frames: list[tuple[str, ...]]  # frames of each stack, outermost first
    values: dict[str, list[int]]  # by weight: one value per stack, per SCALE operations

    @property
    def weighed(self) -> dict[tuple[str, ...], int]:
        """The requested weight of each stack."""
        return dict(zip(self.frames, self.values[self.weights[0]], strict=True))

    def __iter__(self) -> Iterator[tuple[tuple[str, ...], tuple[int, ...]]]:
        """Frames and weights of each stack."""
        columns = [self.values[weight] for weight in self.weights]
        return zip(self.frames, zip(*columns, strict=True), strict=True)

    @property
    def summary(self) -> str:
        """The number of stacks, their total weight, and the unit of a weight."""
        total = sum(self.values[self.weights[0]]) / SCALE
        return (
            f"{self.title}: {len(self.frames)} stacks, {total:.3f} {self.weights[0]} per operation in total; "
            f"a weight of {SCALE} is one per operation"
        )


def stacks_of(
    study: Study,
    probe: str,
    contexts: tuple[str, ...],
    *,
    variant: str | None = None,
    cpus: int | None = None,
    tasks: int | None = None,
    weight: str | None = None,
) -> StackComparison:
    """The stacks of one variant: unless given, the only one, at the most CPUs and tasks measured.

    The weights add up to what `compare` prints in total. With several contexts, the outermost frame is
    the context.
    """
    known = source(probe)
    if weight is not None and weight not in known.weights:
        raise UserError(f"stacks of {probe} weigh {' or '.join(known.weights)}, not {weight}")
    records = _chosen(study, probe, variant, cpus, tasks)
    means = _mean([_stacks(study, record, probe, contexts) for record in records], known)
    columns = (("context",) if len(contexts) > 1 else ()) + known.frames
    last = records[0]
    return StackComparison(
        title=(
            f"{study.workload}, {last.variant}, "
            f"{cpus_and_tasks(last.cpus, study.spec.known_tasks(last.tasks))}, {probe}"
        ),
        cpus=last.cpus,
        tasks=last.tasks,
        started=last.started,
        weights=tuple(sorted(known.weights, key=lambda name: name != (weight or known.weights[0]))),
        frames=[_frames(row) for row in means.select(columns).iter_rows()],
        values={name: means[name].to_list() for name in known.weights},
    )


def by_repetition(
    study: Study, probe: str, contexts: tuple[str, ...], measured: Mapping[str, Sequence[CellRecord]]
) -> dict[str, list[Weights]]:
    """The weight of each stack per operation at one point, by variant and repetition."""
    return {
        variant: [_weights(study, record, probe, contexts) for record in records]
        for variant, records in measured.items()
    }


def _weights(study: Study, record: CellRecord, probe: str, contexts: tuple[str, ...]) -> Weights:
    known = source(probe)
    rows = _stacks(study, record, probe, contexts).select(*known.frames, f"{known.weights[0]}_per_op")
    weighed: dict[tuple[str, ...], float] = {}
    for *columns, weight in rows.iter_rows():
        frames = _frames(tuple(columns))
        weighed[frames] = weighed.get(frames, 0.0) + weight
    return weighed


def _chosen(
    study: Study, probe: str, variant: str | None, cpus: int | None, tasks: int | None
) -> list[CellRecord]:
    """The repetitions of one variant at one number of CPUs and tasks."""
    if variant is None and len(study.spec.variant) > 1:
        names = ", ".join(variant.name for variant in study.spec.variant)
        raise UserError(f"{study.name} has several variants: give --variant, one of {names}")
    variant = study.base(variant)
    records = [r for r in study.records() if r.measured and r.variant == variant and probe in r.tables]
    if not records:
        how = study.recording(probe)
        raise UserError(f"{study.folder} has no measured cell of {variant} with the probe {probe}: {how}")
    for name, wanted in (("cpus", cpus), ("tasks", tasks)):
        there = sorted({getattr(record, name) for record in records})
        if wanted is not None and wanted not in there:
            words = ", ".join(map(str, there))
            raise UserError(f"{study.name} has no cell of {variant} with {name} = {wanted}: it has {words}")
        records = [r for r in records if getattr(r, name) == (wanted if wanted is not None else there[-1])]
    return records


def _stacks(study: Study, record: CellRecord, probe: str, contexts: tuple[str, ...]) -> pl.DataFrame:
    return source(probe).stacks(study.table(record, probe), record.operations(probe), contexts)


def _mean(repetitions: Sequence[pl.DataFrame], known: StackSource) -> pl.DataFrame:
    """The mean of each stack's weights, in whole numbers, each weight in a column of its name."""
    keys = ["context", *known.frames]
    weights = {name: pl.col(f"{name}_per_op") for name in known.weights}
    sums = pl.concat(repetitions).group_by(keys).agg(weight.sum() for weight in weights.values()).sort(keys)
    scale = SCALE / len(repetitions)
    return sums.select(*keys, *(_whole(weight * scale).alias(name) for name, weight in weights.items()))


def _whole(weights: pl.Expr) -> pl.Expr:
    """Weights rounded so that their sum is the rounded sum: each rounding error goes to the next weight."""
    sums = weights.cum_sum().round().cast(pl.Int64)
    return sums.diff().fill_null(sums.first())


def _frames(columns: tuple[str, ...]) -> tuple[str, ...]:
    """A stack's frames: a path is several of them, other columns one each.

    >>> _frames(("process", "openat;path_openat", "vm_committed_as.lock"))
    ('process', 'openat', 'path_openat', 'vm_committed_as.lock')
    """
    return tuple(frame for column in columns for frame in column.split(";"))
