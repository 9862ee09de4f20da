"""Stacks with a line per function, innermost first: of bpftrace, and of `offcputime` without -f."""

from __future__ import annotations

import re

from bigiron.errors import UserError
from bigiron.readers.figure import Format, Reading, number
from bigiron.readers.profiles.profile import ProfileText, Stack, of_stacks, without_quotes

_MARK = re.compile(r"^[> ]*@\w*\[(?:[^\]\n]*, ?)?$|^ +-  +\S.* \(\d+\)\n +\d+$", re.MULTILINE)
_OPENS = re.compile(r"@\w*\[(?:[^\]]*, ?)?$")
_FRAME = re.compile(r"\s+(\[?[\w.$:<>~@/ ()*&,-]+?\]?)(?:\+(?:0x[0-9a-f]+|\d+))?(?: \(\S+\))?$")
_NEXT_KEY = re.compile(r", ?$")
_CLOSES = re.compile(r"(?:, [^\]]*)?\]: (\d+)$")
_TASK = re.compile(r"\s+-\s+\S.* \(\d+\)$")
_SUMS_TIMES = re.compile(r"off-CPU (time|stacks)|@(\w*_)?([mun]s(ecs)?|time)\[", re.IGNORECASE)
_TOTAL = re.compile(r"\s+(\d+)$")


def _read(text: str) -> Reading:
    r"""Samples by the innermost function of each stack, or where tasks waited.

    >>> printed = "@us[\n    __schedule+1\n    do_wait+83\n    entry_SYSCALL_64+1\n, sh]: 145\n"
    >>> found = _read(printed).measured
    >>> found.kind, found.things[0].name, found.things[0].weight
    ('waits', 'do_wait', 145.0)
    """
    lines = ProfileText(without_quotes(text))
    stacks: dict[Stack, float] = {}
    frames: list[str] = []
    opened = 0  # the line with which bpftrace began the stack
    for at, written in lines:
        if total := _CLOSES.match(written) or (None if opened else _TOTAL.match(written)):
            if frames:
                stack = Stack.of(frames[::-1], at)
                stacks[stack] = stacks.get(stack, 0.0) + number(total[1], at, "total")
            frames, opened = [], 0
        elif _OPENS.match(written):
            frames, opened = [], at
        elif found := _FRAME.match(written):
            if not _TASK.match(written):
                frames.append(found[1])
        elif not _NEXT_KEY.match(written):
            lines.skip(at, written)
    if opened:
        raise UserError(f"line {opened}: this stack has no total: is the file cut off?")
    return of_stacks(stacks, lines, are_times=bool(_SUMS_TIMES.search(text)))


FORMAT = Format("stacks", "stacks that bpftrace prints (`@[...]: 12`), or `offcputime`", _read, profile=_MARK)
