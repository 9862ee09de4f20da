"""Machine files: listed, shown, checked, and measured here."""

import doctest
import math
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from conftest import bigiron

from bigiron import _sim
from bigiron.errors import UserError
from bigiron.simulator import machine_files, machine_measure
from bigiron.simulator.machine_measure import Host

ROOT = Path(__file__).parents[1]
FILES = sorted([*ROOT.glob("sim/machines/*.toml"), *ROOT.glob("cases/*/machine.toml")])


def test_every_machine_is_listed_and_shown() -> None:
    listed = bigiron("machine", "list", "--format", "csv").out
    for name, text in _sim.machines():
        machine = machine_files.load(name)
        assert f"{name},{machine.cpus},{machine.nodes},{machine.description}" in listed.replace('"', "")
        assert machine_files.text(name) == text
    assert bigiron("machine", "show", "altix-512").out == machine_files.text("altix-512")


def says_how_fast_a_clean_cache_line_is_read(machine: Mapping[str, Any]) -> bool:
    known = machine["shared_read_ns"] > 0 and machine["shared_read_source"]
    return known and "shared read" in [figure["of"] for figure in machine["range"]]


def figures(machine: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The latencies of a file, each with its source."""
    own = [(key.removesuffix("_ns").replace("_", " "), key) for key in machine if key.endswith("_ns")]
    found = [(of, machine[key.replace("_ns", "_source")]) for of, key in own]
    for level in machine["level"]:
        of_level = [kind for kind in ("transfer", "memory") if f"{kind}_ns" in level]
        found += [(f"{level['name']} {kind}", level.get(f"{kind}_source", "")) for kind in of_level]
    return found


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_machine_with_processors_says_how_fast_a_clean_cache_line_is_read(file: Path) -> None:
    machine = tomllib.loads(file.read_text())
    assert "processor" not in machine or says_how_fast_a_clean_cache_line_is_read(machine)


@pytest.mark.parametrize("file", sorted(ROOT.glob("sim/machines/*.toml")), ids=lambda file: file.stem)
def test_each_estimated_latency_has_a_range(file: Path) -> None:
    machine = tomllib.loads(file.read_text())
    if file.stem != "uniform":  # it is like no real machine, and names no sources
        ranges = {one["of"] for one in machine["range"]}
        assert {
            of for of, source in figures(machine) if source.startswith(("estimated", "inferred"))
        } <= ranges


def test_every_machine_of_an_architecture_names_it() -> None:
    files = ROOT.glob("sim/machines/*.toml")
    silent = {file.stem for file in files if "architecture" not in tomllib.loads(file.read_text())}
    assert silent == {"uniform"}
    assert machine_files.load("uniform", "aarch64").architecture == "aarch64"
    assert machine_files.load("altix-512", "aarch64").architecture == "ia64"


@pytest.mark.parametrize(
    ("name", "node", "cache", "nodes"),
    [
        ("granite-rapids-128c-x2", "die", "die", 6),
        ("sierra-forest-144c-x2", "socket", "socket", 2),  # four cores share the second level
        ("xeon-phi-288", "chip", "tile", 1),
        ("power9-16c-x2", "socket", "pair", 2),
        ("power9-4c-x2", "socket", "core", 2),
    ],
)
def test_nodes_and_caches_are_the_processor_s(name: str, node: str, cache: str, nodes: int) -> None:
    text = (ROOT / f"sim/machines/{name}.toml").read_text()
    machine = tomllib.loads(text)
    assert (machine["node"], machine.get("cache", machine["node"])) == (node, cache)
    assert _sim.Machine.from_toml(text).nodes == nodes


def test_only_machines_of_whose_cores_no_figure_was_found_take_skylake_s_store_buffer() -> None:
    machines = {file.stem: tomllib.loads(file.read_text()) for file in ROOT.glob("sim/machines/*.toml")}
    assert all(machine["store_buffer_source"] for machine in machines.values() if "store_buffer" in machine)
    assert {name for name, machine in machines.items() if "store_buffer" not in machine} == {
        *("altix-512", "altix-512-by-8", "graviton3", "kunpeng-920", "kunpeng-920-x2"),
        *("power9-16c-x2", "power9-4c-x2", "sierra-forest-144c-x2", "uniform", "xeon-phi-288"),
    }


@pytest.mark.parametrize(
    ("name", "figure", "measured"),
    [
        ("epyc", "socket transfer", (304, 197)),  # 2x EPYC 7763, 2x 7R13: medians
        ("epyc", "group transfer", (123, 107)),
        # An Altra Q80-30 whose socket is one node, or two; Graviton 2, of the same core and mesh.
        ("altra-q80", "pair transfer", (181, 158, 47)),
        ("altra-q80", "core transfer", (93, 82, 47)),
        ("altra-max-m128", "pair transfer", (181, 158, 47)),
        ("altra-max-m128-x2", "pair transfer", (181, 158, 47)),
    ],
)
def test_a_range_holds_what_was_measured(name: str, figure: str, measured: tuple[float, ...]) -> None:
    machine = tomllib.loads((ROOT / f"sim/machines/{name}.toml").read_text())
    [found] = [one for one in machine["range"] if one["of"] == figure]
    assert all(found["low"] <= value <= found["high"] for value in measured)
    [level] = [level for level in machine["level"] if f"{level['name']} transfer" == figure]
    other = measured[-1] if name.startswith("altra-max") else measured[0]
    assert level["transfer_ns"] == round(math.sqrt(measured[0] * other))


def test_a_wrong_file_is_one_line(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.toml"
    wrong.write_text(machine_files.text("epyc").replace("transfer_ns = 123", "transfer_ns = -123"))
    shown = bigiron("machine", "show", str(wrong))
    assert shown.status == 2
    assert (
        shown.err
        == f"bigiron: {wrong}: range of group transfer: -123, the figure itself, is not in 85 to 140\n"
    )
    missing = bigiron("machine", "show", str(tmp_path / "none.toml"))
    assert (missing.status, missing.err.count("\n")) == (2, 1)
    with pytest.raises(UserError, match="no machine 'cray'"):
        machine_files.load("cray")


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one CPU only")
def test_this_machine_is_measured(tmp_path: Path) -> None:
    here = tmp_path / "here.toml"
    done = bigiron("machine", "measure", "-o", str(here))
    assert done.status == 0, done.err
    assert says_how_fast_a_clean_cache_line_is_read(tomllib.loads(here.read_text()))
    machine = machine_files.load(str(here))
    assert machine.cpus == len(os.sched_getaffinity(0))
    assert all(source for _what, _value, source in machine.sources)
    assert 0 < machine.transfer_ns(0, 0) < machine.transfer_ns(0, 1)
    assert machine.has_processor and any("transfer" in name for name, *_ in machine.unknowns)
    clock = tomllib.loads(here.read_text())["processor"]["turbo_ghz"]
    assert clock[0][0] == 1 and all(ghz > 0 for _cores, ghz in clock)


def test_the_examples() -> None:
    assert doctest.testmod(machine_measure).failed == 0


def test_a_large_machine_becomes_a_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    # Two sockets of two nodes; groups of two cores of two threads; one core is switched off.
    places = {
        cpu: (socket, 2 * socket + node, 10 * socket + node, core, cpu)
        for cpu, (socket, node, core, _thread) in enumerate(
            (s, n, c, t) for s in range(2) for n in range(2) for c in range(2) for t in range(2)
        )
    }
    del places[15], places[14]
    took = {0: 200.0, 1: 150.0, 2: 90.0, 3: 50.0, 4: 8.0}
    host = Host(places, cache_bytes=210 << 20)
    monkeypatch.setattr(_sim, "transfer_ns", lambda a, b: took[host.parting(a, b)])
    asked: dict[str, list[list[int]]] = {}
    walked: set[int] = set()

    def memory_ns(a: int, b: int, size: int) -> float:
        walked.add(size)
        return 90.0 if a == b else 90 + took[host.parting(a, b)]

    def fill_gb_per_s(cpus: list[int], size: int) -> float:
        walked.add(size)
        asked.setdefault("fill_gb_per_s", []).append(cpus)
        return 20.0

    monkeypatch.setattr(_sim, "memory_ns", memory_ns)
    monkeypatch.setattr(_sim, "fill_gb_per_s", fill_gb_per_s)
    monkeypatch.setattr(_sim, "wakeup_ns", lambda _a, _b: 2000.0)
    monkeypatch.setattr(machine_measure, "sleep", lambda _seconds: None)

    def of_cpus(name: str, value: float | None) -> None:
        monkeypatch.setattr(_sim, name, lambda cpus: asked.setdefault(name, []).append(cpus) or value)

    for name, value in (("clock_ghz", 3.0), ("added_ns", 90.0), ("read_ns", 60.0)):
        of_cpus(name, value)
    of_cpus("handover_ns", None)  # as where the CPUs are busy
    monkeypatch.setattr(_sim, "system_call_ns", lambda _cpu: 100.0)
    said: list[str] = []
    text = machine_measure.measure(host, "large", said.append)
    assert says_how_fast_a_clean_cache_line_is_read(tomllib.loads(text))
    assert walked == {4 * 210 << 20}
    assert "random loads from 840 MiB" in tomllib.loads(text)["memory_source"]
    machine = _sim.Machine.from_toml(text)
    assert machine.levels == [("socket", 2), ("node", 4), ("core", 7), ("thread", 14)]
    assert (machine.cpus, machine.nodes) == (14, 4)
    assert [machine.transfer_ns(0, cpu) for cpu in (1, 2, 4, 8)] == [8, 50, 150, 200]
    memory = {level["name"]: level.get("memory_ns") for level in tomllib.loads(text)["level"]}
    assert memory == {"socket": 290, "node": 240, "core": None, "thread": None}
    assert asked["clock_ghz"] == [[0], [0, 2, 4, 6]] and asked["fill_gb_per_s"] == [[0], [0, 2]]
    assert asked["added_ns"][:2] == [[0, 2], [0, 2, 4, 6]] and len(asked["added_ns"][-1]) == 14
    assert tomllib.loads(text)["processor"]["turbo_ghz"] == [[1, 3.0], [4, 3.0]]
    rows = [dict(row) for row in tomllib.loads(text)["contended"]]
    assert [row["cpus"] for row in rows] == [2, 4, 8, 14]
    assert (rows[0]["add_ns"], rows[0]["read_ns"], "handover_ns" in rows[0]) == (90, 60, False)
    assert "2 CPUs at one line: they are busy with other work: measure again when they are idle" in said
    assert ("add, 2 CPUs at once", "90", rows[0]["source"]) in machine.sources
    wrong = text.replace("add_ns = 90.0", "add_ns = -90.0", 1)
    with pytest.raises(ValueError, match="contended, 2 CPUs: add takes -90 ns: use a number above zero"):
        _sim.Machine.from_toml(wrong)


def test_the_measured_memory_is_bounded_by_what_is_available(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "meminfo").write_text("MemTotal:  9 kB\nMemAvailable:   2097152 kB\n")
    caches = {0: ("0-1", "3"), 1: ("0-1", "3"), 2: ("2", "3"), 3: ("3", "2")}
    for cpu, (shared, level) in caches.items():
        cache = tmp_path / f"cpu/cpu{cpu}/cache/index3"
        cache.mkdir(parents=True)
        for name, text in (("shared_cpu_list", shared), ("level", level), ("size", "107520K")):
            (cache / name).write_text(f"{text}\n")
    assert machine_measure._third_level_bytes(tmp_path) == 210 << 20
    monkeypatch.setattr(machine_measure, "host_mib", lambda: 4096)
    assert machine_measure._available_bytes(tmp_path / "meminfo") == 2 << 30
    monkeypatch.setattr(machine_measure, "host_mib", lambda: 1024)
    assert machine_measure._available_bytes(tmp_path / "meminfo") == 1 << 30


def test_cores_that_share_a_cache_are_measured_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    # One socket of two groups of two cores.
    host = Host({cpu: (0, 0, cpu // 2, cpu, cpu) for cpu in range(4)})
    monkeypatch.setattr(_sim, "transfer_ns", lambda a, b: 90.0 if a // 2 != b // 2 else 25.0)
    for name in ("memory_ns", "wakeup_ns"):
        monkeypatch.setattr(_sim, name, lambda *_of: 100.0)
    for name in ("clock_ghz", "fill_gb_per_s", "added_ns", "read_ns", "handover_ns"):
        monkeypatch.setattr(_sim, name, lambda *_of: 10.0)
    monkeypatch.setattr(machine_measure, "sleep", lambda _seconds: None)
    text = machine_measure.measure(host, "groups", lambda _said: None)
    assert tomllib.loads(text)["cache"] == "group"
    assert _sim.Machine.from_toml(text).levels == [("node", 1), ("group", 2), ("core", 4)]


def test_a_sweep_gives_where_time_went() -> None:
    machine = _sim.Machine.named("x86-2s").with_cpus(4)
    run = {"warmup_ns": 1e5, "duration_ns": 1e6, "event_budget": 10**8}
    points = [
        _sim.Point("lock-bound", machine, [("lock", lock)], seed=1, **run, timeline_ns=(1e5, 1.01e5))
        for lock in ("ticket", "mcs")
    ]
    for result in _sim.simulate(points):
        assert result["operations"] == sum(result["cpus"]["operations"])
        spent = ("user_ns", "work_ns", "queueing_ns", "transfer_ns", "spinning_ns", "idle_ns")
        for times in zip(*(result["cpus"][kind] for kind in spent), strict=True):
            assert sum(times) == pytest.approx(result["elapsed_ns"])
        assert result["locks"][0]["acquired"] > 0
        assert '"traceEvents"' in result["timeline"]
    few = _sim.Point("lock-bound", machine, [], seed=1, **{**run, "event_budget": 10})
    assert _sim.simulate([few])[0]["error"].startswith("livelock at ")
    with pytest.raises(ValueError, match="lock-bound has no parameter colour: it has lock, think"):
        _sim.Point("lock-bound", machine, [("colour", "red")], seed=1, **run)
    bad = _sim.Point("lock-bound", machine, [("think", "-1")], seed=1, **run)
    assert _sim.simulate([bad])[0]["error"] == "think=-1: use a number, zero or more"
