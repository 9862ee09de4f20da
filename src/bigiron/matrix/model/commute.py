"""Whether two calls commute: each gives the same in both orders, and no later call can tell the order.

Objects that were there before are themselves; those that a call made are matched with those that took their
place in the other order. A new inode's number is free, a new descriptor's is not: it is the lowest free.
"""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from bigiron.matrix.model.extended.model import Epoll, Socket
from bigiron.matrix.model.model import (
    ByteRead,
    CallResult,
    Description,
    Ends,
    Fifo,
    FileContent,
    Inode,
    Mapping,
    Pipe,
    Stat,
    State,
)
from bigiron.matrix.model.symbolic import LENGTHS, Number

_MOST_PAGES = max(LENGTHS) + 3  # what two calls can make of a file


class Before(Protocol):
    """The files, pipes and descriptions that were there, each with its name in both orders."""

    def looked_at(self) -> dict[Hashable, Any]: ...
    def all(self) -> dict[Hashable, Any]: ...


@dataclass
class After:
    """What calls made of one state, in one order."""

    state: State
    a: CallResult
    b: CallResult
    before: Before


def commutes(first: After, second: After) -> bool:
    """Comparisons of what is unknown are settled on the way."""
    same = _SameResults(first, second)
    return same.given(first.a, second.a) and same.given(first.b, second.b) and same.states()


@dataclass
class _SameResults:
    first: After
    second: After
    _matched: dict[Any, Any] = field(default_factory=dict)

    def given(self, x: CallResult, y: CallResult) -> bool:
        match x, y:
            case Stat(), Stat():
                return self.thing(x.inode, y.inode) and x.links == y.links and x.length == y.length
            case ByteRead(), ByteRead():
                return x.what == y.what and x.value == y.value
            case Ends(), Ends():
                return (x.read, x.write) == (y.read, y.write)
            case (Stat() | ByteRead() | Ends(), _) | (_, Stat() | ByteRead() | Ends()):
                return False
            case _:
                return isinstance(x, str) == isinstance(y, str) and x == y

    def thing(self, x: Any, y: Any) -> bool:
        """Whether they are one file, pipe or description, or stand for one."""
        if x is None or y is None:
            return x is y
        names = _name(self.first.before, x), _name(self.second.before, y)
        if names != (None, None):
            return names[0] == names[1]
        if x not in self._matched and y not in self._matched.values():
            self._matched[x] = y
        return self._matched.get(x) is y

    def states(self) -> bool:
        tables = zip(self.first.state.tables(), self.second.state.tables(), strict=True)
        found = all(self._found(x, y) for first, second in tables for x, y in _of_both(first, second))
        return found and self._before() and self._new()

    def _found(self, x: Any, y: Any) -> bool:
        """What lies in one place."""
        match x, y:
            case Mapping(), Mapping():
                return self._mapping(x, y)
            case (Mapping(), None) | (None, Mapping()):
                return False
            case (int() | Number(), int() | Number()):
                return bool(x == y)
            case _:
                return self.thing(x, y)

    def _before(self) -> bool:
        x, y = self.first.before.all(), self.second.before.all()
        return all(self._contents(x[name], y[name]) for name in x)

    def _new(self) -> bool:
        """Comparing two may match two more."""
        compared = 0
        while compared < len(self._matched):
            x, y = list(self._matched.items())[compared]
            if not self._contents(x, y) or not self._same_target(x, y):
                return False
            compared += 1
        return True

    def _same_target(self, x: Any, y: Any) -> bool:
        if not isinstance(x, Description):
            return True
        return self.thing(x.target, y.target) and x.writes == y.writes

    def _mapping(self, x: Mapping, y: Mapping) -> bool:
        return (
            self.thing(x.file, y.file)
            and (x.writable is y.writable or bool(x.writable) == bool(y.writable))
            and (x.value == y.value if x.file is None else x.offset == y.offset)
        )

    def _contents(self, x: Any, y: Any) -> bool:
        match x, y:
            case Inode(), Inode():
                return bool(x.links == y.links and x.length == y.length and _same_content(x, y))
            case Pipe(), Pipe():
                return _same_queue(x, y)
            case Socket(), Socket():
                return bool(x.is_bound) == bool(y.is_bound) and _same_queue(x, y)
            case Epoll(), Epoll():
                return self._interest(x, y)
            case Description(), Description():
                return bool(x.offset == y.offset and x.fds == y.fds)
            case _:
                return False

    def _interest(self, x: Epoll, y: Epoll) -> bool:
        """What one of two calls added or removed was open before: the other could not have opened it."""
        of_x = {(fd, _name(self.first.before, what)): is_in for (fd, what), is_in in x.changed.items()}
        of_y = {(fd, _name(self.second.before, what)): is_in for (fd, what), is_in in y.changed.items()}
        return of_x == of_y


def _same_queue(x: Fifo, y: Fifo) -> bool:
    written = len(x.written) == len(y.written) and all(map(_equal, x.written, y.written))
    return bool(x.held == y.held and x.taken == y.taken and written)


def _name(before: Before, thing: Any) -> Hashable:
    return next((name for name, known in before.looked_at().items() if known is thing), None)


def _of_both(first: dict[Any, Any], second: dict[Any, Any]) -> Iterator[tuple[Any, Any]]:
    for key in sorted({**first, **second}):
        yield first[key], second[key]


def _equal(x: int, y: int) -> bool:
    return x == y


def _same_content(x: Inode, y: Inode) -> bool:
    """Of two files of one length."""
    offsets: list[int]
    if _came_from_one(x.content, y.content):
        offsets = [offset for offset, _ in x.content.written + y.content.written]
    else:
        offsets = list(range(_MOST_PAGES))
    return all(x.content[at] == y.content[at] for at in offsets if at < x.length)


def _came_from_one(x: FileContent, y: FileContent) -> bool:
    return (x.before is None) == (y.before is None)
