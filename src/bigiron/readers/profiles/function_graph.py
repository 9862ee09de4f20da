"""Traces of the function_graph tracer: `trace-cmd report`, `perf ftrace`, tracefs' trace and trace_pipe."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from bigiron.errors import UserError
from bigiron.readers.figure import Format, Reading, number
from bigiron.readers.profiles.profile import LEAVES_CPU, ProfileText, of_functions, without_quotes
from bigiron.util.measured import symbol

_MARK = re.compile(r"\|[ \t]+[\w.]+(?: \[\w+\])?\([^()|\n]*\)(?: \{|;)(?: |$)", re.MULTILINE)
_CALL = re.compile(r"\s+([\w.]+)(?: \[\w+\])?\(.*\)( \{|;)(?: +/\*.*\*/)?\s*$")
_RETURN = re.compile(r"\s+\}(?: +/\* ([\w.]+).*\*/)?\s*$")
_DURATION = re.compile(r"([\d.]+) us\s*$")
_CPU = re.compile(r"(?:^|[\s|])(\d+)\)|\[(\d+)\]|\s(\d+)[\w.]{4,5}\s")
_TASK = re.compile(r"([^\s|]+-\d+)\s")
_SWITCH = re.compile(r"\s*(\d+)\)\s+\S.*-\d+\s+=>\s+(\S.*-\d+)\s*$")
_LOST = re.compile(r".*\[\d* ?(LOST \d+ EVENTS|EVENTS DROPPED)\]")
_KNOWN = re.compile(
    r"\s*(#.*|-+\s*|cpus=\d+|CPU \d+ is empty|.*\|\s+/\*.*\*/|[^=]*(?:={5,}>|<={5,})\s*\|.*|.*\|\s*)$"
)


@dataclass
class _Call:
    """A function that has not returned yet."""

    name: str
    called_us: float = 0.0  # what the functions that it called took


@dataclass
class _Trace:
    """The time of functions, while the calls of each task are followed."""

    calls: dict[str, list[_Call]] = field(default_factory=dict)  # by task, or CPU where tasks are not printed
    task: dict[str, str] = field(default_factory=dict)  # that a CPU changed to
    own_us: dict[tuple[str, bool], float] = field(default_factory=dict)

    def of(self, where: str) -> list[_Call]:
        """The calls that a line continues, by what stands before its function."""
        where = where.partition("funcgraph_")[0]
        found, task = _CPU.search(where), _TASK.search(where)
        cpu = next(filter(None, found.groups())) if found else ""
        name = task[1] if task else self.task.get(cpu, cpu)
        return self.calls.setdefault(f"{name} {cpu}" if name.endswith("-0") else name, [])

    def returned(self, calls: list[_Call], call: _Call, took_us: float) -> None:
        """Add what a call took without those that it made. Where tasks leave the CPU is not work."""
        if calls:
            calls[-1].called_us += took_us
        if not LEAVES_CPU.fullmatch(call.name):
            of = call.name, True
            self.own_us[of] = self.own_us.get(of, 0.0) + max(0.0, took_us - call.called_us)


def _read(text: str) -> Reading:
    r"""The time of each function without those that it called and that were traced too.

    Calls whose beginning or end the trace lacks are left out.

    >>> found = _read(" 0)               |  dput() {\n 0)   1.5 us    |    iput();\n 0)   4.0 us    |  }")
    >>> [(thing.name, thing.weight) for thing in found.measured.things]
    [('dput', 2.5), ('iput', 1.5)]
    """
    lines, trace = ProfileText(without_quotes(text)), _Trace()
    for at, written in lines:
        before, bar, body = written.rpartition("|")
        if bar and (found := _CALL.match(body)):
            _called(trace, before, found, at)
        elif bar and (found := _RETURN.match(body)):
            _returned(trace, before, found, at)
        elif found := _SWITCH.match(written):
            trace.task[found[1]] = found[2]
        elif _LOST.match(written):
            trace.calls.clear()
        elif not _KNOWN.match(written):
            lines.skip(at, written)
    if not any(trace.own_us.values()):
        raise UserError("no function has a duration: is the file whole, and funcgraph-duration set?")
    return of_functions(trace.own_us, "us of its own", lines)


def _called(trace: _Trace, before: str, found: re.Match[str], at: int) -> None:
    calls, name = trace.of(before), symbol(found[1])
    if found[2] != ";":
        calls.append(_Call(name))
    elif took := _DURATION.search(before):
        trace.returned(calls, _Call(name), number(took[1], at, "duration"))


def _returned(trace: _Trace, before: str, found: re.Match[str], at: int) -> None:
    calls = trace.of(before)
    if found[1] and any(call.name == symbol(found[1]) for call in calls):
        while calls[-1].name != symbol(found[1]):
            calls.pop()  # its end was lost
    if (took := _DURATION.search(before)) and calls:
        call = calls.pop()
        trace.returned(calls, call, number(took[1], at, "duration"))


FORMAT = Format(
    "function-graph", "a trace of the function_graph tracer, as text or by `trace-cmd report`", _read,
    profile=_MARK,
)  # fmt: skip
