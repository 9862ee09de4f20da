"""A judgement as a reply to the report, of 72 columns and at most 60 lines."""

import shlex
import textwrap
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase

from bigiron.analysis.comparison import costly
from bigiron.judge.change import CountChange
from bigiron.judge.judgement import Judgement, PredictedChange
from bigiron.judge.second_opinion import Opinion
from bigiron.readers.robot_mail import Reported, RobotMail
from bigiron.report import alignments
from bigiron.report.reply_json import as_json
from bigiron.util.english import first_n, plural
from bigiron.util.numbers import count, percent_change

_WIDTH = 72
_LINES = 60
_CUT = "The rest is left out: --format json has all."
_CHANGES = 3  # shown in full
_FUNCTIONS = 4
_FIGURES = 4
_ELSEWHERE = 2  # branches
_FURTHER = 3  # changes
_HARDLY = 0.005  # a change of instructions whose sign says nothing
_NAME = 160  # longest name from outside that is shown, in characters
_NOISE = 0.5  # a spread of this share of the reported change may explain all of it

_OWN_FIGURES = (
    "path-length",
    "ipc",
    "HITM.total",
    "HITM.local",
    "context-switches",
    "system.cs",
    "cpu-migrations",
)
"""Rows of the report that distinguish causes: instructions per operation, instructions per cycle, cache
lines modified by another core (HITM), and task migrations."""

_ON_THE_MACHINE = {
    "coherence": (
        "perf c2c report should rank this cache line first by HITM",
        "perf c2c report should show fewer HITM for this cache line on the new kernel",
    ),
    "locks": (
        "perf lock contention -a -b should show longer waits for this lock on the new kernel",
        "perf lock contention -a -b should show shorter waits for this lock on the new kernel",
    ),
    "instructions": (
        "perf stat -e instructions should show more instructions per operation (the robot's path-length)",
        "perf stat -e instructions should show fewer instructions per operation (the robot's path-length)",
    ),
}
"""What would confirm a change that costs time, and one that saves time."""
_UNDER_A_LOCK = (
    "perf annotate should show more time in these functions, and perf lock contention -a -b longer waits",
    "perf annotate should show less time in these functions, and perf lock contention -a -b shorter waits",
)
_OF_A_PAIR = "turn off the adjacent-line prefetcher (MSR 0x1a4, bit 1): the difference should disappear"

_NOISE_TRIAL = (
    "repeat the measurement, alternating the kernels: the reported spread is at least half of the change"
)
_TRIALS = (
    "code layout: build both kernels with CONFIG_DEBUG_FORCE_FUNCTION_ALIGN_64B=y; if the difference "
    "disappears, code layout is the cause",
    "task placement: bind each task to a CPU, and compare cpu-migrations",
    "CPU frequency: fix it, turn turbo off, and compare cycles with ref-cycles",
    "noise: repeat the measurement, alternating the kernels, with several boots of each",
)


def as_text(opinion: Opinion) -> str:
    """The reply. Where it would be too long, it shows fewer changes in full."""
    for most in range(_CHANGES, 0, -1):
        lines = list(_lines(opinion, most))
        if len(lines) - 1 <= _LINES:
            break
    if len(lines) - 1 > _LINES:
        lines = [*lines[: _LINES - 1], _CUT]
    return "\n".join(line.rstrip() for line in lines).rstrip() + "\n"


def _lines(opinion: Opinion, most: int) -> Iterator[str]:
    """The verdict; evidence, and what would confirm it; the report's figures; what was not examined."""
    judgement = opinion.judgement
    for paragraph in (
        _wrapped(_verdict(opinion, judgement) if judgement else _same(opinion)),
        _wrapped(_about(opinion)),
        *(_changes(opinion, judgement, most) if judgement else []),
        [] if judgement and judgement.changes else [*_neither(opinion)],
        _wrapped(_instructions(opinion)),
        _wrapped(_prediction(opinion)) if judgement else [],
        _wrapped(_own_figures(opinion.mail)),
        _wrapped(_further(opinion)),
        _wrapped(f"Not examined: {'; '.join(opinion.not_considered)}."),
        _wrapped(_measured(opinion, judgement)) if judgement else [],
    ):
        if paragraph:
            yield from paragraph
            yield ""


