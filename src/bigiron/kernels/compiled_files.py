"""Which files of the source a kernel was compiled from, as make noted them for each object."""

import os
import re
from pathlib import Path

from bigiron.kernels import dwarf

_SOURCE = re.compile(r"^source_\S+ := (\S+\.c)$", re.MULTILINE)


def compiled_from(source: Path, objects: Path, vmlinux: Path) -> set[str]:
    """The files that compilers read, by their paths in `source`, for what `objects` has of this kernel.

    Make leaves there what another configuration of the same source has compiled. So an object of C counts
    only if the debugging information of `vmlinux` has it, or if what is linked by itself is made of it, such
    as the vDSO. Where there is no such information, all objects count.
    """
    of_source = re.compile(rf"(?:{re.escape(str(source))}|\.\./source)/([^\s)\\]+)")

    def named_in(text: str) -> set[str]:
        return set(map(os.path.normpath, of_source.findall(text)))

    notes = {note: note.read_text(errors="replace") for note in objects.rglob(".*.cmd")}
    linked = named_in("\n".join(dwarf.sources(vmlinux)))
    alone = {
        word
        for note, text in notes.items()
        if not note.name.endswith((".o.cmd", ".a.cmd"))
        for word in text.partition("\n")[0].split()
    }

    def is_left_behind(note: Path, text: str) -> bool:
        compiled = _SOURCE.search(text) if note.name.endswith(".o.cmd") else None
        if not (linked and compiled and (file := named_in(compiled[1]))):
            return False
        made = str(note.relative_to(objects).with_name(note.name[1:].removesuffix(".cmd")))
        return file.isdisjoint(linked) and made not in alone

    return {file for note, text in notes.items() if not is_left_behind(note, text) for file in named_in(text)}
