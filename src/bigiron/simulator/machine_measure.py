"""The host as a machine file: its CPUs as Linux lists them, its measured latencies."""

import itertools
import os
import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import sleep

import tomli_w

from bigiron import _sim
from bigiron.architectures import architectures
from bigiron.errors import UserError
from bigiron.util.host_memory import host_mib

_LEVELS = ("socket", "node", "group", "core", "thread")
_SOCKET, _NODE, _GROUP, _THREAD = 0, 1, 2, 4
_PAIRS = 20  # looked at of each level; fewer several times, as a virtual machine's CPUs move
_APART_S = 0.1  # looks at the same pair
_CORES = 64  # whose stores are measured at once: memory is busy with fewer
_LEAST_BYTES = 64 << 20  # of a chain of loads, and of each core's stores
_LEAST_STORED = 256 << 20
_BEYOND_CACHES = 4  # times the third-level caches: what is measured is memory
_OF_AVAILABLE = 4  # no more than this part of the available memory
_FOURTH = "estimated: a quarter around the measured"
_ESTIMATED = "estimated, not measured here: "


@dataclass(frozen=True)
class Host:
    """The CPUs of a machine, each with its unit at every level: socket, node, group (of cores that share a
    third-level cache), core, thread.
    """

    places: Mapping[int, tuple[int, ...]]
    cache_bytes: int = 0
    """Of all third-level caches; 0 where Linux does not list them."""
    available_bytes: int = 1 << 62
    """Memory that programs can still have."""

    @classmethod
    def here(
        cls,
        system: Path = Path("/sys/devices/system"),
        meminfo: Path = Path("/proc/meminfo"),
    ) -> "Host":
        """The machine that bigiron runs on, with the CPUs that it may use."""
        nodes = {
            cpu: int(node.name.removeprefix("node"))
            for node in (system / "node").glob("node[0-9]*")
            for cpu in _cpulist(node / "cpulist")
        }
        places = {}
        for cpu in sorted(os.sched_getaffinity(0)):
            folder = system / f"cpu/cpu{cpu}"
            shared = [
                min(_cpulist(cache / "shared_cpu_list"))
                for cache in folder.glob("cache/index*")
                if (cache / "level").read_text().strip() == "3"
            ]
            socket, core = (
                int((folder / "topology" / name).read_text()) for name in ("physical_package_id", "core_id")
            )
            places[cpu] = (socket, nodes.get(cpu, 0), min(shared, default=0), core, cpu)
        return cls(places, _third_level_bytes(system), _available_bytes(meminfo))

    def beyond_caches(self, least: int) -> int:
        """Bytes of memory to measure: at least so many, and more than caches hold, if that much is available.

        >>> Host({}, cache_bytes=210 << 20).beyond_caches(64 << 20) >> 20
        840
        >>> Host({}, cache_bytes=210 << 20, available_bytes=2 << 30).beyond_caches(64 << 20) >> 20
        512
        """
        return min(max(least, _BEYOND_CACHES * self.cache_bytes), self.available_bytes // _OF_AVAILABLE)

    def parting(self, a: int, b: int) -> int:
        """The outermost level at which two CPUs are in different units.

        >>> Host({0: (0, 0, 0, 0, 0), 1: (0, 0, 0, 1, 1)}).parting(0, 1)
        3
        """
        units = zip(self.places[a], self.places[b], strict=True)
        return next(level for level, (one, other) in enumerate(units) if one != other)

    def counts(self) -> list[list[int]]:
        """For each level, the number of its units in a unit of the next outer level.

        >>> Host({0: (0, 0, 0, 0, 0), 1: (0, 0, 0, 1, 1), 2: (1, 1, 2, 0, 2)}).counts()
        [[2], [1, 1], [1, 1], [2, 1], [1, 1, 1]]
        """
        counts = []
        for level in range(len(_LEVELS)):
            units = sorted({place[: level + 1] for place in self.places.values()})
            grouped = itertools.groupby(units, key=lambda unit: unit[:-1])
            counts.append([len(list(group)) for _outer, group in grouped])
        return counts

    def cores_beside(self, cpu: int, level: int) -> list[int]:
        """The first CPU of each core that is in the same unit of a level as that one.

        >>> Host({0: (0, 0, 0, 0, 0), 1: (0, 0, 0, 0, 1), 2: (0, 0, 0, 1, 2)}).cores_beside(1, 0)
        [0, 2]
        """
        unit = self.places[cpu][: level + 1]
        beside = {
            place[:_THREAD]: other
            for other, place in sorted(self.places.items(), reverse=True)
            if place[: level + 1] == unit
        }
        return sorted(beside.values())

    def a_thread_of_each_core_first(self) -> list[int]:
        """All CPUs, in the order in which tasks are placed on them.

        >>> Host({0: (0, 0, 0, 0, 0), 1: (0, 0, 0, 0, 1), 2: (0, 0, 0, 1, 2)}).a_thread_of_each_core_first()
        [0, 2, 1]
        """
        seen: dict[tuple[int, ...], int] = {}
        order = []
        for cpu, place in sorted(self.places.items(), key=lambda item: item[1]):
            core = place[:_THREAD]
            seen[core] = seen.get(core, 0) + 1
            order.append((seen[core], place, cpu))
        return [cpu for _thread, _place, cpu in sorted(order)]


def measure(host: Host, name: str, say: Callable[[str], None]) -> str:
    """The machine's TOML. `say` is called with what is being measured."""
    cpus = sorted(host.places)
    if len(cpus) < 2:
        raise UserError("this machine has one CPU: transfers between CPUs cannot be measured")
    chosen = random.Random(1)
    pairs: dict[int, list[tuple[int, int]]] = {}
    for a, b in itertools.combinations(cpus, 2):
        pairs.setdefault(host.parting(a, b), []).append((a, b))
    pairs = {level: chosen.sample(found, min(len(found), _PAIRS)) for level, found in pairs.items()}

    levels: list[dict[str, object]] = []
    took: dict[str, list[float]] = {}  # transfers, by level
    counts, walked = host.counts(), host.beyond_caches(_LEAST_BYTES)
    for level, level_name in enumerate(_LEVELS):
        count = counts[level]
        if level != _NODE and max(count) == 1:
            continue  # as many as around it: no level of its own
        table: dict[str, object] = {"name": level_name, "count": count[0] if len({*count}) == 1 else count}
        if level in pairs:
            say(f"between CPUs of different {level_name}s: {_pairs(pairs[level])}")
            took[level_name] = [_transfer_ns(pair, look) for look, pair in _looks(pairs[level])]
            table["transfer_ns"] = _median(took[level_name])
            table["transfer_source"] = (
                f"measured: {_pairs(pairs[level])}, {len(took[level_name])} looks, half of there and back"
            )
            if level <= _NODE:
                table["memory_ns"] = _median(_sim.memory_ns(a, b, walked) for a, b in pairs[level][:3])
                table["memory_source"] = (
                    "measured: random loads from memory that the other's CPU has written first"
                )
        levels.append(table)
    say("memory and wakeups")
    near = min(pairs.items())[1][0]
    machine: dict[str, object] = {
        "name": name,
        "description": f"measured: {_model()}, {len(cpus)} CPUs",
        **_architecture(os.uname().machine),
        "node": _LEVELS[_NODE],
        "hit_ns": _rounded(_sim.hit_ns(cpus[0])),
        "hit_source": "measured: loads of one line, one after the other",
        "memory_ns": _rounded(_sim.memory_ns(cpus[0], cpus[0], walked)),
        "memory_source": f"measured: random loads from {walked >> 20:,} MiB, with what address translation "
        f"takes; third-level caches have {host.cache_bytes >> 20:,} MiB",
        "wakeup_ns": _rounded(_sim.wakeup_ns(*near)),
        "wakeup_source": f"measured: futex, CPUs {near[0]} and {near[1]}, half of there and back",
        **_estimated(os.uname().machine),
    }
    if _LEVELS[_GROUP] in [level["name"] for level in levels]:
        machine["cache"] = _LEVELS[_GROUP]
    ranges = _ranges(machine, levels, took)
    if processor := _processor(host, levels, say):
        machine["processor"] = processor
        ranges += _processor_ranges(processor)
    machine |= {"contended": _contended(host.a_thread_of_each_core_first(), say), "range": ranges}
    return tomli_w.dumps(machine | {"level": levels})


def _architecture(machine: str) -> dict[str, object]:
    """The key for what `uname -m` says; none for a machine whose kernels bigiron cannot boot.

    >>> _architecture("aarch64"), _architecture("riscv64")
    ({'architecture': 'aarch64'}, {})
    """
    return {"architecture": machine} if machine in {one.name for one in architectures()} else {}


def _estimated(machine: str) -> dict[str, object]:
    """What is not measured, by `uname -m`. On Arm it is not known where atomic accesses are done."""
    estimated: dict[str, object] = {
        "ipi_ns": 700,
        "ipi_source": f"{_ESTIMATED}half of a round trip with acknowledgement of 1 to 2 us",
        "shared_read_ns": 4,
        "shared_read_source": f"{_ESTIMATED}a slice of a last-level cache gives 32 bytes a cycle at best",
        "store_buffer": 56,
        "store_buffer_source": f"{_ESTIMATED}as Intel's Skylake has it",
    }
    if machine != "aarch64":
        return estimated
    return estimated | {
        "atomics": "near or far",
        "atomics_source": f"{_ESTIMATED}on Arm's cores, atomics without a result are usually far",
        "far_atomic_ns": 9.4,
        "far_atomic_source": f"{_ESTIMATED}as Graviton 2 was measured",
    }


def _processor(
    host: Host, levels: Sequence[Mapping[str, object]], say: Callable[[str], None]
) -> dict[str, object]:
    """The table of single-core figures; empty if the clock rate cannot be measured."""
    first = min(host.places)
    sockets, nodes = (host.cores_beside(first, level) for level in (_SOCKET, _NODE))
    say(f"clock rates, system calls and stores: CPU {first}, and {len(sockets)} cores at once")
    one, all_of_socket = _sim.clock_ghz([first]), _sim.clock_ghz(sockets)
    if one is None or all_of_socket is None:
        return {}
    turbo = [(1, one), (len(sockets), all_of_socket)] if len(sockets) > 1 else [(1, one)]
    call = _sim.system_call_ns(first)
    names = [level["name"] for level in levels]
    table: dict[str, object] = {
        "socket": _LEVELS[_SOCKET] if _LEVELS[_SOCKET] in names else _LEVELS[_NODE],
        "turbo_ghz": [[cores, _rounded(ghz)] for cores, ghz in turbo],
        "turbo_source": "measured: additions each of which needs the sum before, a cycle each",
        "instructions_per_cycle": 2.0,
        "instructions_per_cycle_source": f"{_ESTIMATED}predict --one-task sets what comes of it",
        "system_call_ns": _rounded(call / 2**0.5),
        "system_call_source": f"measured: getppid, {_rounded(call)} ns, of which its instructions are a part",
        "core_gb_per_s": _rounded(_stores_gb_per_s(host, [first])),
        "core_gb_source": "measured: stores of one core, 1 MiB after the other",
        "node_gb_per_s": _rounded(_stores_gb_per_s(host, nodes[:_CORES])),
        "node_gb_source": f"measured: stores of {len(nodes[:_CORES])} cores of a node at once",
    }
    if _LEVELS[_THREAD] in names:
        table |= {
            "smt_speedup": 1.25,
            "smt_source": f"{_ESTIMATED}with two threads a core does 1.1 to 1.5 times",
        }
    return table


def _stores_gb_per_s(host: Host, cpus: Sequence[int]) -> float:
    return _sim.fill_gb_per_s(cpus, host.beyond_caches(max(_LEAST_STORED, len(cpus) * _LEAST_BYTES)))


def _contended(cpus: Sequence[int], say: Callable[[str], None]) -> list[dict[str, object]]:
    """How long CPUs wait for one cache line, by the number of CPUs: 2, 4 and so on, and all."""
    rows: list[dict[str, object]] = []
    for number in sorted({*(1 << power for power in range(1, len(cpus).bit_length())), len(cpus)}):
        some = list(cpus[:number])
        say(f"{number} CPUs at one line")
        found = {
            "add_ns": _sim.added_ns(some),
            "read_ns": _sim.read_ns(some),
            "handover_ns": _sim.handover_ns(some),
        }
        figures = {name: _rounded(value) for name, value in found.items() if value is not None}
        if figures:
            source = "measured: atomic additions to it, reads of what one of them writes, an MCS lock"
            rows.append({"cpus": number, **figures, "source": source})
        if len(figures) < len(found):
            say(f"{number} CPUs at one line: they are busy with other work: measure again when they are idle")
    return rows


def _range(of: str, low: float, high: float, source: str) -> dict[str, object]:
    return {"of": of, "low": _rounded(low), "high": _rounded(high), "source": source}


def _ranges(
    machine: Mapping[str, object], levels: Sequence[Mapping[str, object]], took: Mapping[str, Sequence[float]]
) -> list[dict[str, object]]:
    """The uncertainty of latencies."""

    def around(of: str, figure: object, factor: float, source: str) -> dict[str, object]:
        assert isinstance(figure, float)
        return _range(of, figure / factor, figure * factor, source)

    ranges = [
        around("memory", machine["memory_ns"], 1.3, "estimated: a third around the measured"),
        around("wakeup", machine["wakeup_ns"], 2, "estimated: shallower and deeper idle states"),
        _range("ipi", 400, 1500, "estimated: with virtualised and plain interrupt controllers"),
        _range("shared read", 1, 16, "estimated: from what a slice gives to a third of a transfer"),
    ]
    if "far_atomic_ns" in machine:
        ranges.append(_range("far atomic", 5, 15, "estimated: for other cores and meshes"))
    for name, of_pairs in took.items():
        source = "measured: the fastest and slowest look, and a quarter beyond, as a line's home differs"
        ranges.append(_range(f"{name} transfer", min(of_pairs) / 1.25, max(of_pairs) * 1.25, source))
    for level in levels:
        if memory := level.get("memory_ns"):
            ranges.append(
                around(f"{level['name']} memory", memory, 1.3, "estimated: a third around the measured")
            )
    return ranges


def _processor_ranges(processor: Mapping[str, object]) -> list[dict[str, object]]:
    """The uncertainty of the figures of a `[processor]`."""

    def figure(name: str) -> float:
        value = processor[name]
        assert isinstance(value, float)
        return value

    call = figure("system_call_ns")
    ranges = [
        _range("instructions per cycle", 1.0, 3.2, "estimated: cache and branch misses are not known"),
        _range(
            "system call", call / 2**0.5, call * 2**0.5, "estimated: half of the measured call to all of it"
        ),
        _range("core bandwidth", figure("core_gb_per_s") / 1.25, figure("core_gb_per_s") * 1.25, _FOURTH),
        _range("node bandwidth", figure("node_gb_per_s") / 1.25, figure("node_gb_per_s") * 1.25, _FOURTH),
    ]
    if "smt_speedup" in processor:
        source = "estimated: from nothing gained to published gains of well-behaved workloads"
        ranges.append(_range("smt speedup", 1.05, 1.5, source))
    return ranges


def _looks(pairs: Sequence[tuple[int, int]]) -> Iterator[tuple[int, tuple[int, int]]]:
    """Each pair, with the number of earlier measurements of it.

    >>> len(list(_looks([(0, 1)]))), len(list(_looks([(0, cpu) for cpu in range(1, 8)])))
    (20, 21)
    """
    for look in range(-(-_PAIRS // len(pairs))):
        yield from ((look, pair) for pair in pairs)


def _transfer_ns(pair: tuple[int, int], look: int) -> float:
    if look:
        sleep(_APART_S)
    return _sim.transfer_ns(*pair)


def _pairs(pairs: Sequence[tuple[int, int]]) -> str:
    return f"median of {len(pairs)} pairs" if len(pairs) > 1 else "CPUs {} and {}".format(*pairs[0])


def _median(values: Iterable[float]) -> float:
    return _rounded(median(values))


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")


def _available_bytes(meminfo: Path) -> int:
    """Memory that programs can still have: no more than the limit of a container or another group."""
    available = re.search(r"^MemAvailable: +(\d+) kB$", meminfo.read_text(), re.MULTILINE)
    assert available, meminfo  # since Linux 3.14
    return min(int(available[1]) << 10, host_mib() << 20)


def _third_level_bytes(system: Path) -> int:
    """Of all third-level caches, each of which several CPUs list."""
    sizes = {
        (cache / "shared_cpu_list").read_text(): (cache / "size").read_text().strip()
        for cache in system.glob("cpu/cpu[0-9]*/cache/index*")
        if (cache / "level").read_text().strip() == "3" and (cache / "size").exists()
    }
    return sum(int(size.removesuffix("K")) << 10 for size in sizes.values())


def _cpulist(file: Path) -> Sequence[int]:
    """Linux's form of a set: 0-3,8.

    >>> import tempfile; file = Path(tempfile.mkdtemp()) / "cpulist"
    >>> _ = file.write_text("0-3,8"); _cpulist(file)
    [0, 1, 2, 3, 8]
    """
    parts = [part.split("-") for part in file.read_text().strip().split(",") if part]
    return [cpu for part in parts for cpu in range(int(part[0]), int(part[-1]) + 1)]


def _model() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith(("model name", "cpu\t")))
    return next(names, "CPUs of an unknown kind")
