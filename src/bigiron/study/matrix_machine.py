"""Some tests of the matrix in one virtual machine, each recorded alone, and what came of them."""

from __future__ import annotations

import csv
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from bigiron import compile
from bigiron.architectures import architecture
from bigiron.errors import MachineError, UserError
from bigiron.introspect.memory import GuestRam
from bigiron.introspect.symbols import SymbolTable
from bigiron.kernels import Kernel
from bigiron.machines import dilation, topology
from bigiron.machines import vm as virtual
from bigiron.machines.file_system import FileSystem
from bigiron.machines.messages import Message
from bigiron.machines.vm import VirtualMachine
from bigiron.matrix import listing, outcomes
from bigiron.matrix.calls import Test
from bigiron.matrix.outcomes import Access, Outcome
from bigiron.probes.recording import Chains, objects_in, read_recording, touched_bytes

CPUS = 4  # one for each call, one for who gives them out, one for the kernel's own threads
RUNS = 5
WARM_UP = 1
_BUSY = 2  # CPUs: those of the calls
_SEED = bytes(32)
_PATIENCE_S = 1  # a call, by the guest's clock: half a minute of the host's
_DEADLINE_S = 900
_A_TEST_S = 0.5  # ten times what a run takes
_MOST_CULPRITS = 5


@dataclass(frozen=True)
class Place:
    """Where tests run."""

    kernel: Kernel
    file_system: FileSystem

    def machine(self, agent: Path, results: Path, ram: GuestRam, tests: Path, runs: int) -> VirtualMachine:
        """The virtual machine that runs what is in a file."""
        target = architecture(self.kernel.arch)
        job = ["mode process", f"cpus {CPUS}", "tasks 2", f"tests /{tests.name}", f"warmup {WARM_UP}"]
        job += [f"patience_s {_PATIENCE_S}", "stay", *self.file_system.job(self.kernel)]
        return VirtualMachine(
            architecture=target,
            kernel=self.kernel.image,
            release=self.kernel.release,
            agent=agent,
            job="".join(f"{line}\n" for line in job),
            topology=topology.parse("").at(CPUS),
            memory_mib=ram.bytes >> 20,
            deadline_s=_DEADLINE_S + _A_TEST_S * runs,
            plugin=compile.recorder(),
            results=results,
            ram=ram,
            files=(tests, *self.file_system.files(self.kernel)),
            from_template=target.resumes,
            instructions_a_ns=dilation.factor(_BUSY),
            seed=_SEED,
        )


def side_by_side() -> int:
    """How many machines."""
    return virtual.side_by_side(virtual.memory_mib(CPUS), CPUS)


class _CulpritError(Exception):
    """A test ended the machine: which one, and how."""

    def __init__(self, test: Test, how: str) -> None:
        super().__init__(how)
        self.test, self.how = test, how


def run(
    place: Place,
    tests: Sequence[Test],
    seed: int,
    stop: Event,
    on_stage: Callable[[str], None],
    memory_mib: int = 0,
) -> list[Outcome]:
    """What came of each test, in several runs of all of them in other orders.

    A test that twice crashes the machine or hangs is said so of, and the others run in another one.
    """
    left = list(tests)
    found: list[Outcome] = []
    suspects: set[int] = set()
    while left:
        try:
            return found + _run(place, left, seed, stop, on_stage, memory_mib)
        except _CulpritError as culprit:
            if len(suspects | {culprit.test.number}) > _MOST_CULPRITS:
                raise MachineError(f"after {_MOST_CULPRITS} other tests {culprit.how}") from None
            if culprit.test.number in suspects:
                found.append(outcomes.wrong(culprit.test.number, 0, culprit.how))
                left.remove(culprit.test)
            suspects.add(culprit.test.number)
    return found


