"""What `bigiron compare --probe throughput` shows: throughput, or other metrics with noise, and verdicts."""

import math
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby

from bigiron.analysis.repetitions import Repetitions, where
from bigiron.analysis.seed_range import number
from bigiron.analysis.verdict import Comparison, Verdict, outliers
from bigiron.report import listing
from bigiron.report.listing import Listing, plain
from bigiron.study import samples
from bigiron.study.spec import looks
from bigiron.study.store import Study

_WIDTH = 100
_COLUMNS = (
    "tasks",
    "CPUs",
    "variant",
    "median",
    "least to most",
    "reps",
    "ratio",
    "interval",
    "p",
    "verdict",
)
_LAYOUT = ("{:>{}}", "{:>{}}", "{:{}}", *("{:>{}}",) * 6, "{:{}}")
_MOST_OUTLIERS = 5  # named of each variant, in text


@dataclass(frozen=True)
class Row:
    """A metric of one variant at so many CPUs and tasks, beside the base's unless it is that."""

    ours: Repetitions
    """All that were measured."""
    comparison: Comparison | None


@dataclass(frozen=True)
class Verdicts:
    """A study's metrics: for each of them and each number of CPUs and tasks, a row a variant."""

    study: str
    workload: str
    time: str
    base: str
    tolerance: float
    looks: int
    adds_more: str
    """The command that adds repetitions."""
    rows: list[Row]

    @property
    def comparisons(self) -> list[Comparison]:
        """Those of all rows."""
        return [row.comparison for row in self.rows if row.comparison]


def compare_study(
    study: Study, base: str | None = None, tolerance: float | None = None, metric: str | None = None
) -> Verdicts:
    """Judge a study's variants."""
    found = {
        (one.ours.variant, one.ours.point, one.ours.metric): one
        for one in samples.compare(study, base, tolerance, metric)
    }
    rows = [
        Row(one, found.get((one.variant, one.point, one.metric)))
        for one in samples.metrics(study)
        if metric in (None, one.metric)
    ]
    return Verdicts(
        study.name,
        study.spec.workload,
        study.time,
        study.base(base),
        study.spec.tolerance if tolerance is None else tolerance,
        len(looks(study.spec)),
        "import" if study.spec.engine.is_elsewhere else "run STUDY --until-decided --max-time SECONDS",
        rows,
    )


def text(verdicts: Verdicts) -> str:
    """For a terminal or a mail."""
    parts = []
    for heading, cells in tables(verdicts):
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = [
            "  ".join(_LAYOUT[at].format(cell, widths[at]) for at, cell in enumerate(row)).rstrip()
            for row in cells
        ]
        parts.append("\n".join([*_wrapped(heading, ""), "", *lines]))
    notes = [line for note in notes_on(verdicts) for line in _wrapped(note, "  ")]
    return "\n\n".join([*parts, "\n".join(notes)]) + "\n"


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, subsequent_indent=indent)


def tables(verdicts: Verdicts) -> Iterator[tuple[str, list[list[str]]]]:
    """Of each metric its heading and its cells, the first row being the columns' names."""
    for _, group in groupby(verdicts.rows, key=lambda row: row.ours.metric):
        rows, seen = list(group), None
        cells = [list(_COLUMNS)]
        for row in rows:
            where = ["", ""] if row.ours.point == seen else [str(row.ours.tasks), str(row.ours.cpus)]
            seen = row.ours.point
            cells.append([*where, *_cells(verdicts, row)])
        ours = rows[0].ours
        yield (
            f"{verdicts.workload}: {ours.metric}{f', {ours.unit}' if ours.unit else ''} ({verdicts.time}; "
            f"{ours.better} is better), median of the repetitions",
            cells,
        )


def _cells(verdicts: Verdicts, row: Row) -> list[str]:
    ours, found = row.ours, row.comparison
    values = ours.values
    figures = [
        ours.variant,
        number(ours.median),
        f"{number(min(values))} to {number(max(values))}",
        str(len(values)),
    ]
    if not found:
        alone = len({each.ours.variant for each in verdicts.rows}) == 1
        return [*figures, "", "", "", "" if alone or ours.variant == verdicts.base else "not compared"]
    ratio = found.ratio
    interval = "-" if math.isnan(ratio.low) else f"{ratio.low:.3f} to {ratio.high:.3f}"
    return [*figures, f"{ratio.value:.3f}", interval, _p(found.p), in_words(found)]


def in_words(comparison: Comparison) -> str:
    """The verdict, and what to make of it."""
    match comparison.verdict:
        case Verdict.changed:
            way = "better" if comparison.improved else "worse"
            return f"changed: {comparison.ratio.value - 1:+.1%}, {way}"
        case Verdict.unchanged:
            return "unchanged"
        case _ if comparison.more:
            return f"undecided: {comparison.more} more would decide"
    return "undecided"


def _p(p: float) -> str:
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def notes_on(verdicts: Verdicts) -> list[str]:
    """What the figures are, how sure they are, and what is odd about them."""
    return [*_how(verdicts), *_doubtful(verdicts), *_outlying(verdicts)]


