"""Folded stacks, as flame graphs are made of: of samples, or of the time off the CPU (`offcputime -f`)."""

from __future__ import annotations

import re

from bigiron.readers.figure import Format, Reading, number
from bigiron.readers.profiles.profile import ProfileText, Stack, of_stacks, without_quotes

_STACK = re.compile(r"(\S[^%]*;.*\S) (\d+)$")
_MARK = re.compile(r"^[^\s#%][^%\n]*;[^\n]*\S \d+$", re.MULTILINE)


def _read(text: str) -> Reading:
    """Samples by the innermost function of each stack, or where tasks waited.

    >>> found = _read("cat;read;entry_SYSCALL_64_after_hwframe;vfs_read 3").measured
    >>> found.things[0].name, found.things[0].weight, found.things[0].is_kernel
    ('vfs_read', 3.0, True)
    >>> found = _read("cat;entry_SYSCALL_64_after_hwframe;vfs_read;pipe_read;schedule 9").measured
    >>> found.kind, found.things[0].name, found.things[0].parts[0].callers
    ('waits', 'pipe_read', ('vfs_read', 'entry_SYSCALL_64_after_hwframe'))
    """
    lines = ProfileText(without_quotes(text))
    stacks: dict[Stack, float] = {}
    for at, written in lines:
        if found := _STACK.fullmatch(written.strip()):
            stack = Stack.of(found[1].split(";"), at)
            stacks[stack] = stacks.get(stack, 0.0) + number(found[2], at, "samples")
        else:
            lines.skip(at, written)
    return of_stacks(stacks, lines)


FORMAT = Format("folded", "folded stacks (`A;B;C 12`)", _read, profile=_MARK)
