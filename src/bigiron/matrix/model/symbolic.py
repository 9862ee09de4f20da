"""A state of which is known only what was asked: each part is settled when the model looks at it.

Lazy initialisation, as in generalised symbolic execution (Khurshid, Pasareanu and Visser, 2003): a name leads
nowhere, to a file that is known already, or to another one; a comparison of two numbers is true or false. A
World follows one sequence of such choices; `worlds()` goes through all of them, depth first. Numbers have
small domains, and what was settled about them is kept as the list of values still possible together.
"""

import operator
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from bigiron.matrix.model.model import (
    PIPE_PAGES,
    Description,
    FileContent,
    Inode,
    LeftOutError,
    Mapping,
    Pipe,
)

# In the order in which they are preferred where several will do.
OFFSETS = (0, 1, 2, 3)
ARGUMENT_OFFSETS = (0, 1, 2, -1)
LENGTHS = (1, 2, 3, 0)
VALUES = (1, 2, 3, 4, 0)
_HELD = (1, 2, 3, 0, PIPE_PAGES - 1, PIPE_PAGES)
FDS = (1, 2)  # descriptors that are one description
_FDS_OF_OTHER_END = (1, 0, 2)
_LINKS = (1,)  # no call asks how many there are: results are compared, and differ by what was added


class ImpossibleError(Exception):
    """What was settled cannot be."""


# To the model an unknown number is an int, an unknown flag a bool.
Int = Any
Bool = Any

Made = TypeVar("Made")
AnyWorld = TypeVar("AnyWorld", bound="World")


class Number:
    """An unknown number, or one that much greater. It can be compared, which settles the outcome."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, world: "World", variable: int, more: int = 0) -> None:
        self.world, self.variable, self.more = world, variable, more

    def __add__(self, more: int) -> "Number":
        return Number(self.world, self.variable, self.more + more)

    def __sub__(self, less: int) -> "Number":
        return self + -less

    def __eq__(self, other: object) -> bool:
        return self.world.holds(operator.eq, self, other)

    def __lt__(self, other: object) -> bool:
        return self.world.holds(operator.lt, self, other)

    def __gt__(self, other: object) -> bool:
        return self.world.holds(operator.gt, self, other)


class Flag:
    """Something that is so or not; it is settled where it is asked."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.settled: bool | None = None

    def __bool__(self) -> bool:
        if self.settled is None:
            self.settled = self.world.choose(2) == 0
        return self.settled