def _changes(opinion: Opinion, judgement: Judgement, most: int) -> Iterator[list[str]]:
    for position, change in enumerate(judgement.changes[:most], 1):
        yield [*_change(position, change, opinion)]
    if rest := judgement.changes[most:]:
        named = ", ".join(dict.fromkeys(f"{change.object} ({change.kind})" for change in rest[:most]))
        dots = ", …" if len(rest) > most else ""
        cost = "costs" if len(rest) == 1 else "cost"
        yield _wrapped(f"{plural(len(rest), 'further change')} {cost} less: {named}{dots}.")


def _about(opinion: Opinion) -> str:
    mail = opinion.mail
    titled = f' ("{mail.new.title[:_NAME]}")' if mail.new.title else ""
    test = mail.parameters.get("test") or mail.parameters.get("ipc")
    assumed = " (one per CPU: the report gives no number)" if mail.tasks_are_assumed else ""
    tasks = f" with {plural(mail.tasks, 'task')}{assumed}" if mail.tasks else ""
    cpus = f" on {mail.machine.cpus} CPUs {mail.machine.processor[:_NAME]}".rstrip() if mail.machine else ""
    return (
        f"This is a second opinion on commit {mail.new.id[:12]}{titled}, reported as {mail.metric} "
        f"{percent_change(mail.change)}{_less_is_better(mail)} in {mail.benchmark}"
        f"{f' {test}' if test else ''}{tasks}{cpus}."
        f"{_elsewhere(mail)}{_between(opinion)}"
    )


def _between(opinion: Opinion) -> str:
    """That the change may be another commit's, where that is so."""
    base, new = opinion.names
    if opinion.commits is None:
        return (
            f" {base} and {new} were given by hand: bigiron did not check that they are the report's "
            "commits, and cannot tell which commit between them changed what."
        )
    if opinion.commits < 2:
        return ""
    return f" {opinion.commits:,} commits lie between {base} and {new}: bigiron cannot tell which did it."


def _less_is_better(mail: RobotMail) -> str:
    return " (less is better)" if mail.better == "less" else ""


def _elsewhere(mail: RobotMail) -> str:
    """What the robot says of other branches."""
    elsewhere = ", ".join(f"{one.what} on {one.branch[:_NAME]}" for one in mail.elsewhere[:_ELSEWHERE])
    return f" The robot adds: {elsewhere}." if elsewhere else ""


def _same(opinion: Opinion) -> str:
    base, new = opinion.names
    return (
        f"Judgement: neither, no difference. {base} and {new} have the same {opinion.same}, so their counts "
        "cannot differ, and nothing was booted."
    )


def _verdict(opinion: Opinion, found: Judgement) -> str:
    if found.kind == "neither" and not any(found.work):
        return (
            "Judgement: neither, nothing to compare. While they were recorded, the tasks executed nothing in "
            f"either kernel, {opinion.names[0]} or {opinion.names[1]}: their code cannot explain the report, "
            "unless it runs later or in interrupts."
        )
    if found.kind == "neither":
        return (
            "Judgement: neither, no change costs 1 % of an operation's time. Coherence, locks and "
            f"instructions do not explain the report. Each operation executes {found.work[0]:,.0f} "
            f"instructions on {opinion.names[0]} and {found.work[1]:,.0f} on {opinion.names[1]}. "
            f"It accesses shared cache lines {found.accesses[0]:.2f} and {found.accesses[1]:.2f} times. "
            f"Differences due to chance are left out{_left_out(found)}."
        )
    first = found.changes[0]
    against = ""
    if found.against_the_report:
        faster = "slower" if found.share > 0 else "faster"
        against = f" But this contradicts the report: by these counts the new kernel is {faster}."
    luck = ""
    if first.is_luck:
        luck = f" But where {_plain(first.struct)} happens to begin in a cache line decides it."
    direction = "neither better nor worse" if first.cancels else "worse" if found.share > 0 else "better"
    how_much = f"each operation takes {_longer(found.share)}"
    where = f" This is at {plural(found.at_tasks, 'task')}, if nothing else is the bottleneck."
    predicted = opinion.predicted
    if predicted and _tells_how_much(predicted, found):
        change = percent_change(predicted.change.value)
        how_much, where = f"predicted throughput {change} at {plural(predicted.tasks, 'task')}", ""
    return (
        f"Judgement: {found.kind}, {direction}: {how_much}. {_in_short(first)}{_beside(found)}."
        f"{where}{against}{luck}"
    )


