"""What `bigiron case` prints and writes: bigiron's figures next to the published ones."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence

from bigiron.cases import Case, CaseReport
from bigiron.cases.case import Claim, PublishedFigure
from bigiron.report.formats import listing
from bigiron.report.formats.listing import plain
from bigiron.study.store import Study

_WIDTH = 100
_VERDICTS = {True: "agrees", False: "does not agree", None: "undecided"}


def as_text(case: Case, studies: Mapping[str, Study], report: CaseReport) -> str:
    """For a terminal or a mail."""
    return "\n".join(_lines(case, studies, report)) + "\n"


def _lines(case: Case, studies: Mapping[str, Study], report: CaseReport) -> Iterator[str]:
    yield f"{case.name}: {case.description}"
    yield _how(studies)
    yield ""
    yield from _found(report.figures, report.claims)
    if report.simulated:
        yield "Simulated:"
        yield ""
        yield from _found(report.simulated.figures, report.simulated.claims)
    for note in report.notes:
        yield from _wrapped(note, "")


def _found(figures: Sequence[PublishedFigure], claims: Sequence[Claim]) -> Iterator[str]:
    for figure in figures:
        yield from _wrapped(figure.what, "")
        yield from _wrapped(f"published  {figure.published}", "  ")
        yield from _wrapped(f"here       {figure.ours}", "  ", "             ")
    yield ""
    for claim in claims:
        yield from _wrapped(f"{_verdict(claim)}: {claim.says}", "")
        yield from _wrapped(claim.evidence, "  ")
    yield ""


def _wrapped(line: str, indent: str, later: str | None = None) -> list[str]:
    return textwrap.wrap(
        line, _WIDTH, initial_indent=indent, subsequent_indent=indent + "  " if later is None else later
    )


def _verdict(claim: Claim) -> str:
    return _VERDICTS[claim.agrees]


def _how(studies: Mapping[str, Study]) -> str:
    """What was measured and simulated, with its CPU counts."""
    parts = []
    for verb, is_model in (("measured", False), ("simulated", True)):
        specs = [study.spec for study in studies.values() if study.spec.engine.is_model == is_model]
        numbers = sorted({cpus for spec in specs for cpus in spec.cpus})
        parts += [f"{verb} with {', '.join(map(str, numbers))} CPUs"] if numbers else []
    return ", ".join(parts)


def as_markdown(case: Case, studies: Mapping[str, Study], report: CaseReport) -> str:
    """The report that is written to the folder of the studies."""
    variants = dict.fromkeys(variant.name for study in studies.values() for variant in study.spec.variant)
    how = _how(studies)
    lines = [
        f"# {case.name}",
        "",
        plain(case.description) + ".",
        "",
        plain(f"{how[0].upper()}{how[1:]}, on {'; '.join(variants)}."),
        "",
        *_tables(report.figures, report.claims),
    ]
    if report.simulated:
        lines += ["## Simulated", "", *_tables(report.simulated.figures, report.simulated.claims)]
    return "\n".join([*lines, *(f"- {plain(note)}" for note in report.notes)]) + "\n"


def _tables(figures: Sequence[PublishedFigure], claims: Sequence[Claim]) -> list[str]:
    return [
        listing.markdown_table(
            ["", "published", "here"],
            [map(plain, (figure.what, figure.published, figure.ours)) for figure in figures],
        ),
        listing.markdown_table(
            ["the published text says", "", "evidence"],
            [map(plain, (claim.says, _verdict(claim), claim.evidence)) for claim in claims],
        ),
    ]
