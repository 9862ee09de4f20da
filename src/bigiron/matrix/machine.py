"""Some tests of the matrix in one virtual machine, each recorded alone, and what came of them."""

from __future__ import annotations

import csv
import logging
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import NamedTuple, Self, TypeVar

from bigiron import compile
from bigiron.architectures import architecture
from bigiron.errors import MachineError, UserError
from bigiron.introspect.memory import GuestRam
from bigiron.introspect.symbols import SymbolTable
from bigiron.kernels import Kernel
from bigiron.machines.messages import Message
from bigiron.machines.vm import cgroup, dilation, topology
from bigiron.machines.vm import vm as virtual
from bigiron.machines.vm.file_system import FileSystem
from bigiron.machines.vm.vm import VirtualMachine
from bigiron.matrix import listing, outcomes
from bigiron.matrix.model.calls import Test
from bigiron.matrix.outcomes import Access, MatrixOutcome
from bigiron.probes.recording import Chains, objects_in, read_recording, touched_bytes
from bigiron.util.english import plural

OTHER_CPUS = 2  # than those that make calls: one for who gives them out, one for the kernel's own threads
RUNS = 5
MORE_RUNS = 20  # of tests of which one run would decide
WARM_UP = 1
CGROUP = cgroup.OF_A_SERVICE
_SEED = bytes(32)
_PATIENCE_S = 1  # a call, as the agent counts it: a billion instructions, some seconds of the host's
_DEADLINE_S = 900
_A_TEST_S = 0.5  # ten times what a run takes
_MOST_CULPRITS = 5

_Parsed = TypeVar("_Parsed")

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class MatrixPlace:
    """Where tests run."""

    kernel: Kernel
    file_system: FileSystem
    cpus: int = 2  # that make calls: each two of them a copy of the test

    def machine(self, agent: Path, results: Path, ram: GuestRam, tests: Path, runs: int) -> VirtualMachine:
        """The virtual machine that runs what is in a file."""
        target = architecture(self.kernel.arch)
        job = ["mode process", f"cpus {_all_cpus(self.cpus)}", "tasks 2", f"tests /{tests.name}"]
        job += [f"copies {self.cpus // 2}", f"warmup {WARM_UP}", f"patience_s {_PATIENCE_S}", "stay"]
        job += CGROUP.job
        machine = VirtualMachine(
            architecture=target,
            kernel=self.kernel.image,
            release=self.kernel.release,
            agent=agent,
            job="".join(f"{line}\n" for line in job),
            topology=topology.parse("").at(_all_cpus(self.cpus)),
            memory_mib=ram.bytes >> 20,
            deadline_s=_DEADLINE_S + _A_TEST_S * runs * self.cpus / 2,
            plugin=compile.recorder(),
            results=results,
            ram=ram,
            files=(tests,),
            from_snapshot=target.resumes,
            instructions_per_ns=dilation.instructions_per_ns(self.cpus),
            seed=_SEED,
        )
        return self.file_system.put_into(machine, self.kernel)


def _all_cpus(busy: int) -> int:
    return busy + OTHER_CPUS


def side_by_side(busy: int = 2) -> int:
    """How many machines of which so many CPUs make calls."""
    return virtual.side_by_side(virtual.memory_mib(_all_cpus(busy)), _all_cpus(busy))


class KeepsCrashingError(MachineError):
    """The VM crashed at a different test each time, so no single test is to blame; this batch is left out."""


@dataclass(frozen=True)
class _Ran:
    """A test that ran some times."""

    runs: list[list[Access]]
    failure: str = ""  # what it returned that it should not, or how it failed

    @property
    def is_borderline(self) -> bool:
        return not self.failure and outcomes.is_borderline(self.runs)

    def and_more(self, more: Self) -> Self:
        return replace(self, runs=self.runs + more.runs, failure=more.failure)

    def outcome(self, number: int) -> MatrixOutcome:
        if self.failure:
            return outcomes.wrong(number, len(self.runs), self.failure)
        return outcomes.outcome(number, self.runs)


class _CulpritError(Exception):
    """A test ended the machine: which one, and how."""

    def __init__(self, test: Test, how: str) -> None:
        super().__init__(how)
        self.test, self.how = test, how


