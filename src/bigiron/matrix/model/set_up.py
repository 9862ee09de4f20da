"""Calls that bring about a world, and the test that follows from them."""

from collections.abc import Iterator
from typing import Any

from bigiron.matrix.model.calls import FIRST_FD, Argument, ResultText, SystemCall, Test
from bigiron.matrix.model.model import CallResult, Ends, Nothing, Results, State
from bigiron.matrix.model.symbolic import Flag, InitialMapping, Name, Situation, World

# Where descriptors wait until they are where they belong, and stay if they are to be open elsewhere too.
PARKED = 40
_CONTENT = 10  # of pages whose content does not matter: each file and pipe has its own


def test_of(number: int, situation: Situation) -> Test:
    calls = Calls(State(Nothing()))
    _SetUp(situation.world, calls).all()
    return test_after(number, situation, calls)


def test_after(number: int, situation: Situation, calls: "Calls") -> Test:
    """With the two calls of the situation after those that were made."""
    unused = iter("yz")  # names that no call looks at
    for role, name in enumerate(situation.calls):
        arguments = situation.arguments[role].values()
        settled = [_settled(situation.world, argument, unused) for argument in arguments]
        calls.make(name, situation.process(role), *settled)
    *set_up, a, b = calls.made
    return Test(number, situation.same, tuple(set_up), a, b)


def _settled(world: World, argument: Any, unused: Iterator[str]) -> Argument:
    match argument:
        case None:
            return None
        case Flag():
            return bool(argument.settled)
        case Name():
            return argument.settled or next(unused)
        case _:
            return world.value(argument)


class Calls:
    """Those that were made, with what the model says that they give."""

    def __init__(self, state: State) -> None:
        self.made: list[tuple[SystemCall, ResultText]] = []
        self._state, self._results = state, Results()

    def make(self, name: str, process: int, *arguments: Argument) -> CallResult:
        call = SystemCall(name, process, arguments)
        given = self._state.make(name, process, call.named())
        self.made.append((call, self._results.text(given)))
        return given

    def open(self, process: int, name: str) -> int:
        fd = self.make("open", process, name, False, False, False)
        assert isinstance(fd, int)
        return fd

    def move(self, process: int, fd: int, to: int) -> None:
        if fd != to:
            self.make("dup", process, fd, to)
            self.make("close", process, fd)


class _SetUp:
    def __init__(self, world: World, calls: Calls) -> None:
        self._world, self._calls = world, calls
        self._names = [self._names_of(file) for file in range(len(world.files))]
        self._holder: dict[int, tuple[int, int]] = {}  # of a description: a process and its descriptor

    def all(self) -> None:
        world = self._world
        for file in range(len(world.files)):
            self._file(file)
        for pipe in range(len(world.pipes)):
            self._pipe(pipe)
        for (process, slot), mapping in sorted(world.slots.items()):
            if mapping is not None:
                self._mapping(process, slot, mapping)
        for (process, fd), number in sorted(world.fds.items()):
            if number is not None:
                self._descriptor(process, fd, number)
        for number, description in enumerate(world.descriptions):
            self._elsewhere(number, world.value(description.fds) > description.known_fds)

    def _names_of(self, file: int) -> list[str]:
        known = [name for name, leads_to in self._world.names.items() if leads_to == file]
        other = file in self._world.other_name or not known
        return known + ([f"x{file}"] if other else [])

    def _file(self, file: int) -> None:
        calls, world, initial = self._calls, self._world, self._world.files[file]
        first, *others = self._names[file]
        fd = calls.make("open", 0, first, True, False, False)
        values = {world.value(offset): world.value(value) for offset, value in initial.pages}
        for offset in range(world.value(initial.length)):
            calls.make("pwrite", 0, fd, offset, values.get(offset, _CONTENT + file))  # type: ignore[arg-type]
        calls.make("close", 0, fd)  # type: ignore[arg-type]
        for other in others:
            calls.make("link", 0, first, other)

    def _pipe(self, pipe: int) -> None:
        calls, world, initial = self._calls, self._world, self._world.pipes[pipe]
        ends = calls.make("pipe", 0)
        assert isinstance(ends, Ends)
        for number in range(world.value(initial.held)):
            value = world.value(initial.pages.get(number, 2 * _CONTENT + pipe))
            calls.make("write", 0, ends.write, value)
        for end, fd in ((initial.reader, ends.read), (initial.writer, ends.write)):
            parked = PARKED + end
            calls.move(0, fd, parked)
            self._holder[end] = (0, parked)

    def _mapping(self, process: int, slot: int, mapping: InitialMapping) -> None:
        calls, world, writable = self._calls, self._world, bool(mapping.writable.settled)
        if mapping.file is not None:
            fd = calls.open(process, self._names[mapping.file][0])
            calls.make("mmap", process, slot, writable, fd, world.value(mapping.offset))
            calls.make("close", process, fd)
            return
        calls.make("mmap", process, slot, True, None, 0)
        calls.make("memwrite", process, slot, world.value(mapping.value))
        if not writable:
            calls.make("mprotect", process, slot, False)

    def _descriptor(self, process: int, fd: int, number: int) -> None:
        calls, world, initial = self._calls, self._world, self._world.descriptions[number]
        holder = self._holder.setdefault(number, (process, fd))
        if holder != (process, fd):
            calls.make("dup" if holder[0] == process else "receive", process, holder[1], fd)
            return
        assert initial.file is not None
        calls.move(process, calls.open(process, self._names[initial.file][0]), fd)
        if world.value(initial.offset):
            calls.make("lseek", process, fd, world.value(initial.offset))

    def _elsewhere(self, number: int, is_open: bool) -> None:
        """Whether a description is open elsewhere, beside the descriptors that the two calls name."""
        process, fd = self._holder.get(number, (0, FIRST_FD))
        parked = PARKED + number
        if fd == parked and not is_open:
            self._calls.make("close", process, fd)
        elif fd != parked and is_open:
            self._calls.make("dup", process, fd, parked)
