"""A report in Markdown, as GitHub and most wikis render it. Every name is text."""

from collections.abc import Iterator

from bigiron.analysis.comparison.model import ComparedPoint, ComparedRow
from bigiron.report import growth
from bigiron.report.compare import figure_text
from bigiron.report.formats import lkp
from bigiron.report.formats.listing import code, markdown_table, plain
from bigiron.report.study.document import Grid, Judged, PredictedSection, StudyDocument
from bigiron.results.growth import GrowthReport

_ROWS = 30


def as_markdown(document: StudyDocument) -> str:
    """The whole report."""
    return "\n".join(_blocks(document))


def _blocks(document: StudyDocument) -> Iterator[str]:
    measured = document.planned - len(document.missing)
    yield f"# {plain(document.question)}\n"
    yield (
        f"Study {plain(document.study)}: {measured} of {document.planned} cells measured. "
        f"Made {document.made} by bigiron {document.version}.\n"
    )
    if document.missing:
        yield "**Unfinished.** Missing are\n"
        yield "".join(f"- {plain(cell)}: {plain(why)}\n" for cell, why in document.missing)
    yield "## Answer\n"
    yield from _answer(document)
    if document.predicted:
        yield f"## {plain(document.predicted.title)}\n"
        yield from _predicted(document.predicted)
    if document.judged:
        yield "## Verdicts and curves\n"
        yield from _judged(document.judged)
    for part in document.parts:
        yield f"## {plain(part.title)}\n"
        for table in part.tables:
            yield _table(table)
            yield from (f"{plain(note)}\n" for note in (*table.notes, *table.caveats))
        if part.growth:
            yield f"### Growth of {plain(part.growth.counted.what)}\n"
            yield from _growth(part.growth)
    yield "## Environments\n"
    known = document.environments
    yield "".join(f"- {plain(name)}: {plain(value)}\n" for name, value in known.common)
    yield markdown_table(known.columns, [[plain(cell) for cell in row] for row in known.rows])
    yield "## Reproduce\n"
    yield _fenced("\n".join(command for _, command in document.commands))
    yield "study.toml:\n"
    yield _fenced(document.study_file.rstrip())


def _fenced(content: str) -> str:
    """Whatever backticks are in it."""
    fence = "```"
    while fence in content:
        fence += "`"
    return f"{fence}\n{content}\n{fence}\n"


def _answer(document: StudyDocument) -> Iterator[str]:
    if document.answered:
        yield f"{plain(document.answered)}\n"
    elif not document.answer:
        yield "Nothing measured so far answers it.\n"
    for number, finding in enumerate(document.answer, start=1):
        evidence = "".join(f"   - {plain(label)}: {plain(known)}\n" for label, known in finding.evidence)
        yield f"{number}. {plain(finding.sentence)}\n{evidence}"
    if document.not_recorded:
        yield f"{plain(document.not_recorded)}\n"


def _predicted(predicted: PredictedSection) -> Iterator[str]:
    yield from map(_grid, predicted.tables)
    yield "".join(f"- {plain(note)}\n" for note in predicted.notes)


def _grid(grid: Grid) -> str:
    table = markdown_table(grid.columns, [[plain(cell) for cell in row] for row in grid.rows])
    return f"{plain(grid.heading)}\n\n{table}"


def _judged(judged: Judged) -> Iterator[str]:
    yield from map(_grid, (*judged.verdicts, *judged.scaling))
    for variant, lines in judged.curves:
        yield f"{plain(variant)}:\n"
        yield "".join(f"- {plain(line.strip())}\n" for line in lines)
    yield "".join(f"- {plain(note)}\n" for note in judged.notes)


def _table(table: ComparedPoint) -> str:
    headings = [table.thing]
    for variant in table.variants:
        headings += [f"{variant}: {name}" for name in figure_text.headings(table)]
        headings += ["change"] if variant in table.others else []
    rows = [_row(table, row) for row in table.by_change[:_ROWS]]
    if table.total:
        rows.append(_row(table, table.total))
    left = table.left_out(_ROWS)
    more = f"\n{left} more (`bigiron compare --format csv` has all).\n" if left else ""
    aligned = "l" + "r" * (len(headings) - 1)
    return f"### {plain(table.where)}\n\n{markdown_table(headings, rows, aligned)}{more}"


def _row(table: ComparedPoint, row: ComparedRow) -> list[str]:
    shown = [code(row.main.name)]
    for variant in table.variants:
        shown += map(plain, figure_text.cells_of(table, row, variant, with_spread=True))
        shown += [lkp.change(row.main, table.base, variant)] if variant in table.others else []
    return shown


def _growth(report: GrowthReport) -> Iterator[str]:
    for table in report.tables:
        measured = f"at {table.cpus[0]} - {table.cpus[-1]} CPUs"
        headings = [table.counted.thing, measured, "law", "sure", f"predicted at {table.at}"]
        rows = [
            [code(row.series.name), growth.measured_range(row), *map(plain, growth.in_words(row))]
            for row in (*table.growing, table.total)
        ]
        yield f"#### {plain(table.variant)}, {table.tasks}\n\n{markdown_table(headings, rows, 'lrlrr')}"
