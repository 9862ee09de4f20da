"""What type a variable has: by debugging information made here, as in Debian's kernels, and as BTF has it."""

import random
import struct
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from booted import KERNELS, left_by
from test_btf import PTR, STRUCT, TYPEDEF, Builder

from bigiron.introspect.btf import Btf
from bigiron.introspect.kernel_knowledge import POINTERS, VARIABLES
from bigiron.introspect.variables import of_series
from bigiron.kernels import dwarf, variables

SOURCE = """
struct cache { int size; struct cache *next; };
typedef struct { long sum; } total_t;
typedef total_t *total_p;
enum state { IDLE, BUSY };

extern struct cache declared_first;
struct cache declared_first = { 1 };
struct cache one = { 1 };
static struct cache *pointer = &one;
static struct cache **pointers[4] = { &pointer };
static total_t totals[2][3] = { { { 1 } } };
static volatile total_p total = &totals[0][0];
static struct { int lock; char key[32]; } pool = { 1 };
static enum state state = BUSY;
static long (*compute)(int) = 0;
static void *anything = &one;
static int (*to_array)[4] = 0;
static const struct cache constant = { 2 };
static int twice = 1;

long use(int n)
{
	static int within = 1;

	within++, state = n, compute = 0, anything = 0, to_array = 0, pool.lock++, twice++;
	return pointers[n] != 0 && total->sum + constant.size + within;
}
"""
OTHER = 'static char *twice = ""; static int alike = 1; char *get(int n) { alike++; return twice += n; }'
THIRD = "static int alike = 2; int count(int n) { return alike += n; }"

TYPES = {
    "alike": "int",
    "anything": "*",
    "compute": "*",
    "declared_first": "cache",
    "one": "cache",
    "pointer": "*cache",
    "pointers": "**cache[4]",
    "pool": "{lock,key}",
    "state": "state",
    "to_array": "*",
    "total": "total_p",
    "totals": "total_t[2][3]",
}
"""Neither what is within a function, nor a constant; nor what two files have of different types."""


def linked(folder: Path, *options: str) -> Path:
    """A program that has all its notes in one section, as a kernel has."""
    files = []
    for name, text in (("a", SOURCE), ("b", OTHER), ("c", THIRD)):
        files.append(folder / f"{name}.c")
        files[-1].write_text(text)
    script = folder / "notes.ld"
    script.write_text("SECTIONS { .notes : { *(.note.gnu.build-id) } } INSERT AFTER .rodata;\n")
    program = folder / "vmlinux"
    link = ["-nostdlib", "-static", "-Wl,--build-id,-e,use", f"-Wl,-T,{script}", *options]
    subprocess.run(["gcc", *link, *files, "-o", program], check=True)
    return program


@pytest.mark.parametrize(
    "options",
    [
        ["-g", "-gdwarf-5"],
        ["-g", "-gdwarf-4"],
        ["-g", "-O2", "-gdwarf-5"],
        ["-g", "-gz=zlib"],
        ["-g", "-gno-strict-dwarf", "-fno-debug-types-section"],
    ],
)
def test_types_of_variables(tmp_path: Path, options: list[str]) -> None:
    program = linked(tmp_path, "-fno-toplevel-reorder", *options)
    assert dwarf.types_of_variables(program) == TYPES


def test_of_some_files_only(tmp_path: Path) -> None:
    """What another file has by the same name counts all the same."""
    found = dwarf.types_of_variables(linked(tmp_path, "-g"), lambda source: source.endswith("/b.c"))
    assert found == {"alike": "int"}


