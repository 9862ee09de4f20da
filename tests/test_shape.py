"""The shape of a server, from a machine file: CPUs, nodes, distances and memory, as the kernel sees them."""

import doctest
import re
from pathlib import Path

import pytest
from conftest import WORKLOADS, bigiron, compared, measured

import bigiron as library
from bigiron.analysis.comparison import explain
from bigiron.analysis.comparison.explain import RecordedPoint
from bigiron.analysis.comparison.findings import LineFinding
from bigiron.analysis.lines import shape
from bigiron.analysis.lines.matching import MatchedLine, SharedLine
from bigiron.analysis.lines.shared_lines import LinesAt
from bigiron.architectures import AARCH64
from bigiron.errors import UserError
from bigiron.machines.shape_change import CHANGES
from bigiron.machines.vm import server as servers
from bigiron.machines.vm import topology as topologies
from bigiron.machines.vm.server import Server, server
from bigiron.machines.vm.topology import Topology
from bigiron.machines.vm.vm_engine import VmEngine
from bigiron.simulator import machine_files
from bigiron.study import plan
from bigiron.study.spec import Spec, Variant

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
    xeon = server("xeon-5418y-x2")
    assert (xeon.cpus, xeon.nodes, xeon.mib, xeon.distances) == (48, 2, 128 << 10, FAR)
    assert server("epyc").part(256) == Topology(2, 2, 64, 2, ((10, 32), (32, 10)))


@pytest.mark.parametrize(
    ("name", "nodes", "gib"),
    [
        ("graviton-16", 1, 32),
        ("graviton2-16", 1, 64),
        ("graviton3", 1, 256),
        ("graviton4-x2", 2, 768),
        ("grace", 1, 480),
    ],
)
def test_arm_s_servers_too(name: str, nodes: int, gib: int) -> None:
    found = server(str(Path(__file__).parent.parent / f"sim/machines/{name}.toml"))
    assert (found.nodes, found.mib >> 10) == (nodes, gib)
    found.part(nodes * 4).check(AARCH64)


def test_the_examples() -> None:
    assert doctest.testmod(servers).failed == doctest.testmod(topologies).failed == 0


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
    options = ("getppid1", *KERNEL, "--like", mine, "--cpus", "2", "--probe", "conflicts", "-o", study)
    measured(*options)
    (record,) = library.open_study(study).records()
    environment = record.environment
    assert (environment["like"], environment["memory_mib"], environment["nodes"]) == (str(mine), 8192, 2)
    assert environment["distances"] == [[10, 21], [21, 10]]
    assert (study / "machine.toml").read_text() == mine.read_text()
    mine.write_text(mine.read_text().replace("distance = 21", "distance = 22"))
    answer = bigiron("run", *options)
    assert answer.status == 2 and "has another question (like_sha256 = " in answer.complaint
    before = compared(study)
    mine.unlink()
    assert compared(study) == before  # what is measured needs no machine file


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ("--like altix-512", "altix-512 does not give the machine's memory: copy it"),
        ("--like altix", "no machine 'altix': `bigiron machine list` lists them"),
        ("--like none.toml", "cannot read none.toml|No such file"),
        ("--like graviton3", "graviton3 is a machine of aarch64, but the kernels are of x86_64: give --arch"),
        (
            "--like epyc --arch aarch64 --cpus 8",
            "epyc is a machine of x86_64, but the kernels are of aarch64",
        ),
        ("--like x86-2s --cpus 7", "7 CPUs do not divide evenly among the 2 nodes of x86-2s"),
        ("--like x86-2s --cpus 256", "x86-2s has 128 CPUs, not 256"),
        ("--like x86-2s --cpus 8 --topology nodes=2", "both like = 'x86-2s' and topology = 'nodes=2'"),
        ("--cpus 5000", "5000 CPUs: emulated machines of x86_64 have at most 4096"),
        ("--like x86-2s --arch ppc64le", "2 threads per core: the emulated machines have at most 1"),
        ("--like epyc --memory 999999999", "and this host has"),
        (
            "--topology threads=2 --arch ppc64le --cpus 4",
            "2 threads per core: the emulated machines have at most 1",
        ),
    ],
)
def test_shapes_that_cannot_be(options: str, complaint: str, tmp_path: Path) -> None:
    answer = bigiron("run", "open1", *KERNEL, *options.split(), "-o", tmp_path / "s")
    assert (answer.status, answer.out) == (2, "")
    assert re.search(complaint, answer.complaint), answer.complaint
    assert not (tmp_path / "s").exists()


