"""The host as a machine file: its CPUs as Linux knows them, its latencies measured."""

import itertools
import os
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import tomli_w

from bigiron import _sim
from bigiron.errors import UserError

_LEVELS = ("socket", "node", "group", "core", "thread")
_NODE = 1
_PAIRS = 20  # measured of each level


@dataclass(frozen=True)
class Host:
    """The CPUs of a machine, each with its unit at every level: socket, node, group (of cores that share a
    third-level cache), core, thread.
    """

    places: Mapping[int, tuple[int, ...]]

    @classmethod
    def here(cls, system: Path = Path("/sys/devices/system")) -> "Host":
        """The machine that bigiron runs on, as far as it may use its CPUs."""
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
        return cls(places)

    def parting(self, a: int, b: int) -> int:
        """The outermost level at which two CPUs are in different units.

        >>> Host({0: (0, 0, 0, 0, 0), 1: (0, 0, 0, 1, 1)}).parting(0, 1)
        3
        """
        units = zip(self.places[a], self.places[b], strict=True)
        return next(level for level, (one, other) in enumerate(units) if one != other)

    def counts(self) -> list[list[int]]:
        """Of every level, how many units each unit of the level around it has.

        >>> Host({0: (0, 0, 0, 0, 0), 1: (0, 0, 0, 1, 1), 2: (1, 1, 2, 0, 2)}).counts()
        [[2], [1, 1], [1, 1], [2, 1], [1, 1, 1]]
        """
        counts = []
        for level in range(len(_LEVELS)):
            units = sorted({place[: level + 1] for place in self.places.values()})
            grouped = itertools.groupby(units, key=lambda unit: unit[:-1])
            counts.append([len(list(group)) for _outer, group in grouped])
        return counts


def measure(host: Host, name: str, say: Callable[[str], None]) -> str:
    """The machine's TOML. `say` is told what is being measured."""
    cpus = sorted(host.places)
    if len(cpus) < 2:
        raise UserError("this machine has one CPU: there is no other to measure the way to")
    chosen = random.Random(1)
    pairs: dict[int, list[tuple[int, int]]] = {}
    for a, b in itertools.combinations(cpus, 2):
        pairs.setdefault(host.parting(a, b), []).append((a, b))
    pairs = {level: chosen.sample(found, min(len(found), _PAIRS)) for level, found in pairs.items()}

    levels: list[dict[str, object]] = []
    counts = host.counts()
    for level, level_name in enumerate(_LEVELS):
        count = counts[level]
        if level != _NODE and max(count) == 1:
            continue  # as many as around it: no level of its own
        table: dict[str, object] = {"name": level_name, "count": count[0] if len({*count}) == 1 else count}
        if level in pairs:
            say(f"between CPUs of different {level_name}s: {_pairs(pairs[level])}")
            table["transfer_ns"] = _median(_sim.transfer_ns(a, b) for a, b in pairs[level])
            table["transfer_source"] = f"measured: {_pairs(pairs[level])}, half of there and back"
            if level <= _NODE:
                table["memory_ns"] = _median(_sim.memory_ns(a, b) for a, b in pairs[level][:3])
                table["memory_source"] = (
                    "measured: random loads from memory that the other's CPU has written first"
                )
        levels.append(table)
    say("memory and wakeups")
    near = min(pairs.items())[1][0]
    machine = {
        "name": name,
        "description": f"measured: {_model()}, {len(cpus)} CPUs",
        "node": _LEVELS[_NODE],
        "hit_ns": _rounded(_sim.hit_ns(cpus[0])),
        "hit_source": "measured: loads of one line, one after the other",
        "memory_ns": _rounded(_sim.memory_ns(cpus[0], cpus[0])),
        "memory_source": "measured: random loads from 64 MiB, with what address translation takes",
        "wakeup_ns": _rounded(_sim.wakeup_ns(*near)),
        "wakeup_source": f"measured: futex, CPUs {near[0]} and {near[1]}, half of there and back",
        "ipi_ns": 700,
        "ipi_source": "estimated: half of a round trip with acknowledgement of 1 to 2 us; not measured here",
        "level": levels,
    }
    return tomli_w.dumps(machine)


def _pairs(pairs: Sequence[tuple[int, int]]) -> str:
    return f"median of {len(pairs)} pairs" if len(pairs) > 1 else "CPUs {} and {}".format(*pairs[0])


def _median(values: Iterable[float]) -> float:
    return _rounded(median(values))


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")


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
