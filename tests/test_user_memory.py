"""User memory (--scope user): false sharing shows with its bytes; the harness and private memory do not."""

import re
from pathlib import Path
from typing import Any

import pytest
from conftest import WORKLOADS, bigiron, compared, measured
from hypothesis import given
from hypothesis import strategies as st
from test_compare import LINE, count, profile

from bigiron import compile, workloads
from bigiron.analysis.lines.conflicts import ranges
from bigiron.introspect.mm.pages import PageUse
from bigiron.introspect.symbols import SymbolTable
from bigiron.probes import CellRequest
from bigiron.probes.conflicts import _user_name
from bigiron.workloads.user_memory import UserMemory, UserPage

KERNEL = ("--kernel", "debian/6.12")
MAPS = [
    "00400000-00401000 r--p 00000000 00:02 1 /init",
    "00401000-00500000 rw-p 00000000 00:00 0",
    "1f2e000-1f50000 rw-p 00000000 00:00 0 [heap]",
    "7f0000000000-7f0000001000 rw-s 00000000 00:01 9 /dev/zero (deleted)",
    "7f0000010000-7f0000011000 rw-s 00000000 00:05 7 /tmp/a file",
    "7ffff7ff9000-7ffff7ffb000 r-xp 00000000 00:00 0 [vdso]",
]
SYMBOLS = "0000000000400100 T testcase\n0000000000401040 b counters\n0000000000402000 B _end\n"


def memory(*pages: tuple[int, int, bool]) -> UserMemory:
    """Physical address, virtual address, whether it moved."""
    return UserMemory(
        SymbolTable(SYMBOLS), MAPS, {at: UserPage(virtual, moved) for at, virtual, moved in pages}
    )


# Names


@pytest.mark.parametrize(
    ("virtual", "name"),
    [
        (0x401048, "user:counters+0x8"),
        (0x1F2E0A0, "user:heap+0xa0"),
        (0x7F0000000040, "user:shared memory+0x40"),
        (0x7F0000010008, "user:/tmp/a file+0x8"),
        (0x403010, "user:memory+0x2010"),
    ],
)
def test_what_lies_at_an_address(virtual: int, name: str) -> None:
    page = virtual & ~4095
    assert memory((0x5000, page, False)).name(0x5000 + virtual - page) == name


def test_functions_are_distinguished_from_the_kernel_s() -> None:
    assert memory().lookup(0x400123) == ("user:testcase", 0x23)
    assert memory().lookup(0x7FFFF7FF9010) == ("user:vdso", 0x10)


def test_the_agent_has_the_symbols_that_names_need() -> None:
    agent = compile.agent(workloads.find("counters_packed"), "gcc")
    symbols = SymbolTable(compile.symbols(agent))
    for name in ("_end", "counters", "testcase"):
        assert symbols.address(name), name


# What several tasks can have at once


class Using:
    """Objects in a machine all of whose pages are used for one thing."""

    def __init__(self, use: PageUse) -> None:
        self._use = use

    def use_of(self, physical: int) -> PageUse:
        return self._use


@pytest.mark.parametrize(
    ("use", "mode", "moved", "private"),
    [
        (PageUse.ANONYMOUS, "process", False, True),  # no two processes have it
        (PageUse.ANONYMOUS, "thread", False, False),
        (PageUse.ANONYMOUS, "thread", True, True),  # threads have one address of it
        (PageUse.CACHE, "process", True, False),  # each process may map it elsewhere
        (PageUse.FREE, "thread", False, True),
        (PageUse.KERNEL, "process", False, False),  # not known
    ],
)
def test_memory_that_went_from_one_task_to_another(
    use: PageUse, mode: Any, moved: bool, private: bool
) -> None:
    user = memory((0x5000, 0x401000, moved))
    name = _user_name(0x5040, CellRequest(2, 2, 5, mode), user, Using(use))  # type: ignore[arg-type]
    assert name == ("" if private else "user:counters+0x0")


# Bytes


@given(st.integers(0, 2**128 - 1))
def test_ranges_say_which_bits_are_set(mask: int) -> None:
    bits = 0
    for part in filter(None, ranges(mask).split(",")):
        first, _, last = part.partition("-")
        bits |= sum(1 << bit for bit in range(int(first), int(last or first) + 1))
    assert bits == mask


def test_the_bytes_of_each_cpu_are_shown_where_they_are_apart() -> None:
    (apart,) = profile(count(0, "f", 0, 1, byte=0), count(0, "f", 0, 1, byte=1), count(1, "g", 1, 1, byte=9))
    assert apart["offsets"] == [{"cpu": 0, "bytes": "0-1"}, {"cpu": 1, "bytes": "9"}]
    (together,) = profile(
        count(0, "f", 0, 1, byte=0), count(1, "g", 1, 1, byte=0), count(1, "g", 1, 1, byte=1)
    )
    assert together["offsets"] == []
    assert together["line"] == LINE


