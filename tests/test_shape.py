"""The shape of a server, from a machine file: CPUs, nodes, distances and memory, as the kernel sees them."""

import doctest
import re
from pathlib import Path

import pytest
from conftest import WORKLOADS, bigiron, compared, measured

import bigiron as library
from bigiron.errors import UserError
from bigiron.machines import server as servers
from bigiron.machines.server import Server, server
from bigiron.machines.topology import Topology
from bigiron.simulator import machine_files

KERNEL = ("--kernel", "debian/6.12")
FAR = ((10, 21), (21, 10))
TWO = Server("two", 16, 2, 2, 2, 65536, FAR)


@pytest.mark.parametrize(
    ("cpus", "topology", "gib"),
    [
        (1, Topology(1, 1, 1, 1, ((10,),)), 4),
        (2, Topology(2, 2, 1, 1, FAR), 8),
        (8, Topology(2, 2, 4, 1, FAR), 32),  # a thread of each core
        (12, Topology(2, 2, 3, 2, FAR), 48),  # more than there are cores: both threads of fewer
        (16, Topology(2, 2, 4, 2, FAR), 64),
    ],
)
def test_a_part_of_a_server(cpus: int, topology: Topology, gib: int) -> None:
    assert (TWO.part(cpus), TWO.mib_of(cpus)) == (topology, gib * 1024)
    assert topology.cpus == cpus


@pytest.mark.parametrize(
    ("cpus", "complaint"),
    [
        (17, "two has 16 CPUs, not 17"),
        (7, "7 CPUs do not divide evenly"),
        (10, "10 CPUs do not divide evenly"),
    ],
)
def test_what_is_no_part_of_it(cpus: int, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        TWO.part(cpus)


def test_of_many_nodes_a_few_are_taken_from_everywhere() -> None:
    distances = tuple(tuple(10 + 10 * abs(a - b) for b in range(4)) for a in range(4))
    part = Server("four", 16, 4, 4, 1, 65536, distances).part(2)
    assert (part.nodes, part.distances) == (2, ((10, 30), (30, 10)))


def test_real_servers_tell_their_memory() -> None:
    xeon = server("xeon-5418y")
    assert (xeon.cpus, xeon.nodes, xeon.mib, xeon.distances) == (48, 2, 128 << 10, FAR)
    assert server("epyc").part(256) == Topology(2, 2, 64, 2, ((10, 32), (32, 10)))


def test_the_examples() -> None:
    assert doctest.testmod(servers).failed == 0


def test_the_kernel_sees_the_server(tmp_path: Path) -> None:
    node = "/sys/devices/system/node"
    files = {
        f"{node}/online": "0-1",
        f"{node}/node0/distance": "10 32",
        f"{node}/node1/distance": "32 10",
        f"{node}/node1/cpulist": "2-3",
    }
    mine = tmp_path / "mine.toml"
    mine.write_text(machine_files.text("epyc").replace("memory_gib = 512", "memory_gib = 1024"))
    answer = bigiron(
        "run", "--workload-file", WORKLOADS / "tell.c", *KERNEL, "--like", mine, "--cpus", "4",
        "--boot", f"tell={','.join([*files, '/proc/meminfo'])}", "-o", tmp_path / "s",
    )  # fmt: skip
    told = "".join(f"{content}; " for content in files.values())
    complaint = answer.complaint
    assert f"the workload ended by itself with status 0: {told}MemTotal:" in complaint
    mib = int(complaint.rpartition("MemTotal:")[2].split()[0]) >> 10
    assert 15 << 10 < mib < 16 << 10  # 4 GiB a CPU


def test_a_study_keeps_what_it_is_like(tmp_path: Path) -> None:
    mine, study = tmp_path / "mine.toml", tmp_path / "s"
    mine.write_text(machine_files.text("x86-2s"))
    options = ("getppid1", *KERNEL, "--like", mine, "--cpus", "2", "-o", study)
    measured(*options)
    (record,) = library.open_study(study).records()
    environment = record.environment
    assert (environment["like"], environment["memory_mib"], environment["nodes"]) == (str(mine), 8192, 2)
    assert environment["distances"] == [[10, 21], [21, 10]]
    assert (study / "machine.toml").read_text() == mine.read_text()
    mine.write_text(mine.read_text().replace("distance = 21", "distance = 22"))
    answer = bigiron("run", *options)
    assert answer.status == 2 and "asks something else (like_sha256 = " in answer.complaint
    mine.unlink()
    assert compared(study)["rows"] == []  # what is measured needs no machine file


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ("--like altix-512", "altix-512 does not tell how much memory the machine has: copy it"),
        ("--like altix", "no machine 'altix': `bigiron machine list` lists them"),
        ("--like none.toml", "cannot read none.toml|No such file"),
        ("--like x86-2s --cpus 7", "7 CPUs do not divide evenly among the 2 nodes of x86-2s"),
        ("--like x86-2s --cpus 256", "x86-2s has 128 CPUs, not 256"),
        ("--like x86-2s --cpus 8 --topology nodes=2", "both like = 'x86-2s' and topology = 'nodes=2'"),
        ("--like x86-2s --arch ppc64le", "2 threads a core: the emulator's machines have 1 there"),
        ("--like epyc --memory 999999999", "does not fit into this one's"),
        ("--topology threads=2 --arch ppc64le --cpus 4", "2 threads a core: the emulator's machines have 1"),
    ],
)
def test_shapes_that_cannot_be(options: str, complaint: str, tmp_path: Path) -> None:
    answer = bigiron("run", "open1", *KERNEL, *options.split(), "-o", tmp_path / "s")
    assert (answer.status, answer.out) == (2, "")
    assert re.search(complaint, answer.complaint), answer.complaint
    assert not (tmp_path / "s").exists()
