"""All steps of a series: a table by commit, JSON, a comment, JUnit, KTAP, a page."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

import bigiron
from bigiron.analysis.comparison.limits import LimitedCount
from bigiron.gate.check_lines import CheckedPoint
from bigiron.judge.change import CountChange
from bigiron.patch import compared as comparing
from bigiron.patch import outlook
from bigiron.patch.bench import CPUS
from bigiron.patch.compared import Compared
from bigiron.patch.examine import Examined
from bigiron.report import alignments
from bigiron.report.formats import comment, junit, ktap
from bigiron.report.formats.html import ENVIRONMENT, policy, style_of
from bigiron.report.formats.listing import Listing, code, json_text, markdown_table, plain
from bigiron.report.patch.changelog import block, how_to_reach, identical, in_words, sameness
from bigiron.util.english import cpus_and_tasks, first_n, plural

_SHOWN = 40  # rows of a page's table


def as_text(steps: Sequence[Examined]) -> str:
    """The block of one step, or a table of several."""
    return block(steps[0]) if len(steps) == 1 else Listing(_HEADINGS, map(_row, steps), width=120).as_text()


_HEADINGS = {
    "commit": "commit",
    "subject": "subject",
    "functions": "functions",
    "reach": "reach",
    "does": "does",
}


def _row(one: Examined) -> list[str]:
    """A table row: the commit, how many functions it changes, how many workloads reach them, what it does."""
    reach = f"{one.reached} of {one.workloads}"
    functions = "" if one.functions is None else str(len(one.functions.names))
    return [
        one.after.short,
        one.after.subject,
        functions,
        "" if one.same or one.why_not else reach,
        _does(one),
    ]


def _does(one: Examined) -> str:
    if one.why_not:
        return one.why_not
    if one.same:
        return sameness(one)
    changed = outlook.most_changed(one.compared)
    parts = [f"{comparing.verdict(change)}: {in_words(change)}" for _, change in changed]
    parts += [f"{len(one.failed)} failed"] if one.failed else []
    if not (one.reached or parts):
        return f"no workload reaches it{how_to_reach(one)}"
    return "; ".join(parts) or "nothing"


def as_comment(steps: Sequence[Examined]) -> str:
    """Markdown for a forge: the block or the table, then the counts that are worse."""
    if len(steps) == 1:
        head = f"```\n{block(steps[0])}```\n"
    else:
        rows = [[code(row[0]), *map(plain, row[1:])] for row in map(_row, steps)]
        head = markdown_table(list(_HEADINGS), rows)
    worse = [point for point in _points(steps) if point.worse]
    return f"{head}\n{comment.as_comment(_name(steps), worse)}" if worse else head


def as_junit(steps: Sequence[Examined]) -> str:
    """A suite for each workload that ran."""
    return junit.as_junit(_name(steps), _points(steps))


def as_ktap(steps: Sequence[Examined]) -> str:
    """A test for each workload that ran."""
    return ktap.as_ktap(_name(steps), _points(steps))


def _name(steps: Sequence[Examined]) -> str:
    return f"{steps[0].before.short}..{steps[-1].after.short}"


def _points(steps: Sequence[Examined]) -> list[CheckedPoint]:
    return [point for one in steps for point in _points_of(one, one.after.short if len(steps) > 1 else "")]


def _points_of(one: Examined, commit: str) -> Iterator[CheckedPoint]:
    """Each workload that ran as a point of a check, and one that stands for all others."""
    before = f"{commit}, " if commit else ""
    for each in one.compared:
        place = f"{before}{each.subject.title}, {cpus_and_tasks(CPUS, each.subject.spec.known_tasks(CPUS))}"
        findings = [_finding(change, "small") for change in each.small]
        findings += [_finding(change, "chance") for change in each.by_chance]
        findings += [_finding(change, "real") for change in each.changes]
        yield CheckedPoint(place, place, findings, failed=each.failed)
    if one.why_not:
        yield CheckedPoint(f"{before}the kernel", "", [], failed=one.why_not)
    if why := _why_others_did_not_run(one):
        yield CheckedPoint(f"{before}{why[0]}", "", [], skipped=why[1])


def _why_others_did_not_run(one: Examined) -> tuple[str, str] | None:
    if one.same:
        return "all workloads", identical(one)
    if one.not_reached and not one.why_not:
        others = one.workloads - len({each.subject.name for each in one.compared})
        return plural(others, "other workload"), "no changed function is reached"
    return None


def _finding(change: CountChange, kind: str) -> LimitedCount:
    """A change as a finding. Only a real one that costs time exceeds its limit."""
    before, after, unit = change.before, change.after, change.unit
    if change.held and after <= before and change.held[0] < change.held[1]:
        (before, after), unit = change.held, "instructions held"
    if change.on_average:
        (before, after), unit = change.on_average, f"{unit} (all fields, average over alignments)"
    # What costs more may be counted as often: a lock that now excludes others, say.
    limit = (
        min(before, math.nextafter(after, 0.0))
        if comparing.is_worse(change) and kind != "small"
        else max(before, after)
    )
    by = f"touched by {', '.join(change.by)}" if change.by else ""
    return LimitedCount(
        change.instruction or change.object,
        (unit,),
        (before,),
        (limit,),
        (after,),
        by,
        is_chance=kind == "chance",
    )


def as_json(steps: Sequence[Examined]) -> str:
    """All that is known (docs/reference/schema.md)."""
    return json_text([_document(one) for one in steps])


def _document(one: Examined) -> dict[str, Any]:
    return {
        "commit": one.after.id,
        "subject": one.after.subject,
        "base": one.before.id,
        "kernels": list(one.kernels),
        "worse": bool(one.worse),
        "does_not_build": one.why_not or None,
        "same": one.same or None,
        "functions": asdict(one.functions) if one.functions is not None else None,
        "not_compiled": list(one.not_compiled),
        "options_off": list(one.options_off),
        "workloads": [_workload(each) for each in one.compared],
        "not_reached": sorted({each.name for each in one.not_reached}),
        "ran_anyway": sorted({each.name for each in one.ran_anyway}),
        "only_in_other_contexts": sorted({each.name for each in one.elsewhere}),
        "system_calls": list(one.system_calls),
        "tables": list(one.tables),
        "growth": [
            {
                "kind": each.change.kind,
                "object": comparing.key(each.change)[1] or None,
                "workload": each.subject.title,
                "law": each.law or None,
                "formula": each.formula or None,
                "at": asdict(each.at) if each.at else None,
            }
            for each in one.grown
        ],
        "predicted": [
            {
                "workload": each.subject.title,
                "machine": each.machine,
                "tasks": each.tasks,
                "change": asdict(each.change) if each.change else None,
                "why_not": each.why_not or None,
            }
            for each in one.effects
        ],
        "block": block(one),
    }


def _workload(each: Compared) -> dict[str, Any]:
    return {
        "workload": each.subject.name,
        "mode": None if each.subject.spec.runs_program else each.subject.spec.mode,
        "boots": each.boots,
        "failed": each.failed or None,
        "lost": list(each.lost),
        "instructions_per_op": list(each.instructions),
        "functions": {name: list(both) for name, both in each.functions.items()},
        "changes": list(map(_item, each.changes)),
        "small": list(map(_item, each.small)),
        "differs_in_control": list(map(_item, each.by_chance)),
    }


def _item(change: CountChange) -> dict[str, Any]:
    rule = change.rule.name if change.rule else None
    return {**asdict(change), "rule": rule, "verdict": comparing.verdict(change)}


def as_html(steps: Sequence[Examined]) -> str:
    """One file that opens offline and runs no script."""
    style = style_of("patch")
    return ENVIRONMENT.get_template("patch.html").render(
        name=_name(steps),
        version=bigiron.__version__,
        policy=policy(style, ""),
        style=style,
        headings=_HEADINGS.values(),
        rows=[_row(one) for one in steps],
        steps=[_section(one) for one in steps],
    )


def _section(one: Examined) -> dict[str, Any]:
    rows = [
        (each.subject.title, in_words(change), verdict, _why(change))
        for each in one.compared
        for verdict, changes in _by_verdict(each)
        for change in changes
    ]
    return {
        "title": one.after.title,
        "block": block(one),
        "functions": one.functions,
        "rows": rows[:_SHOWN],
        "hidden": max(0, len(rows) - _SHOWN),
        "ran": [each for each in one.compared if not each.failed],
        "failed": one.failed,
        "not_reached": sorted({each.name for each in one.not_reached}),
    }


def _by_verdict(each: Compared) -> Iterator[tuple[str, Sequence[CountChange]]]:
    for verdict in ("worse", "better", "as long", "by alignment"):
        yield verdict, [change for change in each.changes if comparing.verdict(change) == verdict]
    yield "too small to matter", each.small
    yield "differs in the control, too", each.by_chance


def _why(change: CountChange) -> str:
    """Who does it, what is known of such an object, and how much is where objects lie."""
    rule, luck = change.rule.what if change.rule else "", alignments.by_alignment(change, change.struct)
    return "; ".join(filter(None, (first_n(change.by, 6), rule, luck)))


FORMATS: dict[str, Callable[[Sequence[Examined]], str]] = {
    "text": as_text,
    "comment": as_comment,
    "junit": as_junit,
    "ktap": as_ktap,
    "json": as_json,
    "html": as_html,
}