def run(
    place: MatrixPlace,
    tests: Sequence[Test],
    seed: int,
    stop: Event,
    on_stage: Callable[[str], None],
    memory_mib: int = 0,
) -> list[MatrixOutcome]:
    """What came of each test, in several runs of all of them in other orders.

    Where one more run decides, there are more runs, unless the machine keeps crashing. A test that crashes or
    hangs the VM twice is reported as such, and the rest run in a new VM. Raises KeepsCrashingError where so
    many tests do so that they are not to blame.
    """

    def each(some: Sequence[Test], runs: int) -> dict[int, _Ran]:
        def once(left: Sequence[Test]) -> dict[int, _Ran]:
            return _run(place, left, runs, seed, stop, on_stage, memory_mib)

        return _without_culprits(some, once)

    ran = each(tests, RUNS)
    close = [test for test in tests if ran[test.number].is_borderline]
    try:
        for number, more in each(close, MORE_RUNS).items():
            ran[number] = ran[number].and_more(more)
    except KeepsCrashingError as error:
        what = plural(len(close), "close test")
        _log.warning("%s: %s decided by %d runs: %s", place.kernel.name, what, RUNS, error.reason)
    return [of_test.outcome(number) for number, of_test in ran.items()]


def _without_culprits(
    tests: Sequence[Test], run: Callable[[Sequence[Test]], dict[int, _Ran]]
) -> dict[int, _Ran]:
    left = list(tests)
    found: dict[int, _Ran] = {}
    suspects: set[int] = set()
    while left:
        try:
            return found | run(left)
        except _CulpritError as culprit:
            if len(suspects | {culprit.test.number}) > _MOST_CULPRITS:
                raise KeepsCrashingError(f"after {_MOST_CULPRITS} other tests {culprit.how}") from None
            if culprit.test.number in suspects:
                found[culprit.test.number] = _Ran([], culprit.how)
                left.remove(culprit.test)
            suspects.add(culprit.test.number)
    return found


def _run(
    place: MatrixPlace,
    tests: Sequence[Test],
    runs: int,
    seed: int,
    stop: Event,
    on_stage: Callable[[str], None],
    memory_mib: int,
) -> dict[int, _Ran]:
    order = listing.sequence(tests, runs, seed)
    agent = compile.matrix_agent(architecture(place.kernel.arch).compiler)
    with (
        tempfile.TemporaryDirectory(prefix="bigiron-") as temporary,
        GuestRam(memory_mib or virtual.memory_mib(_all_cpus(place.cpus))) as ram,
    ):
        file, results = Path(temporary) / "tests", Path(temporary) / "results"
        file.write_text(listing.numbered(order))
        results.mkdir()
        machine = place.machine(agent, results, ram, file, len(order))
        try:
            outcome = virtual.run(machine, stop, on_stage)
        except (MachineError, UserError) as error:
            last = _last_begun(results, len(order))
            if last is None:
                raise
            how = error.reason if isinstance(error, MachineError) else str(error)
            raise _CulpritError(order[last], how) from None
        if lacks := cgroup.lacking(outcome.environment):
            _log.warning("%s: %s", place.kernel.name, lacks)
        on_stage("naming the objects")
        return _collect(machine, results, ram, outcome.messages, order, place.cpus)


def _last_begun(results: Path, runs: int) -> int | None:
    """The place in the order of the run that did not end, or of the last that did; None: none began."""
    if not (results / "tests.csv").exists():
        return None
    begun = _read(results / "tests.csv", lambda row: _place(row[0], runs))
    return begun[-1] if begun else None


def _collect(
    machine: VirtualMachine,
    results: Path,
    ram: GuestRam,
    messages: list[Message],
    order: Sequence[Test],
    cpus: int,
) -> dict[int, _Ran]:
    failed = _failed(messages, len(order))
    _check_whole(results, len(order), failed)
    failures = {order[place].number: failure for place, failure in failed.items()}
    runs: dict[int, list[list[Access]]] = defaultdict(list)
    accesses = _accesses(machine, results, ram, messages, order, cpus)
    for place, test in enumerate(order):
        runs[test.number].append(accesses.get(place, []))
    return {number: _Ran(of_test, failures.get(number, "")) for number, of_test in runs.items()}