def _tells_how_much(predicted: PredictedChange, found: Judgement) -> bool:
    """Whether throughput is predicted to change in the judgement's direction, by as much as is printed."""
    agrees = predicted.change.value * found.share < 0
    return predicted.tells_sign and agrees and abs(predicted.change.value) >= 0.005


def _beside(found: Judgement) -> str:
    """How many changes the verdict includes, where it is more than one."""
    if found.explaining < 2:
        return ""
    return f" (the first of {found.explaining} such changes)"


def _left_out(found: Judgement) -> str:
    named = ", ".join(name[:_NAME] for name in list(dict.fromkeys(found.left_out))[:_CHANGES])
    return f", and so are changes that cost less: {named}" if named else ""


def _longer(share: float) -> str:
    """How an operation's time changes.

    >>> _longer(0.12), _longer(-0.02), _longer(36.8), _longer(0.002)
    ('12% longer', '2% less time', '38 times as long', 'as long as before')
    """
    if abs(share) < 0.005:
        return "as long as before"
    if share >= 1:
        return f"{1 + share:.0f} times as long"
    return f"{abs(share):.0%} {'longer' if share > 0 else 'less time'}"


def _in_short(change: CountChange) -> str:
    more = "more" if change.after > change.before else "less"
    where = _plain(change.object)
    match change.kind:
        case "locks":
            return f"{where} is {_lock_changed(change)}"
        case "instructions" if change.instruction:
            return f"Each operation executes {change.instruction} {more} often{where and f', in {where}'}"
        case "instructions" if change.locks:
            first = change.locks[0]
            under = f"{_fewer(change)} instructions under {_plain(first.object)}"
            return f"{where or 'Each operation'} executes {under}, which is {_held_by_as_many(first)}"
        case "instructions" if change.cancels:
            return "Some functions execute more instructions and others fewer, and the sum hardly changes"
        case "instructions":
            return f"Each operation executes {_fewer(change)} instructions{where and f', mostly in {where}'}"
    verb = "write" if change.unit == "writes" else "access"
    return (
        f"CPUs {verb} {_plain(change.object)} {more} often"
        f"{' (as a pair of adjacent cache lines)' if change.is_pair else ''}"
    )


def _fewer(change: CountChange) -> str:
    return "more" if change.after > change.before else "fewer"


def _lock_changed(change: CountChange) -> str:
    """The change in the use of a lock that explains its cost."""
    costs = change.cost > 0
    taken, (before, after) = change.after - change.before, change.held or (0.0, 0.0)
    if abs(taken) > 0.01 * change.before + 0.05 and (taken > 0) == costs:
        return f"taken {'more' if costs else 'less'} often"
    if before != after and (after > before) == costs:
        return "held longer" if costs else "held for a shorter time"
    return "no longer shared by readers" if costs else "now shared by readers"


def _change(position: int, change: CountChange, opinion: Opinion) -> Iterator[str]:
    base, new = opinion.names
    lead = f"{position}. "
    yield from _wrapped(f"{lead}{_sentence(change, base, new)}", later=len(lead))
    for label, words in _evidence(change, opinion.mail):
        yield from _wrapped(f"   {label:9}{words}", later=12)


def _sentence(change: CountChange, base: str, new: str) -> str:
    figures = f"{count(change.before)} on {base}, {count(change.after)} on {new}"
    match change.kind:
        case "locks":
            held = (
                f"; hold time {change.held[0]:,.0f} and {change.held[1]:,.0f} instructions"
                if change.held
                else ""
            )
            return f"Locks: {_plain(change.object)}, acquisitions per operation: {figures}{held}."
        case "instructions" if change.instruction:
            others = costly.beyond(change.instruction) + 1
            return (
                f"Executions of {change.instruction} per operation: {figures}{_in(change.object)}. "
                f"Each takes as long as {others:.0f} other instructions."
            )
        case "instructions" if change.locks:
            return (
                f"Instructions per operation in the calls that hold {_plain(change.locks[0].object)}: "
                f"{figures}{_relative(change)}. {_locks_held(change, base, new)}"
            )
        case "instructions":
            where = ", without these calls" if change.elsewhere else ""
            return f"Instructions per operation{where}: {figures}{_relative(change)}."
    what = f", {change.rule.what}" if change.rule and _is_known_by(change) else ""
    pair = " to the pair of adjacent lines (128 bytes)" if change.is_pair else ""
    grown = (
        f" Extrapolated to the report's CPU count: {count(change.at_report[0])} and "
        f"{count(change.at_report[1])}."
        if change.at_report
        else ""
    )
    return f"Coherence: {_plain(change.object)}{what}, {change.unit} per operation{pair}: {figures}.{grown}"