def _run(
    place: Place,
    tests: Sequence[Test],
    seed: int,
    stop: Event,
    on_stage: Callable[[str], None],
    memory_mib: int,
) -> list[Outcome]:
    order = listing.sequence(tests, RUNS, seed)
    agent = compile.matrix_agent(architecture(place.kernel.arch).compiler)
    with (
        tempfile.TemporaryDirectory(prefix="bigiron-") as temporary,
        GuestRam(memory_mib or virtual.memory_mib(CPUS)) as ram,
    ):
        file, results = Path(temporary) / "tests", Path(temporary) / "results"
        file.write_text(listing.numbered(order))
        results.mkdir()
        machine = place.machine(agent, results, ram, file, len(order))
        try:
            outcome = virtual.run(machine, stop, on_stage)
        except (MachineError, UserError) as error:
            last = _last_begun(results)
            if last is None:
                raise
            how = error.reason if isinstance(error, MachineError) else str(error)
            raise _CulpritError(order[last], how) from None
        on_stage("naming what lies there")
        return _collect(machine, results, ram, outcome.messages, order)


def _last_begun(results: Path) -> int | None:
    """The place in the order of the run that did not end, or of the last that did; None: none began."""
    try:
        lines = (results / "tests.csv").read_text().splitlines()[1:]
    except OSError:
        return None
    return int(lines[-1].split(",")[0]) if lines else None


def _collect(
    machine: VirtualMachine, results: Path, ram: GuestRam, messages: list[Message], order: Sequence[Test]
) -> list[Outcome]:
    failed = {
        message.content["test"]: _failure(message) for message in messages if message.type == "test_failed"
    }
    _check_whole(results, len(order), failed)
    failures = {order[place].number: failure for place, failure in failed.items()}
    runs: dict[int, list[list[Access]]] = defaultdict(list)
    accesses = _accesses(machine, results, ram, messages, order)
    for place, test in enumerate(order):
        runs[test.number].append(accesses.get(place, []))
    return [
        outcomes.wrong(number, len(of_test), failures[number])
        if number in failures
        else outcomes.outcome(number, of_test)
        for number, of_test in runs.items()
    ]


def _check_whole(results: Path, runs: int, failed: Iterable[int]) -> None:
    """MachineError if something was lost. What fails is not recorded to its end."""
    recording = read_recording(results)
    for what, number in recording.losses.items():
        # What lacks a name, or its caller, is still counted.
        if number and "accesses" in what:
            raise MachineError(f"the recorder lost {number} {what}")
    with (results / "tests.csv").open() as log:
        lines = [line.partition(",") for line in log]
    ended = {int(place) for place, _, accesses in lines if place.isdecimal() and accesses}
    if missing := runs - len(ended.union(failed)):
        raise MachineError(f"the recorder lacks {missing} of {runs} runs of tests: is the disk full?")


def _failure(message: Message) -> str:
    said = message.content
    return f"{said['call']} returned {said['result']}, and the model says {said['expected']}"


def _accesses(
    machine: VirtualMachine, results: Path, ram: GuestRam, messages: list[Message], order: Sequence[Test]
) -> dict[int, list[Access]]:
    """Of each run, by its place: what was done to lines that both sides touched."""
    symbols = SymbolTable.read(results / "kallsyms")
    chains = Chains(results, symbols)
    objects = objects_in(
        ram, machine.architecture, messages, results, symbols, read_recording(results), chains
    )
    with (results / "test_lines.csv").open() as file:
        rows = [
            (
                int(test),
                int(cpu),
                int(line, 16),
                int(pc, 16),
                int(chain),
                int(reads),
                int(writes),
                int(mask, 16),
            )
            for test, cpu, _, line, pc, chain, reads, writes, mask in list(csv.reader(file))[1:]
        ]
    places = {(line + touched_bytes(mask)[0], touched_bytes(mask)[1]) for _, _, line, *_, mask in rows}
    names = objects.names(places)
    found: dict[int, list[Access]] = defaultdict(list)
    for test, cpu, line, pc, chain, reads, writes, mask in rows:
        first, length = touched_bytes(mask)
        function, path = symbols.lookup(pc)[0], chains.path(chain)
        path = f"{path};{function}" if path else function
        name = names[line + first, length].name
        side = _side(order[test], cpu)
        found[test].append(Access(side, line, mask, reads, writes, name, path))
    return found


def _side(test: Test, cpu: int) -> str:
    """Which call was made on a CPU: threads' in order, those of two processes on the CPU of their number."""
    if test.same:
        return "AB"[cpu]
    return "A" if test.a[0].process == cpu else "B"