class Name:
    """A name that is an argument: one that is known already, or another one."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.settled: str | None = None

    def __str__(self) -> str:
        if self.settled is None:
            known = self.world.known_names
            chosen = self.world.choose(len(known) + 1)
            if chosen == len(known):
                known.append("abcdefgh"[chosen])
            self.settled = known[chosen]
        return self.settled


@dataclass
class InitialFile:
    """A file that is there before the calls."""

    links: Int
    length: Int
    pages: list[tuple[Int, Int]] = field(default_factory=list)  # offset and value, as far as they were asked


@dataclass
class InitialPipe:
    """A pipe that is there before the calls."""

    held: Int
    reader: int
    writer: int
    pages: dict[int, Int] = field(default_factory=dict)


@dataclass
class InitialDescription:
    """An open file description that is there before the calls."""

    offset: Int
    fds: Int
    known_fds: int = 0
    file: int | None = None
    pipe: int = -1  # where it is of none
    writes: bool = True


@dataclass
class InitialMapping:
    """A mapping that is there before the calls."""

    file: int | None  # None: anonymous memory
    offset: Int
    writable: Bool
    value: Int


class World:
    """The initial state along one sequence of choices."""

    def __init__(self, chosen: Sequence[int]) -> None:
        self._ahead = list(chosen)
        self.choices: list[tuple[int, int]] = []  # what was chosen of how many
        self._component: list[_Component] = []  # of each variable
        self.known_names: list[str] = []
        self.names: dict[str, int | None] = {}
        self.other_name: set[int] = set()  # files that have one more
        self.arguments: set[tuple[int, int]] = set()  # descriptors that calls name; no other is open
        self.fds: dict[tuple[int, int], int | None] = {}
        self.slots: dict[tuple[int, int], InitialMapping | None] = {}
        self.files: list[InitialFile] = []
        self.pipes: list[InitialPipe] = []
        self.descriptions: list[InitialDescription] = []

    def choose(self, options: int) -> int:
        position = len(self.choices)
        chosen = self._ahead[position] if position < len(self._ahead) else 0
        self.choices.append((chosen, options))
        return chosen

    # Numbers.

    def number(self, domain: Sequence[int]) -> Number:
        variable = len(self._component)
        self._component.append(_Component([variable], [(value,) for value in domain]))
        return Number(self, variable)

    def holds(self, compare: Callable[[int, int], bool], left: Any, right: Any) -> bool:
        true, false, component = self._split(compare, left, right)
        outcome = self.choose(2) == 0 if true and false else bool(true)
        component.possible = true if outcome else false
        return outcome

    def require(self, compare: Callable[[int, int], bool], left: Any, right: Any) -> None:
        true, _, component = self._split(compare, left, right)
        if not true:
            raise ImpossibleError
        component.possible = true

    def value(self, number: Any) -> int:
        """The first that is possible."""
        if not isinstance(number, Number):
            return int(number)
        component = self._component[number.variable]
        return component.possible[0][component.variables.index(number.variable)] + number.more

    def _split(self, compare: Callable[[int, int], bool], left: Any, right: Any) -> "_Split":
        component = self._joined([x.variable for x in (left, right) if isinstance(x, Number)])
        of_left, of_right = component.reader(left), component.reader(right)
        true: list[tuple[int, ...]] = []
        false: list[tuple[int, ...]] = []
        for values in component.possible:
            (true if compare(of_left(values), of_right(values)) else false).append(values)
        return true, false, component

    def _joined(self, variables: list[int]) -> "_Component":
        components = {id(self._component[v]): self._component[v] for v in variables}
        first, *others = components.values() if components else [_Component([], [()])]
        for other in others:
            first = _Component(
                first.variables + other.variables, [a + b for a in first.possible for b in other.possible]
            )
        if others:
            for variable in first.variables:
                self._component[variable] = first
        return first

    def settle_last(self, file: int) -> None:
        """Whether a name that was taken from a file is its last one."""
        if self.choose(2):
            self.other_name.add(file)

    # What is where.

    def name(self, name: str) -> int | None:
        if name not in self.names:
            chosen = self.choose(len(self.files) + 2) - 2
            self.names[name] = None if chosen == -2 else self._file(chosen)
        return self.names[name]

    def fd(self, process: int, fd: int) -> int | None:
        if (process, fd) not in self.arguments:
            return None
        if (process, fd) not in self.fds:
            chosen = self.choose(len(self.descriptions) + 2) - 2
            if chosen == -2:
                self.fds[process, fd] = None
                return None
            number = self._opened() if chosen == -1 else chosen
            description = self.descriptions[number]
            description.known_fds += 1
            self.require(operator.ge, description.fds, description.known_fds)
            self.fds[process, fd] = number
        return self.fds[process, fd]

    def slot(self, process: int, slot: int) -> InitialMapping | None:
        if (process, slot) not in self.slots:
            chosen = self.choose(len(self.files) + 3) - 3
            self.slots[process, slot] = None if chosen == -3 else self._mapping(chosen)
        return self.slots[process, slot]

    def page(self, file: int, offset: Int) -> Int:
        pages = self.files[file].pages
        for at, value in pages:
            if at == offset:
                return value
        pages.append((offset, self.number(VALUES)))
        return pages[-1][1]

    def pipe_page(self, pipe: int, number: int) -> Int:
        return self.pipes[pipe].pages.setdefault(number, self.number(VALUES))

    def _file(self, chosen: int) -> int:
        """A known one, or -1: another one."""
        if chosen >= 0:
            return chosen
        self.files.append(InitialFile(self.number(_LINKS), self.number(LENGTHS)))
        return len(self.files) - 1

    def _description(self, fds: Sequence[int]) -> int:
        self.descriptions.append(InitialDescription(self.number(OFFSETS), self.number(fds)))
        return len(self.descriptions) - 1

    def _opened(self) -> int:
        """A description that is not known yet: of a file, or an end of a pipe that is not known either."""
        chosen = self.choose(len(self.files) + 3) - 3
        number = self._description(FDS)
        if chosen >= -1:
            self.descriptions[number].file = self._file(chosen)
        else:
            self._pipe(number, self._description(_FDS_OF_OTHER_END), writes=chosen == -2)
        return number

    def _pipe(self, number: int, other: int, writes: bool) -> None:
        reader, writer = (other, number) if writes else (number, other)
        self.pipes.append(InitialPipe(self.number(_HELD), reader, writer))
        for end in (reader, writer):
            self.descriptions[end].pipe = len(self.pipes) - 1
            self.descriptions[end].writes = end == writer

    def _mapping(self, chosen: int) -> InitialMapping:
        """Of a known file, or -1: another one, or -2: none."""
        file = None if chosen == -2 else self._file(chosen)
        return InitialMapping(file, self.number(OFFSETS), Flag(self), self.number(VALUES))


@dataclass
class _Component:
    """Numbers that have to do with each other, and all values that they can have together."""

    variables: list[int]
    possible: list[tuple[int, ...]]

    def reader(self, number: Any) -> Callable[[tuple[int, ...]], int]:
        if not isinstance(number, Number):
            return lambda _: number
        position, more = self.variables.index(number.variable), number.more
        return lambda values: values[position] + more


_Split = tuple[list[tuple[int, ...]], list[tuple[int, ...]], _Component]


class Unknown:
    """A world's objects as one State finds them, which changes its own copies of them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._objects: dict[Hashable, Any] = {}

    def looked_at(self) -> dict[Hashable, Any]:
        return self._objects

    def all(self) -> dict[Hashable, Any]:
        """What another State has looked at, too."""
        for file in range(len(self._world.files)):
            self._file(file)
        for description in range(len(self._world.descriptions)):
            self._description(description)
        return self._objects

    def name(self, name: str) -> Inode | None:
        number = self._world.name(name)
        return None if number is None else self._file(number)

    def fd(self, process: int, fd: int) -> Description | None:
        number = self._world.fd(process, fd)
        return None if number is None else self._description(number)

    def slot(self, process: int, slot: int) -> Mapping | None:
        initial = self._world.slot(process, slot)
        if initial is None:
            return None
        file = None if initial.file is None else self._file(initial.file)
        return Mapping(file, initial.offset, initial.writable, initial.value)

    def _file(self, number: int) -> Inode:
        if ("file", number) not in self._objects:
            initial = self._world.files[number]
            content = FileContent(lambda offset: self._world.page(number, offset))
            self._objects["file", number] = Inode(initial.links, initial.length, content)
        file: Inode = self._objects["file", number]
        return file

    def _description(self, number: int) -> Description:
        if ("description", number) not in self._objects:
            initial = self._world.descriptions[number]
            if initial.file is None:
                self._make_pipe(initial.pipe)
            else:
                opened = Description(self._file(initial.file), True, initial.offset, initial.fds)
                self._objects["description", number] = opened
        description: Description = self._objects["description", number]
        return description

    def _make_pipe(self, number: int) -> None:
        initial = self._world.pipes[number]
        pipe = Pipe(lambda: initial.held, lambda page: self._world.pipe_page(number, page))
        pipe.reader = Description(pipe, writes=False, fds=self._world.descriptions[initial.reader].fds)
        pipe.writer = Description(pipe, fds=self._world.descriptions[initial.writer].fds)
        self._objects["pipe", number] = pipe
        self._objects["description", initial.reader] = pipe.reader
        self._objects["description", initial.writer] = pipe.writer


@dataclass(frozen=True)
class Situation:
    """Two calls with their arguments, in a world."""

    calls: tuple[str, str]
    same: bool  # made by two threads of one process, not by two processes
    arguments: tuple[dict[str, Any], dict[str, Any]]
    world: World

    def process(self, role: int) -> int:
        return 0 if self.same else role


def worlds(kind: type[AnyWorld], visit: Callable[[AnyWorld], Made]) -> Iterator[Made]:
    """What `visit` makes of each world, in the order of their choices; impossible ones are left out."""
    ahead: list[int] | None = []
    while ahead is not None:
        world = kind(ahead)
        with suppress(ImpossibleError, LeftOutError):
            yield visit(world)
        ahead = _next(world.choices)


def _next(choices: Sequence[tuple[int, int]]) -> list[int] | None:
    """The last choice that has another option is made again, and what came after it is open."""
    for last in reversed(range(len(choices))):
        chosen, options = choices[last]
        if chosen + 1 < options:
            return [earlier for earlier, _ in choices[:last]] + [chosen + 1]
    return None
