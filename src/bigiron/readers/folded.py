"""Folded stacks, as flame graphs are made of."""

from __future__ import annotations

import re

from bigiron.readers.figure import Format, Reading, number
from bigiron.readers.profile import Text, of_functions, without_quotes
from bigiron.util.measured import symbol

_STACK = re.compile(r"(\S[^%]*;.*\S) (\d+)$")
_MARK = re.compile(r"^[^\s#%][^%\n]*;[^\n]*\S \d+$", re.MULTILINE)
_KERNEL = re.compile(r"_\[k\]$")
_ENTRY = re.compile(
    r"(^|;)(entry_SYSCALL|asm_exc_|asm_sysvec_|asm_common_|do_syscall_64|el0t?_|system_call|ret_from_fork)"
)


def _read(text: str) -> Reading:
    """Samples by the innermost function of each stack.

    >>> found = _read("cat;read;entry_SYSCALL_64_after_hwframe;vfs_read 3").measured
    >>> found.things[0].name, found.things[0].weight, found.things[0].is_kernel
    ('vfs_read', 3.0, True)
    """
    lines = Text(without_quotes(text))
    samples: dict[tuple[str, bool], float] = {}
    for at, written in lines:
        if found := _STACK.fullmatch(written.strip()):
            innermost = found[1].rpartition(";")[2]
            is_kernel = bool(_KERNEL.search(innermost) or _ENTRY.search(found[1]))
            of = symbol(_KERNEL.sub("", innermost)), is_kernel
            samples[of] = samples.get(of, 0.0) + number(found[2], at, "samples")
        else:
            lines.skip(at, written)
    return of_functions(samples, "samples", lines)


FORMAT = Format("folded", "folded stacks (`A;B;C 12`)", _read, profile=_MARK)
