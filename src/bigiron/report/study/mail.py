"""A report as a plain mail of 72 columns, laid out as the mails that kernel people send.

Tables as the kernel test robot has them, stacks as perf does: nothing is wider but unbreakable names.
"""

import textwrap
from collections.abc import Iterable, Iterator

from bigiron.analysis.comparison import profiles
from bigiron.analysis.comparison.model import ComparedPoint, ComparedRow
from bigiron.analysis.comparison.profiles import ComparedFigure
from bigiron.analysis.statistics.repetitions import where
from bigiron.analysis.statistics.verdict import MetricComparison
from bigiron.report import growth
from bigiron.report.formats import lkp
from bigiron.report.formats.columns import aligned, widths_of
from bigiron.report.formats.flame import Flame, Frame
from bigiron.report.study.document import (
    FindingText,
    Grid,
    Judged,
    PredictedSection,
    ProbeSection,
    StudyDocument,
)
from bigiron.results.growth import GrowthReport

_WIDTH = 72
_ROWS = 20
_STACKS = 5
_INDENT = "    "
_ONE_RUN = "1 run"


def as_text(document: StudyDocument) -> str:
    """The whole mail."""
    return "\n".join(line.rstrip() for line in _lines(document)) + "\n"


def _lines(document: StudyDocument) -> Iterator[str]:
    yield from _wrapped(document.question)
    yield ""
    measured = document.planned - len(document.missing)
    yield from _wrapped(
        f"Study {document.study}: {measured} of {document.planned} cells measured. "
        f"Made {document.made} by bigiron {document.version}."
    )
    if document.missing:
        yield ""
        yield "Unfinished. Missing are"
        for cell, why in document.missing:
            yield from _wrapped(f"- {cell}: {why}", "  ")
    yield from _section("Answer")
    yield from _answer(document)
    yield from _gap(document)
    if document.predicted:
        yield from _section(document.predicted.title)
        yield from _predicted(document.predicted)
    if document.judged:
        yield from _section("Verdicts and curves")
        yield from _judged(document.judged)
    for part in document.parts:
        yield from _section(part.title)
        yield from _part(part)
        if part.growth:
            yield from _section(f"Growth of {part.growth.counted.what}")
            yield from _growth(part.growth)
    yield from _section("Environment")
    yield from _environment(document)
    yield from _section("To reproduce")
    for _, command in document.commands:
        yield f"{_INDENT}{command}"
    yield ""
    yield "study.toml:"
    yield ""
    yield from (f"{_INDENT}{line}" for line in document.study_file.splitlines())


def _section(title: str) -> Iterator[str]:
    yield ""
    yield ""
    lines = _wrapped(title)
    yield from lines
    yield "=" * max(map(len, lines))
    yield ""


def _wrapped(words: str, later: str = "") -> list[str]:
    return textwrap.wrap(
        words, _WIDTH, subsequent_indent=later, break_long_words=False, break_on_hyphens=False
    )


def _answer(document: StudyDocument) -> Iterator[str]:
    if document.answered:
        yield from _wrapped(document.answered)
    elif not document.answer:
        yield "Nothing measured so far answers it."
    for number, finding in enumerate(document.answer, start=1):
        if number > 1 or document.answered:
            yield ""
        yield from _finding(number, finding)


def _gap(document: StudyDocument) -> Iterator[str]:
    if document.not_recorded:
        yield ""
        yield from _wrapped(document.not_recorded)


def _finding(number: int, finding: FindingText) -> Iterator[str]:
    yield from _wrapped(f"{number}. {finding.sentence}", "   ")
    for label, known in finding.evidence:
        lead = f"   {label:11}" if len(label) <= 10 else f"   {label}: "
        yield from _wrapped(f"{lead}{known}", " " * 14)


def _predicted(predicted: PredictedSection) -> Iterator[str]:
    yield from _headed(predicted.tables)
    for note in predicted.notes:
        yield from _wrapped(note, "  ")


def _headed(grids: Iterable[Grid]) -> Iterator[str]:
    for grid in grids:
        yield from _wrapped(grid.heading)
        yield ""
        yield from _grid(grid)
        yield ""


def _judged(judged: Judged) -> Iterator[str]:
    for variant in dict.fromkeys(one.ours.variant for one in judged.judgements):
        here = [one for one in judged.judgements if one.ours.variant == variant]
        base = here[0].base.variant
        repeated = any(len(of.values) > 1 for one in here for of in (one.base, one.ours))
        yield from lkp.head(base, variant, "mean +- sd" if repeated else _ONE_RUN)
        yield from lkp.lines(map(_figure, here), base, variant, _WIDTH)
        yield ""
    yield from _headed((*(judged.verdicts if not judged.judgements else ()), *judged.scaling))
    for variant, lines in judged.curves:
        yield variant
        for line in lines:
            yield from _wrapped(f"  {line.strip()}", "    ")
    for note in judged.notes:
        yield ""
        yield from _wrapped(note)