def _held_by_as_many(lock: CountChange) -> str:
    before, after = lock.held or (0.0, 0.0)
    return f"held {'longer' if after > before else 'shorter'} by {abs(after - before):,.0f} instructions"


def _locks_held(change: CountChange, base: str, new: str) -> str:
    """For how long the locks are held by the instructions under them: the first in full."""
    first, *rest = change.locks
    before, after = first.held or (0.0, 0.0)
    more = "longer" if after > before else "shorter"
    others = f" Held {more}, too: {first_n([_plain(one.object) for one in rest], 2)}."
    return (
        f"It is taken as often as before, and held for {before:,.0f} on {base}, {after:,.0f} on {new}."
        f"{others if rest else ''}"
    )


def _in(function: str) -> str:
    return f" (in {_plain(function)})" if function else ""


def _relative(change: CountChange) -> str:
    return f" ({percent_change(change.after / change.before - 1)})" if change.before else ""


def _is_known_by(change: CountChange) -> bool:
    """Whether a rule's description adds to the name of an object; the name of a variable says enough."""
    of_memory = change.object.startswith("struct ") or " " in change.object
    return of_memory or any(
        fnmatchcase(change.object, name) for name in (change.rule.named if change.rule else ())
    )


def _evidence(change: CountChange, mail: RobotMail) -> Iterator[tuple[str, str]]:
    if change.functions:
        functions = list(change.functions.items())[:_FUNCTIONS]
        form = "+,.3g" if change.instruction else "+,.0f"
        yield "in", ", ".join(f"{name} {more:{form}}" for name, more in functions)
    if change.locks:
        yield "taken in", first_n(change.locks[0].writers, _FUNCTIONS)
    if change.writers:
        yield ("taken in" if change.kind == "locks" else "writes"), first_n(change.writers, _FUNCTIONS)
    if change.readers:
        yield "reads", first_n(change.readers, _FUNCTIONS)
    if change.kind == "coherence" and not change.before:
        yield "new", "shared on the new kernel only"
    elif change.joined:
        yield "new", f"{first_n(change.joined, _FUNCTIONS)} did not access this cache line before"
    if seen := _seen(change, mail):
        yield "profile", seen
    if change.by_alignment:
        yield "layout", alignments.by_alignment(change, _plain(change.struct))
    if change.is_pair:
        yield "confirm", _OF_A_PAIR
    elif change.instruction:
        where = f"perf annotate {_plain(change.object)}".rstrip()
        less = "" if change.cost > 0 else "less "
        yield "confirm", f"on that machine, {where} should show {less}time at {change.instruction}"
    elif change.cancels:
        yield "confirm", "on that machine, perf diff of both kernels should show these functions"
    elif change.locks:
        yield "confirm", f"on that machine, {_UNDER_A_LOCK[change.cost < 0]}"
    elif change.kind in _ON_THE_MACHINE:
        yield "confirm", f"on that machine, {_ON_THE_MACHINE[change.kind][change.cost < 0]}"


def _seen(change: CountChange, mail: RobotMail) -> str:
    """Functions of the change that are in the report's profile, with their change there."""
    named = {*change.writers, *change.readers, *list(change.functions or ())[:_FUNCTIONS]}
    found: dict[str, float] = {}
    for row in mail.profile:
        for function in row.profiled.split("."):
            if function in named and "calltrace" not in row.name:
                found.setdefault(function, row.new - row.base)
    return ", ".join(f"{name} {more:+.1f} points in the report" for name, more in list(found.items())[:2])


def _neither(opinion: Opinion) -> Iterator[str]:
    yield "Experiments that would identify the cause, most promising first:"
    trials = [*([_NOISE_TRIAL] if _noisy(opinion.mail) else []), *_TRIALS]
    for trial in trials[: len(_TRIALS)]:
        yield from _wrapped(f"- {trial}.", later=2)


def _noisy(mail: RobotMail) -> bool:
    row = mail.headline
    spread = max(row.base_spread or 0.0, row.new_spread or 0.0) if row else 0.0
    return spread >= _NOISE * abs(mail.change)