def test_more_cpus_than_any_machine_came_up_with(caplog: pytest.LogCaptureFixture) -> None:
    vms = VmEngine("x86_64", "", memory=64)
    vms.prepare([8, 1024])
    assert not caplog.messages
    vms.prepare([8, 2048])
    assert caplog.messages == [
        "no virtual machine with more than 1024 CPUs has come up yet: "
        "one with 2048 may take 515 minutes until it fails (--deadline)"
    ]


# What depends on the shape


def line(object: str, accesses: float) -> SharedLine:
    return SharedLine(object, {"f": accesses}, accesses, accesses, 2, 2, false_sharing=False)


def marks(
    asked: dict[str, float], changed: dict[str, float], of: str = "memory"
) -> tuple[list[str], list[str]]:
    lines = [line(name, accesses) for name, accesses in asked.items()]
    others = [line(name, accesses) for name, accesses in changed.items()]
    found = shape.depends({"v": lines}, [shape.LinesOfShape(of, "with 8 GiB", {"v": others})])
    return [mark for one in lines for mark in found.of([one])], found.more


@pytest.mark.parametrize(
    ("asked", "changed", "mark"),
    [
        ({"a.x": 6.0}, {}, ["depends on memory (gone with 8 GiB)"]),
        ({"a.x": 6.0}, {"a.x": 0.04}, ["depends on memory (gone with 8 GiB)"]),
        ({"a.x": 6.0}, {"a.x": 2.0}, ["depends on memory (2.000 instead of 6.000 accesses with 8 GiB)"]),
        ({"a.x": 6.0}, {"a.x": 5.5}, []),  # as two runs may differ
        ({"a.x": 0.09}, {}, []),  # too little to be told of
    ],
)
def test_a_line_that_goes_or_changes_is_marked(
    asked: dict[str, float], changed: dict[str, float], mark: list[str]
) -> None:
    assert marks(asked, changed) == (mark, [])


def test_what_another_boot_changes_too_may_not_be_memory_s() -> None:
    """But on turns it depends, which the same boot takes otherwise."""
    asked = {"v": [line("a.x", 6.0), line("b.y", 6.0)]}
    other = {"v": [line("a.x", 2.0), line("c.z", 1.0), line("d.w", 1.0)]}
    again = {"v": [line("a.x", 6.0), line("c.z", 2.0)]}
    found = shape.depends(
        asked,
        [
            shape.LinesOfShape("memory", "with 8 GiB", other, boots=True),
            shape.LinesOfShape("time slices", "with time slices at random", other),
            shape.LinesOfShape("the boot", "when booted again", again, boots=True),
        ],
    )
    assert [found.of([one]) for one in asked["v"]] == [
        (
            "depends on memory (2.000 instead of 6.000 accesses with 8 GiB)",
            "depends on time slices (2.000 instead of 6.000 accesses with time slices at random)",
        ),
        (
            "depends on memory or the boot (gone with 8 GiB)",
            "depends on time slices (gone with time slices at random)",
            "depends on the boot (gone when booted again)",
        ),
    ]
    assert found.more == [
        "v: depends on memory or the boot (comes with 8 GiB): c.z 1.000 accesses per operation",
        "v: depends on memory (comes with 8 GiB): d.w 1.000 accesses per operation",
        "v: depends on time slices (comes with time slices at random): "
        "c.z 1.000, d.w 1.000 accesses per operation",
        "v: depends on the boot (comes when booted again): c.z 2.000 accesses per operation",
    ]


def test_a_line_that_comes_is_reported() -> None:
    assert marks({"a.x": 6.0}, {"a.x": 6.0, "b.y": 1.5}) == (
        [],
        ["v: depends on memory (comes with 8 GiB): b.y 1.500 accesses per operation"],
    )


