"""ELF files (elf(5)), read with pyelftools: as that takes 0.1 s to import, this module is loaded lazily."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import IO

from elftools.common.exceptions import ELFError
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from elftools.elf.enums import ENUM_E_MACHINE
from elftools.elf.sections import SymbolTableSection

IN_MEMORY = SH_FLAGS.SHF_ALLOC


class DamagedElfError(Exception):
    """The file is cut short, or is not an ELF file."""


@contextmanager
def reading(file: IO[bytes]) -> Iterator[ELFFile]:
    """Raises DamagedElfError where the file, or what is read from it in the `with` block, is damaged."""
    try:
        yield ELFFile(file)
    except (ELFError, ArithmeticError, AssertionError, AttributeError, LookupError, ValueError) as error:
        raise DamagedElfError(str(error)) from error  # pyelftools checks no offset before it uses it


def machine(elf: ELFFile) -> int:
    """The number of the processor architecture."""
    name: str | int = elf["e_machine"]
    return ENUM_E_MACHINE[name] if isinstance(name, str) else name


def least_bytes(elf: ELFFile) -> int:
    """The length that the file must have to hold its two tables; if it does, its segments as well."""
    end: int = max(
        elf["e_phoff"] + elf["e_phnum"] * elf["e_phentsize"],
        elf["e_shoff"] + elf["e_shnum"] * elf["e_shentsize"],
    )
    if end > elf.stream_len:
        return end
    return max([end, *(segment["p_offset"] + segment["p_filesz"] for segment in elf.iter_segments())])


def kallsyms(elf: ELFFile) -> Iterator[str]:
    """The symbols of a program, a line each, as /proc/kallsyms has them: address, type, name.

    Of the types of nm(1) only "a" (no place), "t" (code) and "d" (data) are used; capitals are global.
    """
    table = elf.get_section_by_name(".symtab")
    if not isinstance(table, SymbolTableSection):
        return
    for symbol in table.iter_symbols():
        section, kind = symbol["st_shndx"], symbol["st_info"]["type"]
        if section == "SHN_UNDEF" or kind in ("STT_FILE", "STT_SECTION") or not symbol.name:
            continue
        letter = "a" if section == "SHN_ABS" else "t" if kind in ("STT_FUNC", "STT_LOOS") else "d"
        if symbol["st_info"]["bind"] != "STB_LOCAL":
            letter = letter.upper()
        yield f"{symbol['st_value']:016x} {letter} {symbol.name}\n"


def places_of_names(elf: ELFFile) -> list[tuple[int, int]]:
    """The addresses at which a kernel's tables of its symbols' names, `kallsyms_*`, begin and end."""
    table = elf.get_section_by_name(".symtab")
    if not isinstance(table, SymbolTableSection):
        return []
    data = sorted(
        (symbol["st_value"], symbol.name)
        for symbol in table.iter_symbols()
        if symbol["st_info"]["type"] in ("STT_NOTYPE", "STT_OBJECT") and symbol.name
    )
    return [(start, end) for (start, name), (end, _) in pairwise(data) if name.startswith("kallsyms_")]
