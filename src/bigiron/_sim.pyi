"""The simulator, in Rust (sim/): see `bigiron.simulator.machine_files` and docs/simulator.md."""

from collections.abc import Callable, Sequence
from typing import Any, final

@final
class Machine:
    """A machine; a ValueError says in one line what is wrong with a file."""

    @staticmethod
    def named(name: str) -> Machine: ...
    @staticmethod
    def from_toml(text: str) -> Machine: ...
    def with_cpus(self, cpus: int) -> Machine: ...
    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def cpus(self) -> int: ...
    @property
    def nodes(self) -> int: ...
    @property
    def memory_gib(self) -> float | None: ...
    @property
    def node_distances(self) -> list[list[int]] | None: ...
    @property
    def levels(self) -> list[tuple[str, int]]: ...
    @property
    def sources(self) -> list[tuple[str, str, str]]: ...
    @property
    def unknowns(self) -> list[tuple[str, float, float, str]]: ...
    @property
    def has_processor(self) -> bool: ...
    def at(self, places: Sequence[float], crossing: float, longer: float) -> Machine: ...
    def transfer_ns(self, from_cpu: int, to_cpu: int) -> float: ...

@final
class Point:
    """One run to simulate; a ValueError says in one line which value is wrong."""

    def __new__(
        cls,
        design: str,
        machine: Machine,
        values: Sequence[tuple[str, str]],
        *,
        seed: int,
        warmup_ns: float,
        duration_ns: float,
        event_budget: int,
        timeline_ns: tuple[float, float] | None = None,
    ) -> Point: ...

@final
class Program:
    """What a task does in an operation; a ValueError says in one line what is wrong."""

    def __new__(
        cls,
        lines: Sequence[tuple[str, str]],
        locks: Sequence[tuple[str, str, int]],
        operations: Sequence[Sequence[tuple[str, float, int, str]]],
    ) -> Program: ...

@final
class Curve:
    """A program at several numbers of tasks; a ValueError says in one line which value is wrong."""

    def __new__(
        cls,
        machine: Machine,
        program: Program,
        tasks: Sequence[int],
        *,
        seed: int,
        cna: bool = False,
        spread: bool = False,
        slower: float = 1.0,
        kept_ns: float = 0.0,
        overlapped_ns: float = 0.0,
        under_locks: float = 1.0,
        known: tuple[int, float] | None = None,
    ) -> Curve: ...

def replay(asked: Sequence[Curve], stopped: Callable[[], bool] | None = None) -> list[dict[str, Any]]:
    """Each curve's throughput and shares of the tasks' time, by tasks; or what went wrong."""

def machines() -> list[tuple[str, str]]: ...
def designs() -> list[tuple[str, str, list[tuple[str, str, str]]]]: ...
def simulate(points: Sequence[Point], stopped: Callable[[], bool] | None = None) -> list[dict[str, Any]]:
    """Each run's report. `stopped` is asked now and then: an InterruptedError once it says so."""

def counter_khz() -> float | None: ...
def hit_ns(cpu: int) -> float: ...
def transfer_ns(from_cpu: int, to_cpu: int) -> float: ...
def memory_ns(of_cpu: int, from_cpu: int) -> float: ...
def wakeup_ns(from_cpu: int, to_cpu: int) -> float: ...
def clock_ghz(cpus: Sequence[int]) -> float | None: ...
def system_call_ns(cpu: int) -> float: ...
def fill_gb_per_s(cpus: Sequence[int]) -> float: ...
def added_ns(cpus: Sequence[int]) -> float | None: ...
def read_ns(cpus: Sequence[int]) -> float | None: ...
def handover_ns(cpus: Sequence[int]) -> float | None: ...