def test_what_tells_no_types_says_so(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("no ELF file")
    for path in (text, tmp_path / "nothing", tmp_path, linked(tmp_path)):
        with pytest.raises(dwarf.NoDwarfError):
            dwarf.types_of_variables(path)
        assert variables.read(path) == {}


def test_debugging_information_that_is_damaged(tmp_path: Path) -> None:
    program, chance = linked(tmp_path, "-g"), random.Random(0)
    whole, damaged = program.read_bytes(), tmp_path / "damaged"
    for _ in range(300):
        content = bytearray(whole[: chance.choice([len(whole), chance.randrange(len(whole))])])
        for _ in range(chance.randrange(20)):
            content[chance.randrange(len(content))] = chance.randrange(256)
        damaged.write_bytes(content)
        with suppress(dwarf.NoDwarfError):
            dwarf.types_of_variables(damaged)


def test_a_place_beyond_every_file(tmp_path: Path) -> None:
    """Of the names of sections: such a number is too large for a slice of the file."""
    program = linked(tmp_path, "-g")
    content = bytearray(program.read_bytes())
    (headers,), (names,) = struct.unpack_from("<Q", content, 40), struct.unpack_from("<H", content, 62)
    struct.pack_into("<Q", content, headers + 64 * names + 24, 1 << 63)
    program.write_bytes(content)
    with pytest.raises(dwarf.NoDwarfError):
        dwarf.types_of_variables(program)


def test_what_was_read_is_known_by_the_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BIGIRON_CACHE", str(tmp_path / "cache"))
    variables.known.cache_clear()
    program = linked(tmp_path, "-g")
    build = variables.build_id(dwarf.notes_of(program))
    assert variables.known(build, "6.1.0") == {}
    variables.known.cache_clear()
    assert variables.read(program) == TYPES
    program.unlink()
    assert variables.known(build, "6.1.0") == TYPES
    assert variables.known("", "") == variables.known("../../etc", "6.1") == {}


def test_what_a_distribution_has_of_a_kernel_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BIGIRON_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(variables, "_INSTALLED", (f"{tmp_path}/{{}}/vmlinux",))
    variables.known.cache_clear()
    (tmp_path / "6.1.0").mkdir()
    program = linked(tmp_path / "6.1.0", "-g")
    build = variables.build_id(dwarf.notes_of(program))
    assert variables.known("0" * 40, "6.1.0") == variables.known(build, "../6.1.0") == {}
    assert variables.known(build, "6.1.0") == TYPES


# In the words of BTF


def described(**spelled: str) -> Btf:
    b = Builder()
    integer = b.integer("int", 4)
    lock = b.add(TYPEDEF, "lock_t", integer)
    b.compound(STRUCT, "cache", 16, ("lock", lock, 0), ("next", b.add(PTR, "", 1), 8))
    for size in (8, 16):
        b.compound(STRUCT, "two", size, ("first", integer, 0))
        b.compound(STRUCT, "", size, ("many", integer, 0))
    b.compound(STRUCT, "alike", 8, ("same", integer, 0))
    b.compound(STRUCT, "alike", 8, ("same", lock, 0))
    b.compound(STRUCT, "", 8, ("lock", lock, 0), ("count", integer, 4))
    btf = Btf(b.bytes)
    btf.add_variables(spelled)
    return btf


@pytest.mark.parametrize(
    ("spelled", "size", "offset", "path"),
    [
        ("int", 4, 0, ""),
        ("cache", 16, 0, "lock"),
        ("*cache", 8, 0, ""),
        ("cache[3]", 48, 40, "[2].next"),
        ("*cache[3]", 24, 16, "[2]"),
        ("int[2][3]", 24, 16, "[1][1]"),
        ("cache[]", 0, 40, "[2].next"),
        ("{lock,count}", 8, 4, "count"),
        ("alike", 8, 0, "same"),
        ("*unknown", 8, 0, ""),
        ("*", 8, 0, ""),
        ("two", 0, 0, ""),  # which of the two?
        ("{many}", 0, 0, ""),
        ("unknown", 0, 0, ""),
        ("unknown[4]", 0, 0, ""),
        ("{lock}", 0, 0, ""),
        ("a]b[", 0, 0, ""),
        ("", 0, 0, ""),
    ],
)
def test_a_variable_is_of_the_type_that_is_spelled(spelled: str, size: int, offset: int, path: str) -> None:
    btf = described(it=spelled)
    type = btf.variable("it")
    assert (btf.size(type), btf.place(type, offset, 4 if size else 1).path) == (size, path)


def test_btf_s_type_of_a_variable_comes_first() -> None:
    guest = left_by("debian/6.12")
    btf = guest.btf
    before = btf.variable("runqueues")
    btf.add_variables({"runqueues": "int"})
    assert btf.variable("runqueues") == before


# As in Debian's kernels


@pytest.mark.parametrize(
    ("release", "name", "type"),
    [
        ("6.12.118+deb13-cloud-amd64", "vm_area_cachep", "*kmem_cache"),
        ("5.10.0-46-cloud-amd64", "base_crng", "{key,birth,generation,lock}"),
        ("6.12.1", "base_crng", "{key,generation,lock}"),
        ("5.15.3", "base_crng", "{key,birth,generation,lock}"),  # as in 5.10 and 6.1
        ("6.6.3", "base_crng", None),  # which of the two?
        ("7.9.0", "base_crng", "{key,generation,lock}"),
        ("4.19.0", "base_crng", "{key,birth,generation,lock}"),
        ("6.6.3", "tmigr_hierarchy_levels", "unsigned int"),  # not in 6.1 yet
        ("", "vm_area_cachep", "*kmem_cache"),
    ],
)
def test_a_type_is_as_in_the_series_beside_it(release: str, name: str, type: str | None) -> None:
    assert of_series(release).get(name) == type


@pytest.mark.parametrize("kernel", KERNELS)
def test_nearly_all_types_are_known_to_the_kernel_itself(kernel: str) -> None:
    guest = left_by(kernel)
    btf = Btf(guest.types)
    spelled = of_series(kernel.removeprefix("debian/"))
    btf.add_variables(spelled)
    there = [name for name in spelled if guest.symbols.address(name)]
    assert len(there) > 4000
    assert len([name for name in there if btf.variable(name)]) > 0.99 * len(there)


def test_what_the_walk_starts_from_is_reported() -> None:
    for release in ("5.10", "6.1", "6.12", "7.2"):
        found = of_series(release)
        assert {*VARIABLES, *POINTERS} <= found.keys()
