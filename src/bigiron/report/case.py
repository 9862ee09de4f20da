"""What `bigiron case` prints, and the report that it writes: bigiron's figures beside the published ones."""

import textwrap
from collections.abc import Iterator

from bigiron.cases import Case, Report
from bigiron.cases.case import Claim
from bigiron.study.store import Study

_WIDTH = 100
_VERDICTS = {True: "agrees", False: "does not agree", None: "cannot be told"}


def text(case: Case, study: Study, report: Report) -> str:
    """For a terminal or a mail."""
    return "\n".join(_lines(case, study, report)) + "\n"


def _lines(case: Case, study: Study, report: Report) -> Iterator[str]:
    yield f"{case.name}: {case.description}"
    yield f"measured with {', '.join(map(str, study.spec.cpus))} CPUs"
    yield ""
    for figure in report.figures:
        yield from _wrapped(figure.what, "")
        yield from _wrapped(f"published  {figure.published}", "  ")
        yield from _wrapped(f"here       {figure.ours}", "  ", "             ")
    yield ""
    for claim in report.claims:
        yield from _wrapped(f"{_verdict(claim)}: {claim.says}", "")
        yield from _wrapped(claim.evidence, "  ")
    yield ""
    for note in report.notes:
        yield from _wrapped(note, "")


def _wrapped(line: str, indent: str, later: str | None = None) -> list[str]:
    return textwrap.wrap(
        line, _WIDTH, initial_indent=indent, subsequent_indent=indent + "  " if later is None else later
    )


def _verdict(claim: Claim) -> str:
    return _VERDICTS[claim.agrees]


def markdown(case: Case, study: Study, report: Report) -> str:
    """The report that is written into the study's folder."""
    lines = [
        f"# {case.name}",
        "",
        case.description + ".",
        "",
        f"Measured with {', '.join(map(str, study.spec.cpus))} CPUs on "
        f"{', '.join(variant.name for variant in study.spec.variant)}.",
        "",
        "| | published | here |",
        "|---|---|---|",
        *(f"| {figure.what} | {figure.published} | {figure.ours} |" for figure in report.figures),
        "",
        "| the published text says | | evidence |",
        "|---|---|---|",
        *(f"| {claim.says} | {_verdict(claim)} | {claim.evidence} |" for claim in report.claims),
        "",
        *(f"- {note}" for note in report.notes),
    ]
    return "\n".join(lines) + "\n"