def _figure(one: MetricComparison) -> ComparedFigure:
    """What was compared and the verdict, with the repetitions that it rests on."""
    ours, base = one.ours, one.base
    name = f"{ours.metric} {ours.unit}, {where(*ours.point)}: {one.in_words}"
    return ComparedFigure(name, {base.variant: base.values, ours.variant: ours.values})


def _grid(grid: Grid) -> Iterator[str]:
    """In columns; a row that is too wide goes on below, further in."""
    rows = [grid.columns, *grid.rows]
    used = [number for number, width in enumerate(widths_of(rows)) if width]
    for line in aligned([[row[number] for number in used] for row in rows]):
        yield from textwrap.wrap(
            line, _WIDTH, subsequent_indent=" " * 8, drop_whitespace=False, break_long_words=False
        )


def _part(part: ProbeSection) -> Iterator[str]:
    table = part.tables[-1]
    for number, new in enumerate(table.others or (table.base,)):
        if number:
            yield ""
        yield from _table(table, new)
    for note in (*table.notes, *table.caveats):
        yield ""
        yield from _wrapped(note)
    if part.flame:
        yield from _stacks(part.flame, "mean" if table.repeated else _ONE_RUN)


def _table(table: ComparedPoint, new: str) -> Iterator[str]:
    """The measure by which rows are ranked, of the variant against the base."""
    yield from _wrapped(f"{table.where}, {table.ranked_by}:")
    yield ""
    if new != table.base:
        yield from lkp.head(table.base, new, "mean +- sd" if table.repeated else _ONE_RUN)
    rows = [row for row in table.by_change if row.main.mean(table.base) or row.main.mean(new)][:_ROWS]
    yield from _rows([*rows, *([table.total] if table.total else [])], table, new)
    if left := table.left_out(len(rows)):
        yield f"{left} more (bigiron compare --format csv has all)"


def _rows(rows: list[ComparedRow], table: ComparedPoint, new: str) -> Iterator[str]:
    if new != table.base:
        yield from lkp.lines((row.main for row in rows), table.base, new, _WIDTH)
        return
    for row in rows:
        yield f"{lkp.value(row.main, new):>18}  {row.main.name}"


def _stacks(flame: Flame, figures: str) -> Iterator[str]:
    """The call chains that changed most, or that weigh most; a function a line, innermost first."""
    chains = [ComparedFigure(name, values) for name, values in _leaves(flame)]
    ranked = profiles.ranked(chains, flame.base, flame.variants)[:_STACKS]
    for new in [variant for variant in flame.variants if variant != flame.base] or [flame.base]:
        yield ""
        yield from _wrapped(f"Call chains, {flame.what} per operation:")
        yield ""
        if new != flame.base:
            yield from lkp.head(flame.base, new, figures)
            yield from lkp.lines(ranked, flame.base, new, _WIDTH, as_stacks=True)
            continue
        for chain in ranked:
            yield f"{lkp.value(chain, new):>18}"
            yield from (f"{'':10}{frame}" for frame in reversed(chain.name.split(";")))
            yield ""


def _leaves(flame: Flame) -> Iterator[tuple[str, dict[str, tuple[float, ...]]]]:
    """Each chain, and what its innermost function itself weighs in each variant."""

    def walk(frame: Frame, path: str) -> Iterator[tuple[str, dict[str, tuple[float, ...]]]]:
        own = [
            weight - sum(callee.weights[at] for callee in frame.callees.values())
            for at, weight in enumerate(frame.weights)
        ]
        if path and any(weight > 1e-9 for weight in own):
            yield (
                path,
                {variant: (max(0.0, weight),) for variant, weight in zip(flame.variants, own, strict=True)},
            )
        for callee in frame.callees.values():
            yield from walk(callee, f"{path};{callee.name}" if path else callee.name)

    return walk(flame.root, "")


def _growth(report: GrowthReport) -> Iterator[str]:
    for number, table in enumerate(report.tables):
        if number:
            yield ""
        yield from _wrapped(
            f"{table.variant}, {table.tasks}, at {table.cpus[0]} to {table.cpus[-1]} CPUs; "
            f"predicted at {table.at} CPUs, with the interval of all laws:"
        )
        for row in (*table.growing, table.total):
            law, sure, predicted = growth.in_words(row)
            yield ""
            yield from _wrapped(row.series.name, "  ")
            yield from _wrapped(f"  {growth.measured_range(row)}, law {law}", "    ")
            if predicted:
                yield from _wrapped(f"  predicted {predicted}, sure {sure}", "    ")


def _environment(document: StudyDocument) -> Iterator[str]:
    known = document.environments
    for name, value in known.common:
        yield from _wrapped(f"{name:18}{value}", " " * 18)
    for row in known.rows:
        yield ""
        cell, state, *values = row
        yield from _wrapped(f"{cell}: {state}")
        shown = [f"{name} {value}" for name, value in zip(known.columns[2:], values, strict=True) if value]
        yield from _wrapped(f"  {'; '.join(shown)}", "  ") if shown else ()