# In a machine


def recorded(workload: str, folder: Path, *options: str | Path) -> list[dict[str, Any]]:
    """The rows of user memory, of tasks on 4 CPUs."""
    user = ("--probe", "conflicts", "--scope", "user")
    measured(*((workload,) if workload else ()), *options, *KERNEL, *user, "--cpus", "4", "-o", folder)
    rows: list[dict[str, Any]] = compared(folder, "--context", "all")["rows"]
    return [row for row in rows if "user:" in row["object"] + " ".join(row["functions"])]


@pytest.mark.parametrize("mode", ["process", "thread"])
def test_packed_counters_are_false_sharing(mode: str, tmp_path: Path) -> None:
    (line,) = recorded("counters_packed", tmp_path / "s", "--mode", mode)
    assert (line["object"], line["functions"]) == ("user:counters+0x0", ["user:testcase"])
    assert line["cells"]["debian/6.12"] == {
        "writes_per_op": 1.0,
        "accesses_per_op": 1.0,
        "least_per_op": 1.0,
        "most_per_op": 1.0,
        "layout_per_op": 0.0,
        "writers": 4,
        "readers": 4,
    }
    assert line["false_sharing"]
    assert line["offsets"] == {"debian/6.12": {"0": "0-7", "1": "8-15", "2": "16-23", "3": "24-31"}}


def test_padded_counters_share_nothing_nor_does_the_harness(tmp_path: Path) -> None:
    assert recorded("counters_padded", tmp_path / "s", "--mode", "thread") == []


def test_counters_64_bytes_apart_are_shared_as_a_pair(tmp_path: Path) -> None:
    study = tmp_path / "s"
    assert recorded("counters_paired", study, "--mode", "thread") == []
    rows = [row for row in compared(study, "--line", "128")["rows"] if "user:" in row["object"]]
    assert [row["object"] for row in rows] == ["user:counters+0x0", "user:counters+0x80"]
    assert [row["sharing"][0]["kind"] for row in rows] == ["adjacent lines"] * 2
    for cell in (row["cells"]["debian/6.12"] for row in rows):
        counts = {"writes_per_op": 0.5, "accesses_per_op": 0.5, "least_per_op": 0.5, "most_per_op": 0.5}
        assert cell == counts | {"layout_per_op": 0.0, "writers": 2, "readers": 2}
    assert rows[1]["halves"]["debian/6.12"] == [
        {"object": "user:counters+0x80", "touched": [{"cpus": "2", "writes": True, "bytes": "0-7"}]},
        {"object": "user:counters+0xc0", "touched": [{"cpus": "3", "writes": True, "bytes": "64-71"}]},
    ]
    shown = bigiron("compare", study, "--line", "128").out
    assert "user:counters+0x0: CPU 0 writes bytes 0-7; user:counters+0x40: CPU 1 writes bytes 64-71" in shown
    told = " ".join(bigiron("explain", study).out.split())
    assert "a cache line that other CPUs take by writing the adjacent one" in told


def test_pairs_of_what_has_none_are_refused(open1: Path) -> None:
    answer = bigiron("compare", open1, "--line", "128", "--probe", "instructions")
    assert (answer.status, answer.out) == (2, "")
    assert answer.complaint == "--line 128 applies only to the shared cache lines of the probe conflicts"


def test_padding_to_a_pair_parts_them(tmp_path: Path) -> None:
    recorded("counters_padded", tmp_path / "s", "--mode", "thread")
    rows = compared(tmp_path / "s", "--line", "128")["rows"]
    assert not [row for row in rows if "user:" in row["object"]]


def test_threads_share_variables_the_heap_and_what_the_kernel_copies(tmp_path: Path) -> None:
    rows = recorded("", tmp_path / "s", "--workload-file", WORKLOADS / "threads.c", "--mode", "thread")
    writes = {row["object"]: row["cells"]["debian/6.12"]["writes_per_op"] for row in rows}
    (heap,) = [name for name in writes if re.fullmatch("user:heap\\+0x[0-9a-f]+", name)]
    assert writes == {"user:variable+0x0": 2.0, heap: 1.0, "user:buffer+0x0": 1.0}
    (buffer,) = [row for row in rows if row["object"] == "user:buffer+0x0"]
    assert not [function for function in buffer["functions"] if function.startswith("user:")]
    assert all("vfs_read" in path["path"] or "pread" in path["path"] for path in buffer["paths"])


def test_what_lies_in_two_pages_is_two_lines(tmp_path: Path) -> None:
    """Of which one is written as often as the other, wherever in memory the second page is."""
    rows = recorded("", tmp_path / "s", "--workload-file", WORKLOADS / "two_pages.c", "--mode", "thread")
    assert {row["object"]: row["cells"]["debian/6.12"]["writes_per_op"] for row in rows} == {
        "user:pages+0xffc": 1.0,
        "user:pages+0x1000": 1.0,
    }