def _failed(messages: Iterable[Message], runs: int) -> dict[int, str]:
    """What a run's calls returned that they should not, by its place."""
    found: dict[int, str] = {}
    for said in (message.content for message in messages if message.type == "test_failed"):
        if not 0 <= said["test"] < runs:
            raise MachineError(
                f"the agent reports a failure of test {said['test']}, but there are only {runs}"
            )
        found[said["test"]] = (
            f"{said['call']} returned {said['result']}, but the model expects {said['expected']}"
        )
    return found


def _check_whole(results: Path, runs: int, failed: Iterable[int]) -> None:
    """MachineError if something was lost. What fails is not recorded to its end."""
    recording = read_recording(results)
    for what, number in recording.losses.items():
        # What lacks a name, or its caller, is still counted.
        if number and "accesses" in what:
            raise MachineError(f"the recorder lost {number} {what}")
    logged = _read(results / "tests.csv", lambda row: (_place(row[0], runs), any(row[1:])))
    ended = {place for place, has_ended in logged if has_ended}
    if missing := runs - len(ended.union(failed)):
        raise MachineError(f"the recorder lacks {missing} of {runs} runs of tests: is the disk full?")


class _Row(NamedTuple):
    """Of test_lines.csv, which has more of it (docs/contributing/recorder-protocol.md)."""

    place: int  # of a run in the order
    cpu: int
    line: int
    pc: int
    chain: int
    reads: int
    writes: int
    mask: int

    @classmethod
    def of(cls, row: Sequence[str], runs: int, cpus: int) -> Self:
        """ValueError if it is none."""
        place, cpu, _, line, pc, chain, reads, writes, mask = row
        if not 0 <= int(cpu) < cpus or not 0 < int(mask, 16) < 1 << outcomes.LINE_BYTES:
            raise ValueError
        return cls(
            _place(place, runs), int(cpu), int(line, 16), int(pc, 16), int(chain), int(reads), int(writes),
            int(mask, 16),
        )  # fmt: skip


def _place(word: str, runs: int) -> int:
    """Of a run in the order, as the guest sent it to the recorder; ValueError if there is none."""
    if not 0 <= int(word) < runs:
        raise ValueError
    return int(word)


def _read(file: Path, parse: Callable[[list[str]], _Parsed]) -> list[_Parsed]:
    """The rows of a file of the recorder's, without the first; MachineError for one that is damaged."""
    with file.open(newline="") as lines:
        rows = list(csv.reader(lines))
    found = []
    for number, row in enumerate(rows[1:], 2):
        try:
            found.append(parse(row))
        except (ValueError, IndexError):
            raise MachineError(
                f"the recorder's {file.name} is damaged: line {number} is {','.join(row)[:80]!r}"
            ) from None
    return found


def _accesses(
    machine: VirtualMachine,
    results: Path,
    ram: GuestRam,
    messages: list[Message],
    order: Sequence[Test],
    cpus: int,
) -> dict[int, list[Access]]:
    """Of each run, by its place: what was done to lines that several sides touched."""
    symbols = SymbolTable.read(results / "kallsyms")
    chains = Chains(results, symbols)
    objects = objects_in(
        ram, machine.architecture, messages, results, symbols, read_recording(results), chains
    )
    rows = _read(results / "test_lines.csv", lambda row: _Row.of(row, len(order), cpus))
    places = {(row.line + touched_bytes(row.mask)[0], touched_bytes(row.mask)[1]) for row in rows}
    names = objects.names(places)
    found: dict[int, list[Access]] = defaultdict(list)
    for row in rows:
        first, length = touched_bytes(row.mask)
        function, path = symbols.lookup(row.pc)[0], chains.path(row.chain)
        path = f"{path};{function}" if path else function
        name = names[row.line + first, length].name
        side = _side(order[row.place], row.cpu)
        found[row.place].append(Access(side, row.line, row.mask, row.reads, row.writes, name, path))
    return found


def _side(test: Test, cpu: int) -> str:
    """Which call was made on a CPU, and of which copy of the test after the first.

    Threads' in order, those of two processes on the CPU of their number.
    """
    is_a = cpu % 2 == (0 if test.same else test.a[0].process)
    return f"{'A' if is_a else 'B'}{cpu // 2 or ''}"
