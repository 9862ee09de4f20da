"""What `klockstat` prints, of bcc and of libbpf-tools: waits for mutexes and semaphores, by their takers."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass

from bigiron.errors import UserError
from bigiron.readers.figure import Format, Reading, label, number
from bigiron.readers.profiles.profile import NANOSECONDS, ProfileText, measured, without_quotes
from bigiron.util.measured import MeasuredPart, MeasuredThing, symbol

_COLUMNS = r"(Caller|Tid +Comm) +(?:Avg|Average) (Spin|Wait|Hold) +Count +Max"
_MARK = re.compile(rf"^[> \t]*{_COLUMNS}", re.MULTILINE)
_HEADING = re.compile(rf"\s*{_COLUMNS}")
_TIME = r"([\d.]+)(?: (ns|us|ms|s|m|h))?"
_ROW = re.compile(rf"\s*(\[[\w ]+\]|\S+)\s+{_TIME}\s+(\d+)\s+{_TIME}\s+{_TIME}\s*$")
_STARTS_ROW = re.compile(r"\s*\S+\s+[\d.]+(\s|$)")
_CALLER = re.compile(r"\s+(\S+)$")
_LOCK = re.compile(r"\s+Max PID \d+, COMM .*?(?:, Lock (\S+) \(0x[0-9a-f]+\).*)?$")
_KNOWN = re.compile(r"\s*(\^C|Tracing .*lock events.*|Exiting trace .*|\d\d:\d\d:\d\d)?\s*$")
_TYPES = {"mutex_": "mutex", "down_read": "rwsem:R", "down_write": "rwsem:W"}
_EITHER = "mutex or rwsem"  # libbpf-tools traces both, and may leave out the functions that take them


@dataclass
class _Wait:
    """A place where a lock is taken."""

    functions: list[str]  # innermost first
    waited_ns: float
    times: float
    type: str
    lock: str = ""  # the one that took longest, if it is a variable of the kernel

    def called_by(self, function: str) -> None:
        """What stands below it: bcc repeats the first function, libbpf-tools begins with the lock's own."""
        if taken := next((kind for name, kind in _TYPES.items() if self.functions[0].startswith(name)), ""):
            self.type, self.functions = taken, []
        if self.functions != [function]:
            self.functions.append(function)

    @property
    def part(self) -> MeasuredPart:
        """What it has of its lock."""
        return MeasuredPart(
            self.functions[0], self.waited_ns, self.times, callers=tuple(filter(None, self.functions[1:]))
        )


def _read(text: str) -> Reading:
    """The locks, by their variables or the functions that take them."""
    lines = ProfileText(without_quotes(text))
    waits, table = list[_Wait](), ""
    for at, written in lines:
        if found := _HEADING.match(written):
            if found[1] != "Caller":
                raise UserError(f"line {at}: these are waits by thread, not by lock: leave --per-thread out")
            if table == "Hold" and found[2] == "Wait":
                waits.clear()  # the next interval of libbpf-tools: its sums go on
            table = found[2]
        elif _KNOWN.match(written) or (table and _taken(waits, table != "Hold", at, written)):
            continue
        else:
            lines.skip(at, written)
    if not any(wait.functions[0] for wait in waits):
        raise UserError(
            "no function waits for a lock in it: has it the table of waits, "
            "and were kernel addresses shown (/proc/sys/kernel/kptr_restrict)?"
        )
    locks: dict[tuple[str, str, str], list[MeasuredPart]] = defaultdict(list)
    for wait in waits:
        locks[wait.lock, wait.type, "" if wait.lock else wait.functions[0]].append(wait.part)
    things = [
        MeasuredThing(lock, sum(part.weight for part in parts), tuple(parts), type)
        for (lock, type, _function), parts in locks.items()
    ]
    return Reading([], measured=measured("locks", "ns waited", things, lines))


def _taken(waits: list[_Wait], is_wait: bool, at: int, written: str) -> bool:
    """Whether the line is one of a table; those of a table of waits are added."""
    if found := _ROW.match(written):
        if is_wait:
            waits.append(_wait(found, at))
    elif found := _LOCK.match(written):
        if is_wait and waits and found[1] not in (None, "no-ksym"):
            waits[-1].lock = label(found[1], at)
    elif _STARTS_ROW.match(written):
        raise UserError(f"line {at}: this row of a lock ends early: is the file cut off?")
    elif found := _CALLER.match(written):
        if is_wait and waits:
            waits[-1].called_by(_function(found[1], at))
    else:
        return False
    return True


def _wait(found: re.Match[str], at: int) -> _Wait:
    total, unit = found[7], found[8]
    waited = number(total, at, "total") * NANOSECONDS[unit or "ns"]
    return _Wait(
        [_function(found[1], at)], waited, number(found[4], at, "count"), _EITHER if unit else "mutex"
    )


def _function(written: str, at: int) -> str:
    """With Python 3, bcc may print bytes: b'pipe_read+0x4c'."""
    return symbol(label(written.removeprefix("b'").rstrip("'"), at))


FORMAT = Format("klockstat", "what `klockstat` of bcc or libbpf-tools prints", _read, profile=_MARK)