_HELD = "4 of 12 published changes lay in such a range"
"""How far the range can be trusted: docs/validation/regressions/real-regressions.md."""


def _prediction(opinion: Opinion) -> str:
    if not (found := opinion.predicted):
        return f"No prediction for the report's machine: {opinion.not_predicted}."
    if opinion.replaces:
        compared = f"It is of {opinion.workload}, and so not compared with the report."
    elif found.reported is None:
        compared = "The report's metric is no throughput: its change is not compared with this."
    else:
        inside = "inside" if found.fits else "outside"
        compared = f"The reported {percent_change(found.reported)} lies {inside} this range."
    source = f"counts ({found.why_counts})" if found.why_counts else "traces"
    return (
        f"Predicted from {source} for {found.tasks} tasks on a machine of the report's shape with the "
        f"latencies of {found.machine}: "
        f"{percent_change(found.change.value)} "
        f"({percent_change(found.change.low)} to {percent_change(found.change.high)}, "
        f"90 % of the samples; {_HELD}){_weighed(found)}. {compared}"
        f"{_unclear_sign(found)}{_contradicted(opinion.judgement, found)}"
    )


def _weighed(found: PredictedChange) -> str:
    return f", with the additional time of {' and '.join(found.weighed)}" if found.weighed else ""


def _unclear_sign(found: PredictedChange) -> str:
    return "" if found.tells_sign else " The sign is unclear: the interval includes 0."


def _contradicted(judgement: Judgement | None, found: PredictedChange) -> str:
    """A sentence where the prediction has the opposite sign of the judgement."""
    if not judgement or not found.tells_sign or judgement.share * found.change.value <= 0:
        return ""
    faster = "faster" if found.change.value > 0 else "slower"
    return f" This contradicts the judgement: it predicts that the new kernel is {faster}."


def _instructions(opinion: Opinion) -> str:
    """Instructions per operation as the report has them, and as they were counted."""
    reported, counted = opinion.instructions
    if reported is None or counted is None:
        return ""
    apart = reported * counted < 0 and min(abs(reported), abs(counted)) >= _HARDLY
    return (
        f"Instructions per operation: the report says {percent_change(reported)} (path-length, which "
        f"includes the program's own), counted {percent_change(counted)}."
        f"{' The signs differ: the workload may do something else than the benchmark.' if apart else ''}"
    )


def _own_figures(mail: RobotMail) -> str:
    rows = [row for ending in _OWN_FIGURES for row in mail.figures if row.name.endswith(ending)]
    headline = [mail.headline] if mail.headline else []
    figures = ", ".join(_own(row) for row in [*headline, *rows][:_FIGURES])
    return f"The report's own figures: {figures}." if figures else ""


def _own(row: Reported) -> str:
    spread = max(row.base_spread or 0.0, row.new_spread or 0.0)
    changed = percent_change(row.change) if row.change is not None else f"{row.new - row.base:+g}"
    return f"{row.name[:_NAME]} {changed}" + (f" (± {spread:.0%})" if spread else "")


def _further(opinion: Opinion) -> str:
    """The other changes in the report that can be judged."""
    named = [f"{one.described[:_NAME]} (--metric {one.number})" for one in opinion.further[:_FURTHER]]
    more = f"; and {len(opinion.further) - _FURTHER} more" if len(opinion.further) > _FURTHER else ""
    listed = f"The report also names these changes, which are not judged here: {'; '.join(named)}{more}."
    return listed if named else ""


def _measured(opinion: Opinion, found: Judgement) -> str:
    mode = f"{opinion.mode} mode, " if opinion.mode else ""
    return (
        f"bigiron counted events in virtual machines and measured no times: {opinion.workload}, "
        f"{mode}{plural(found.tasks, 'task')} on {found.cpus} CPUs, "
        f"{found.repetitions} boots of each kernel. "
        f"All results: bigiron report {shlex.quote(opinion.study)} -o report.html"
    )


def _plain(object: str) -> str:
    return object[:_NAME]


def _wrapped(words: str, later: int = 0) -> list[str]:
    return textwrap.wrap(words, _WIDTH, subsequent_indent=" " * later, break_on_hyphens=False)


FORMATS: dict[str, Callable[[Opinion], str]] = {"text": as_text, "json": as_json}
