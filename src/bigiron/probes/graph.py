"""Reads the output of the kernel's function graph tracer: the calls and the time of each.

Format: Documentation/trace/ftrace.rst, with the options funcgraph-proc and funcgraph-tail.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

_LINE = re.compile(
    r"\s*(?P<cpu>\d+)\)\s+(?P<task>\S.*?)-(?P<pid>\d+)\s+\|\s+(?:(?P<us>[\d.]+) us)?\s*\|"
    r"  (?P<indent> *)(?P<what>.*)"
)
_CALL = re.compile(r"(?P<name>[\w.]+)(?: \[\w+\])?\(.*?\)(?P<end>;| \{)")


@dataclass(frozen=True)
class TracedCall:
    """One call that returned while it was traced."""

    path: str  # functions that led there, outermost first, ";" between them
    function: str
    task: str  # its name
    cpu: int  # that it returned on
    nanoseconds: int
    self_ns: int  # without what it called and was traced


@dataclass
class _Open:
    function: str
    callees_ns: int = 0


@dataclass
class _Stack:
    """The calls that a task is executing."""

    calls: list[_Open] = field(default_factory=list)

    def path(self) -> str:
        return ";".join(call.function for call in self.calls)

    def returned(self, ns: int) -> None:
        if self.calls:
            self.calls[-1].callees_ns += ns


def calls(lines: Iterable[str]) -> Iterator[TracedCall]:
    """Every call that both started and returned in the trace, in the order in which they returned.

    >>> trace = [
    ...     " 0)  sh-12 |               |  vfs_write() {",
    ...     " 0)  sh-12 |   1.250 us    |    rw_verify_area();",
    ...     " 0)  sh-12 |   4.000 us    |  } /* vfs_write */",
    ... ]
    >>> [(call.path, call.function, call.nanoseconds, call.self_ns) for call in calls(trace)]
    [('vfs_write', 'rw_verify_area', 1250, 1250), ('', 'vfs_write', 4000, 2750)]
    """
    stacks: dict[int, _Stack] = {}
    for text in lines:
        line = _LINE.match(text)
        if not line:
            continue  # a heading, a task switch
        cpu, task, pid = int(line["cpu"]), line["task"], int(line["pid"])
        # All idle tasks have the same number.
        stack = stacks.setdefault(pid or -cpu, _Stack())
        ns = round(float(line["us"]) * 1000) if line["us"] else None
        if call := _CALL.match(line["what"]):
            # What is deeper than this, and has not returned, never did so while it was traced.
            del stack.calls[len(line["indent"]) // 2 :]
            if call["end"] == " {":
                stack.calls.append(_Open(call["name"]))
            elif ns is not None:
                stack.returned(ns)
                yield TracedCall(stack.path(), call["name"], task, cpu, ns, ns)
        elif line["what"].startswith("}") and stack.calls and ns is not None:
            ended = stack.calls.pop()
            stack.returned(ns)
            yield TracedCall(stack.path(), ended.function, task, cpu, ns, max(0, ns - ended.callees_ns))