def _how(verdicts: Verdicts) -> Iterator[str]:
    """What the figures are, and how sure the verdicts."""
    comparisons = verdicts.comparisons
    if not comparisons:
        return
    paired = comparisons[0].paired
    ratio = "the median of the repetitions' ratios" if paired else "of the medians"
    confidences = " and ".join(sorted({f"{100 * one.confidence:.3g} %" for one in comparisons}))
    test = "Wilcoxon's signed-rank test" if paired else "Mann and Whitney's test"
    plural = "s" if len(comparisons) > 1 else ""
    yield (
        f"ratio: to {verdicts.base}, {ratio}, with its {confidences} interval; p: {test}, corrected for "
        f"{len(comparisons)} comparison{plural} and the looks taken ({verdicts.looks}), changed up to 0.05"
    )
    tolerance = f"{100 * verdicts.tolerance:.3g} %"
    yield f"unchanged: the interval lies within {tolerance}; a difference that small does not matter"
    if verdicts.time == "VM time":
        yield "Times are VM times: how they compare means more than what they are."


def _doubtful(verdicts: Verdicts) -> Iterator[str]:
    """What the verdicts do not rest on though it was measured, or would need."""
    for row in verdicts.rows:
        found = row.comparison
        if found and (left := len(row.ours.numbers) - len(found.ours.numbers)):
            yield (
                f"{row.ours.variant}, {where(*row.ours.point)}: {left} repetitions are not "
                "judged: none of the base's ran beside them, or they came after the look that decided"
            )
    few = {one.judged for one in verdicts.comparisons if math.isnan(one.ratio.low)}
    if few:
        yield f"-: {min(few)} repetitions are too few for an interval"
    if any(one.verdict is Verdict.undecided for one in verdicts.comparisons):
        yield (
            "undecided: how many more repetitions would probably decide is guessed from the spread so far; "
            f"`bigiron {verdicts.adds_more}` adds them"
        )


def _outlying(verdicts: Verdicts) -> Iterator[str]:
    for row in verdicts.rows:
        far = (one for one in outliers(row.ours) if abs(one.away) > verdicts.tolerance)
        found = sorted(far, key=lambda one: -abs(one.away))
        shown = ", ".join(f"{one.away:+.1%} (repetition {one.repetition})" for one in found[:_MOST_OUTLIERS])
        more = f" and {len(found) - _MOST_OUTLIERS} more" if len(found) > _MOST_OUTLIERS else ""
        if found:
            yield (
                f"outliers, which count like all others: {row.ours.variant}, {where(*row.ours.point)}: "
                f"{shown}{more} from the median"
            )


def markdown(verdicts: Verdicts) -> str:
    """Tables as GitHub and most wikis render them."""
    parts = []
    for heading, (head, *rows) in tables(verdicts):
        table = listing.markdown(head, [map(plain, row) for row in rows], "rrlrrrrrrl")
        parts.append(f"{plain(heading)}\n\n{table}")
    notes = "\n".join(f"- {plain(note)}" for note in notes_on(verdicts))
    return "\n".join([*parts, notes]) + "\n"


def as_csv(verdicts: Verdicts) -> str:
    """One line a metric, CPUs, tasks and variant (docs/schema.md)."""
    rows = list(map(_as_row, verdicts.rows))
    return Listing(tuple(rows[0]), [tuple(row.values()) for row in rows]).as_csv()


def as_json(verdicts: Verdicts) -> str:
    """Every repetition's samples (docs/schema.md)."""
    document = {
        "study": verdicts.study,
        "workload": verdicts.workload,
        "time": verdicts.time,
        "base": verdicts.base,
        "tolerance": verdicts.tolerance,
        "looks": verdicts.looks,
        "rows": [
            {
                **_as_row(row),
                "samples": dict(zip(map(str, row.ours.numbers), row.ours.samples, strict=True)),
                "outliers": outliers(row.ours),
            }
            for row in verdicts.rows
        ],
    }
    return listing.as_json(document)


def _as_row(row: Row) -> dict[str, object]:
    ours, found = row.ours, row.comparison
    return {
        "metric": ours.metric,
        "unit": ours.unit,
        "better": ours.better,
        "cpus": ours.cpus,
        "tasks": ours.tasks,
        "variant": ours.variant,
        "repetitions": len(ours.values),
        "median": ours.median,
        "least": min(ours.values),
        "most": max(ours.values),
        "judged": found and found.judged,
        "paired": found and found.paired,
        "ratio": found and found.ratio.value,
        "ratio_low": found and _finite(found.ratio.low),
        "ratio_high": found and _finite(found.ratio.high),
        "confidence": found and found.confidence,
        "p": found and found.p,
        "verdict": found and found.verdict.value,
        "more": found and found.more,
    }


def _finite(value: float) -> float | None:
    return None if math.isnan(value) else value


FORMATS: dict[str, Callable[[Verdicts], str]] = {
    "text": text,
    "markdown": markdown,
    "csv": as_csv,
    "json": as_json,
}
