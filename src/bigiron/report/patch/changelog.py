"""The block for the changelog: at most twelve lines of 72 columns, whatever changed."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

import bigiron
from bigiron.judge.change import CountChange
from bigiron.patch import compared as comparing
from bigiron.patch import outlook
from bigiron.patch.bench import CPUS, Subject
from bigiron.patch.compared import Compared
from bigiron.patch.examine import Examined
from bigiron.patch.outlook import Grown, PredictedEffect
from bigiron.report import alignments
from bigiron.util.english import first_n, join_and, plural
from bigiron.util.numbers import percent_change, short_count

WIDTH, LINES = 72, 12
_NAME = 60  # longest name that is shown, in characters
_SUBJECTS, _FUNCTIONS = 2, 3  # that are named of a change
_WHY = 160  # characters of a reason
_PREDICTED, _WITH_FUNCTIONS, _ALL = 1, 2, 3  # details of a block


def block(one: Examined) -> str:
    """The block for the changelog. Where it would be too long, details are left out, then changes."""
    changed = len(outlook.most_changed(one.compared))
    fewer = range(changed, 0, -1) if changed else (0,)
    attempts = [(changed, _ALL), (changed, _WITH_FUNCTIONS)]
    attempts += [(most, details) for details in (_PREDICTED, 0) for most in fewer]
    for most, details in [*attempts, (0, 0)]:
        lines = [line for paragraph in _paragraphs(one, most, details) for line in paragraph]
        if len(lines) <= LINES:
            break
    return "\n".join(lines[:LINES]) + "\n"


def _paragraphs(one: Examined, most: int, details: int) -> Iterator[list[str]]:
    if one.why_not:
        yield _wrapped(f"{one.after.title}: {one.why_not}")
        return
    tasks = " and tasks" if all(each.subject.spec.knows_tasks for each in one.compared) else ""
    yield _wrapped(
        f"Counted with bigiron {bigiron.__version__} (no times): {one.after.short} compared with "
        f"{one.before.short}, {CPUS} CPUs{tasks}, per operation. {_functions(one)}"
    )
    if one.same:
        yield _wrapped(identical(one))
        return
    changed = outlook.most_changed(one.compared)
    for compared, change in changed[:most]:
        yield _wrapped(f"- {_change(one, compared, change)}", later=2)
    if len(changed) > most:
        yield _wrapped(f"- {plural(len(changed) - most, 'further change')} that cost less", later=2)
    if details >= _WITH_FUNCTIONS and (text := _of_functions(one)):
        yield _wrapped(f"- {text}", later=2)
    if details >= _ALL and (text := _small(one)):
        yield _wrapped(f"- {text}", later=2)
    if details >= _PREDICTED and (predicted := _predicted(one)):
        yield _wrapped(predicted)
    yield _wrapped(_rest(one))


def _functions(one: Examined) -> str:
    """Which functions differ; what else does."""
    if one.same:
        return ""
    if one.functions is None:
        return "The images have no symbols that can be compared."
    if not one.functions:
        return "No function differs, only data."
    names = [name[:_NAME] for name in one.functions.names]
    if not one.functions.of_base:
        return f"Only data and new functions differ: {first_n(names, _FUNCTIONS)}."
    verb = "differs" if len(names) == 1 else "differ"
    return f"{plural(len(names), 'function')} {verb}: {first_n(names, _FUNCTIONS)}."


def identical(one: Examined) -> str:
    needed = [" or ".join(f"CONFIG_{name}"[:_NAME] for name in names) for names in one.options_off]
    off = join_and(needed[:_FUNCTIONS])
    is_off = "is" if len(one.options_off) == 1 else "are"
    advice = f" Changed lines need {off}, which {is_off} off (--config sets options)." if off else ""
    return f"{sameness(one).capitalize()}, so no count can differ: nothing was run.{_left_out(one)}{advice}"


def sameness(one: Examined) -> str:
    but = "" if one.same == "image" else " but for line numbers and types"
    return f"in this configuration the images are the same{but}"


def _left_out(one: Examined) -> str:
    if not one.not_compiled:
        return ""
    files = first_n([name[-_NAME:] for name in one.not_compiled], _FUNCTIONS)
    return f" Not built by this configuration: {files}."


def _change(one: Examined, compared: Compared, change: CountChange) -> str:
    """A change, where it is, how it grows, and how much of it is luck."""
    group = outlook.group_of(change)
    here = sum(outlook.group_of(other) == group for other in compared.changes)
    same = [
        _title(each.subject)
        for each in one.compared
        if each is not compared and any(outlook.group_of(other) == group for other in each.changes)
    ]
    functions = change.by[:_FUNCTIONS]
    by = f" by {join_and([name[:_NAME] for name in functions])}" if functions else ""
    more = f" (and {plural(here - 1, 'more such change')})" if here > 1 else ""
    where = first_n([_title(compared.subject), *same], _SUBJECTS)
    varies = any(counts.varies for counts in change.by_alignment or ())
    luck = alignments.by_alignment(change, change.struct[:_NAME]) if varies else ""
    return f"{in_words(change)}{by}{more} in {where}{_growth(one, change)}{f'; {luck}' if luck else ''}"


def _title(subject: Subject) -> str:
    """A workload's name and mode, or as much of a program's command as there is room for."""
    return subject.title[:_NAME]


def in_words(change: CountChange) -> str:
    """An object and its count before and after; that of its struct on average, where the places decide.

    >>> in_words(CountChange("coherence", "nr_opens", 0.0, 1.0, "accesses", 90.0, 0.1))
    'nr_opens: 0 -> 1.00 accesses'
    """
    figures = f"{short_count(change.before)} -> {short_count(change.after)}"
    match change.kind:
        case "locks":
            held = change.held or (0.0, 0.0)
            longer = f", held for {short_count(held[0])} -> {short_count(held[1])} instructions"
            return f"lock {change.object[:_NAME]}: {figures} times taken{longer}"
        case "instructions" if change.instruction:
            return f"instruction {change.instruction}: {figures} executions"
        case "instructions":
            under = f" under {change.locks[0].object[:_NAME]}" if change.locks else ""
            return f"instructions{' elsewhere' if change.elsewhere else under}: {figures}"
    lines = "adjacent cache lines of " if change.is_pair else ""
    average = ""
    if change.on_average:
        average = (
            f" (all fields, average over alignments: {' -> '.join(map(short_count, change.on_average))})"
        )
    return f"{lines}{change.object[:_NAME]}: {figures} {change.unit}{average}"


def _growth(one: Examined, change: CountChange) -> str:
    found = next((each for each in one.grown if each.change == change), None)
    if found is None:
        return ""
    if found.at is None:
        return "; no growth law fits"
    return f"; {short_count(found.at.value)} at {outlook.AT} CPUs ({_law(found)})"


def _law(found: Grown) -> str:
    return found.law if found.law == "constant" else f"grows with {found.law}"


def _of_functions(one: Examined) -> str:
    """The instructions that the changed functions execute more or less, where most."""
    every = [
        (name, before, after, compared.subject.title)
        for compared in one.compared
        for name, (before, after) in compared.functions.items()
    ]
    found: dict[str, str] = {}
    for name, before, after, title in sorted(every, key=lambda item: -abs(item[2] - item[1])):
        if len(found) < _FUNCTIONS:
            figures = f"{short_count(before)} -> {short_count(after)} in {title[:_NAME]}"
            found.setdefault(name, f"{name[:_NAME]}: {figures}")
    return f"instructions of {'; '.join(found.values())}" if found else ""


def _small(one: Examined) -> str:
    """The cache lines and locks that differ in too small a share of an operation to be a verdict."""
    shown = {outlook.group_of(change) for each in one.compared for change in each.changes}
    largest: dict[comparing.ChangeKey, tuple[CountChange, Subject]] = {}
    for each in one.compared:
        for change in each.small:
            if change.kind not in ("coherence", "locks") or outlook.group_of(change) in shown:
                continue
            found = largest.setdefault(comparing.key(change), (change, each.subject))
            if abs(change.share) > abs(found[0].share):
                largest[comparing.key(change)] = change, each.subject
    if not largest:
        return ""
    change, subject = max(largest.values(), key=lambda item: abs(item[0].share))
    more = f", and {len(largest) - 1} more" if len(largest) > 1 else ""
    return f"less than 1 % of an operation: {in_words(change)} in {_title(subject)}{more}"


def _predicted(one: Examined) -> str:
    """The predicted effect on each machine, with its interval."""
    if not one.effects:
        return ""
    first = one.effects[0]
    known = [effect for effect in one.effects if effect.change]
    if not known:
        return f"No prediction for {_title(first.subject)}: {first.why_not[:_WHY]}."
    parts = [_effect(effect) for effect in known]
    where = f"{_title(first.subject)}, {first.tasks} tasks"
    ranges = "90 % of the samples lie in the ranges in parentheses"
    return f"Predicted for {where}; {ranges}: {'; '.join(parts)}."


def _effect(effect: PredictedEffect) -> str:
    assert effect.change
    bounds = f"{percent_change(effect.change.low)} to {percent_change(effect.change.high)}"
    return f"{effect.machine} {percent_change(effect.change.value)} ({bounds})"


def _rest(one: Examined) -> str:
    """What did not change, what failed, what was not reached or not compared, what the control says."""
    parts = []
    if not one.reached:
        parts.append(f"no workload of {one.workloads} reaches a changed function{how_to_reach(one)}")
    if len(one.compared) > len(one.failed):
        what = "no other change" if one.changed else "no change"
        counted = one.workloads - len({each.subject.name for each in one.failed})
        parts.append(f"{what} costs or saves 1 % in {plural(counted, 'workload')}{_control(one)}")
    if one.failed:
        parts.append(f"{len(one.failed)} failed: {first_n([_title(each.subject) for each in one.failed], 2)}")
    if lost := [each for each in one.compared if each.lost]:
        parts.append(f"counts were lost in {len(lost)}: {_title(lost[0].subject)} ({lost[0].lost[0]})")
    if one.reached and (others := one.workloads - one.reached):
        parts.append(f"{others} do not reach a changed function")
    if one.ran_anyway and one.functions and one.functions.everywhere:
        names = first_n([name[:_NAME] for name in one.functions.everywhere], _FUNCTIONS)
        ran = len({each.name for each in one.ran_anyway})
        parts.append(
            f"{ran} ran in any case, as {names} (used at boot, or a table of functions) may change any"
        )
    if elsewhere := len({each.name for each in one.elsewhere}):
        reach = "reaches" if elsewhere == 1 else "reach"
        parts.append(f"{elsewhere} {reach} one only in interrupts or kernel threads, which are not compared")
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}.{_left_out(one)}"


def _control(one: Examined) -> str:
    """What the base's own boots say of what differed; empty where nothing did, so that none were compared."""
    if not any(each.changes or each.small or each.by_chance for each in one.compared):
        return ""
    left_out = [(change, each.subject) for each in one.compared for change in each.by_chance]
    if not left_out:
        return " (A/A control clean)"
    change, subject = max(left_out, key=lambda item: abs(item[0].cost))
    more = f" and {len(left_out) - 1} more" if len(left_out) > 1 else ""
    return (
        f" (left out, as the A/A control differs there, too: {in_words(change)} in {_title(subject)}{more})"
    )


def how_to_reach(one: Examined) -> str:
    calls = f": system calls that lead there: {', '.join(one.system_calls)}" if one.system_calls else ""
    named = first_n([name[:_NAME] for name in one.tables], _FUNCTIONS)
    tables = f"; through {named}" if one.tables else ""
    return f"{calls}{tables}"


def _wrapped(words: str, later: int = 0) -> list[str]:
    return textwrap.wrap(words, WIDTH, subsequent_indent=" " * later, break_on_hyphens=False)