def test_what_depends_does_not_lead() -> None:
    first, second = MatchedLine({"v": line("a.x", 6.0)}), MatchedLine({"v": line("b.y", 1.0)})
    first.depends = ("depends on memory (gone with 8 GiB)",)
    point = LinesAt(8, 8, ["v"], "v", [first, second], {}, {})
    found = explain.explain(RecordedPoint(point, None, None)).findings
    assert [finding.rows for finding in found if isinstance(finding, LineFinding)] == [[second], [first]]


def test_each_cell_is_planned_again_with_each_shape() -> None:
    asked = Spec(workload="open1", cpus=[2, 4], check_shape=True, variant=[Variant(name="v")])
    planned = plan.cells(asked)
    assert len({cell.id for cell in planned}) == len(planned) == 2 * (1 + len(CHANGES))
    assert [cell.id for cell in planned][:3] == [
        "v-2cpus-2tasks-r1",
        "v-4cpus-4tasks-r1",
        "v-2cpus-2tasks-r1-4x-memory",
    ]
    assert str(planned[2]) == "v, 2 CPUs, 4x memory"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """mmap1 where a mapping of 128 MiB exceeds vm_committed_as' batch: 512 MiB / 2 CPUs / 4 is 64."""
    study = tmp_path_factory.mktemp("small") / "s"
    options = ("--cpus", "2", "--memory", "512", "--operations", "100", "--probe", "conflicts", "-o", study)
    measured("mmap1", *KERNEL, *options)
    assert not any("depends" in row for row in compared(study)["rows"])
    checked = measured("mmap1", *KERNEL, *options, "--check-shape")  # a study can be checked later
    assert "5 of 5 cells measured" in checked.out
    return study


GONE = "depends on memory (gone with 2 GiB)"


def test_a_small_machine_s_falsehood_is_marked(small: Path) -> None:
    (row,) = [row for row in compared(small)["rows"] if row["object"].startswith("vm_committed_as")]
    assert row["cells"]["debian/6.12"]["writes_per_op"] > 5
    assert GONE in row["depends"]
    assert f"\n      {GONE}\n" in bigiron("compare", small).out
    assert GONE in bigiron("compare", small, "--format", "markdown").out
    told = " ".join(bigiron("explain", small).out.split())
    assert f"It {GONE}." in told
    page = small.parent / "page.html"
    assert bigiron("report", small, "-o", page).status == 0
    assert GONE in page.read_text()


def test_shapes_are_cells_of_the_study(small: Path) -> None:
    study = library.open_study(small)
    assert {record.change for record in study.all_records()} == {"", *(change.name for change in CHANGES)}
    assert [record.change for record in study.records()] == [""]
    known = {record.change: record.environment for record in study.all_records()}
    assert [known[name]["memory_mib"] for name in ("", "4x-memory", "2x-nodes")] == [512, 2048, 512]
    assert [known[name]["nodes"] for name in ("", "4x-memory", "2x-nodes")] == [1, 1, 2]
    assert [known[name]["time_slice"] for name in ("", "time-slices-of-10", "time-slices-at-random")] == [
        "operation", "10 operations", "random"
    ]  # fmt: skip
    times = {record.change: record.times for record in study.all_records()}
    assert "booting" in times["booted-again"] and "resuming" not in times["booted-again"]
    assert "resuming" in times["time-slices-of-10"]
    assert study.tables("conflicts")["cell"].unique().to_list() == ["debian-6.12-2cpus-2tasks-r1"]
    answer = bigiron("run", small)
    assert answer.status == 0 and "every cell of" in answer.out


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ("--cpus 1 --check-shape", "1 CPUs do not divide evenly into 2 nodes, 2 times the requested"),
        (
            "--check-shape --probe instructions",
            "check_shape compares shared cache lines: add --probe conflicts",
        ),
        ("--check-shape --memory 400000", "a machine with 8 CPUs and 1600000 MiB writes"),
    ],
)
def test_shapes_that_cannot_be_checked(options: str, complaint: str, tmp_path: Path) -> None:
    answer = bigiron("run", "open1", *KERNEL, *options.split(), "-o", tmp_path / "s")
    assert (answer.status, answer.out) == (2, "")
    assert complaint in answer.complaint
