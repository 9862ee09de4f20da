"""System calls as values, and as the text that guest/pairs/ reads.

    test 17 open/unlink two
    0 open a creat -> 3
    A 0 open b creat,excl -> 4
    B 1 unlink a -> 0

A test's first line is its number, the pair, and whether A and B are made by two threads of the same process
or by two processes; an empty line ends it. Offsets and lengths are in pages, and a page is known by its first
byte: whatever writes one fills it with one value.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from bigiron.errors import UserError

FIRST_FD, LAST_FD = 3, 51
SLOTS = 8
WORDS, SHARED_WORDS = 4, 2
Argument = str | int | bool | None
ResultText = str
"""As guest/pairs/ prints it: 3, -ENOENT, 4 5, page 7, byte 7, file 1 0 i1, SIGBUS, ready 3, child."""


class Kind(StrEnum):
    """What an argument is."""

    NAME = "name"
    FD = "fd"
    OFFSET = "offset"
    VALUE = "value"
    SLOT = "slot"
    FLAG = "flag"  # open's: written out together, where they are set
    ACCESS = "access"  # r, or rw where true
    FILE = "file"  # what a mapping is of: a descriptor, or None for anonymous memory
    ADDRESS = "address"  # of a socket
    ADDS = "adds"  # add, or del where false
    WORD = "word"  # that futexes are about: the process's own, from SHARED_WORDS on one that all share


# The calls of COMMUTER (Clements et al., SOSP 2013), and what they take.
CALLS: dict[str, dict[str, Kind]] = {
    "open": {"name": Kind.NAME, "creat": Kind.FLAG, "excl": Kind.FLAG, "trunc": Kind.FLAG},
    "link": {"old": Kind.NAME, "new": Kind.NAME},
    "unlink": {"name": Kind.NAME},
    "rename": {"old": Kind.NAME, "new": Kind.NAME},
    "stat": {"name": Kind.NAME},
    "fstat": {"fd": Kind.FD},
    "lseek": {"fd": Kind.FD, "offset": Kind.OFFSET},
    "close": {"fd": Kind.FD},
    "pipe": {},
    "read": {"fd": Kind.FD},
    "write": {"fd": Kind.FD, "value": Kind.VALUE},
    "pread": {"fd": Kind.FD, "offset": Kind.OFFSET},
    "pwrite": {"fd": Kind.FD, "offset": Kind.OFFSET, "value": Kind.VALUE},
    "mmap": {"slot": Kind.SLOT, "writable": Kind.ACCESS, "fd": Kind.FILE, "offset": Kind.OFFSET},
    "munmap": {"slot": Kind.SLOT},
    "mprotect": {"slot": Kind.SLOT, "writable": Kind.ACCESS},
    "memread": {"slot": Kind.SLOT},
    "memwrite": {"slot": Kind.SLOT, "value": Kind.VALUE},
}
# Those of other families, each as few as can stand for it: docs/explanation/commutativity.md.
EXTENDED_CALLS: dict[str, dict[str, Kind]] = {
    "getpid": {},
    "getppid": {},
    "futex_wait": {"word": Kind.WORD, "value": Kind.VALUE},
    "futex_wake": {"word": Kind.WORD},
    "epoll_create": {},
    "epoll_ctl": {"fd": Kind.FD, "adds": Kind.ADDS, "to": Kind.FD},
    "epoll_wait": {"fd": Kind.FD},
    "socket": {},
    "bind": {"fd": Kind.FD, "address": Kind.ADDRESS},
    "sendto": {"fd": Kind.FD, "address": Kind.ADDRESS, "value": Kind.VALUE},
    "recvfrom": {"fd": Kind.FD},
    "close": {"fd": Kind.FD},
    "fork": {},
    "wait": {},
}
# How many descriptors a call takes: the lowest that are free.
TAKES = {"open": 1, "pipe": 2, "socket": 1, "epoll_create": 1}
# To set up only: dup2(), the same of the other process's descriptor, and a store to a futex's word.
SET_UP_CALLS: dict[str, dict[str, Kind]] = {
    "dup": {"fd": Kind.FD, "to": Kind.FD},
    "receive": {"fd": Kind.FD, "to": Kind.FD},
    "store": {"word": Kind.WORD, "value": Kind.VALUE},
}
SIGNATURES = {**CALLS, **EXTENDED_CALLS, **SET_UP_CALLS}
# What guest/pairs/call_text.c and guest/pairs/test_file.c take.
_RANGES = {
    Kind.FD: range(FIRST_FD, LAST_FD + 1),
    Kind.FILE: range(FIRST_FD, LAST_FD + 1),
    Kind.OFFSET: range(-1_000_000, 1_000_001),
    Kind.VALUE: range(256),
    Kind.SLOT: range(SLOTS),
    Kind.WORD: range(WORDS),
}
_MOST_DIGITS = 9
_MOST_RESULT = 95  # characters


@dataclass(frozen=True)
class SystemCall:
    """One call with its arguments, in the order of its signature.

    >>> print(SystemCall("open", 0, ("a", True, False, True)))
    0 open a creat,trunc
    >>> print(SystemCall("mmap", 1, (0, True, None, 0)), "and", SystemCall("mmap", 1, (0, False, 3, 1)))
    1 mmap 0 rw anon and 1 mmap 0 r 3 1
    """

    name: str
    process: int
    arguments: tuple[Argument, ...]

    def named(self) -> dict[str, Argument]:
        return dict(zip(SIGNATURES[self.name], self.arguments, strict=True))

    def __str__(self) -> str:
        words = [str(self.process), self.name]
        flags = []
        for (parameter, kind), value in zip(SIGNATURES[self.name].items(), self.arguments, strict=True):
            match kind:
                case Kind.FLAG:
                    flags += [parameter] if value else []
                case Kind.ACCESS:
                    words.append("rw" if value else "r")
                case Kind.ADDS:
                    words.append("add" if value else "del")
                case Kind.FILE if value is None:
                    return " ".join([*words, "anon"])
                case _:
                    words.append(str(value))
        return " ".join(words + ([",".join(flags)] if flags else []))

    @classmethod
    def parsed(cls, text: str) -> Self:
        """UserError if it is no call.

        >>> SystemCall.parsed("1 open b trunc")
        SystemCall(name='open', process=1, arguments=('b', False, False, True))
        """
        process, name, *words = [*text.split(), "", ""][: max(2, len(text.split()))]
        if process not in ("0", "1") or name not in SIGNATURES:
            raise UserError(
                f"not a call: {text!r}; a call is its process (0 or 1), its name and its arguments"
            )
        arguments = _parsed_arguments(name, words)
        if arguments is None:
            raise UserError(f"wrong arguments of {name} in {text!r}: {_form(name)}")
        return cls(name, int(process), arguments)


@dataclass(frozen=True)
class Test:
    """Calls to set up, then two that commute; each with the result that the model gives."""

    number: int
    same: bool  # A and B are made by two threads of one process, not by two processes
    set_up: tuple[tuple[SystemCall, ResultText], ...]
    a: tuple[SystemCall, ResultText]
    b: tuple[SystemCall, ResultText]

    @property
    def pair(self) -> str:
        return f"{self.a[0].name}/{self.b[0].name}"

    def __str__(self) -> str:
        lines = [f"test {self.number} {self.pair} {'same' if self.same else 'two'}"]
        lines += [f"{call} -> {result}" for call, result in self.set_up]
        lines += [f"{role} {call} -> {result}" for role, (call, result) in (("A", self.a), ("B", self.b))]
        return "\n".join(lines) + "\n"

    def expected(self) -> list[ResultText]:
        """What guest/pairs/ prints of this test, below its first line."""
        return [*(result for _, result in self.set_up), f"A {self.a[1]}", f"B {self.b[1]}"]


def parsed_tests(lines: Iterable[str]) -> Iterator[Test]:
    """The tests of a text. UserError, with its line, for what is none."""
    block: list[tuple[int, str]] = []
    for number, line in enumerate([*lines, ""], 1):
        if line.strip():
            block.append((number, line.strip()))
        elif block:
            yield _parsed_test(block)
            block = []


def _parsed_test(block: list[tuple[int, str]]) -> Test:
    (first, header), *rest = block
    words = header.split()
    if len(words) != 4 or words[0] != "test" or not _is_number(words[1]) or words[3] not in ("same", "two"):
        raise UserError(f"line {first}: a test starts with: test NUMBER CALL/CALL same|two")
    roles: list[str] = []
    calls: list[tuple[SystemCall, ResultText]] = []
    for number, line in rest:
        text, _, result = line.partition(" -> ")
        roles.append(text[0] if text[:2] in ("A ", "B ") else "")
        try:
            calls.append((SystemCall.parsed(text.removeprefix(roles[-1])), _checked_result(result.strip())))
        except UserError as error:
            raise UserError(f"line {number}: {error}") from None
    if roles[-2:] != ["A", "B"] or any(roles[:-2]):
        raise UserError(f"line {first}: a test ends with one call A and one call B")
    *set_up, a, b = calls
    test = Test(int(words[1]), words[3] == "same", tuple(set_up), a, b)
    if wrong := _wrong_in(test):
        raise UserError(f"line {first}: {wrong}")
    return test


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdecimal() and len(word) <= _MOST_DIGITS


def _checked_result(result: str) -> ResultText:
    if not result or len(result) > _MOST_RESULT or not (result.isascii() and result.isprintable()):
        raise UserError("a call is followed by its result, for instance -> 3")
    return result


def _wrong_in(test: Test) -> str:
    """What keeps it from being run as it stands, or nothing."""
    a, b = test.a[0], test.b[0]
    if {a.name, b.name} & SET_UP_CALLS.keys():
        return f"{', '.join(SET_UP_CALLS)} can only be used in the set-up"
    if test.same:
        calls = (*(call for call, _ in test.set_up), a, b)
        others = any(call.process or call.name == "receive" for call in calls)
        return "in a test of the same process all calls are by process 0, and none receives" if others else ""
    return (
        "A and B are by the same process: let B be by the other one, or say same"
        if a.process == b.process
        else ""
    )


def _parsed_arguments(name: str, words: list[str]) -> tuple[Argument, ...] | None:
    """None if they are not what the call takes."""
    rest = iter(words)
    flags: set[str] | None = None
    arguments: list[Argument] = []
    for parameter, kind in SIGNATURES[name].items():
        if kind is Kind.FLAG:
            flags = set(next(rest, "").split(",")) - {""} if flags is None else flags
            arguments.append(parameter in flags)
            flags.discard(parameter)
            continue
        word = next(rest, "")
        if kind is Kind.FILE and word == "anon":
            arguments += [None, 0]
            break
        if not _fits(kind, word) or (name == "mmap" and kind is Kind.OFFSET and word[0] == "-"):
            return None
        arguments.append(_value(kind, word))
    return None if flags or next(rest, "") else tuple(arguments)


def _value(kind: Kind, word: str) -> Argument:
    match kind:
        case Kind.NAME | Kind.ADDRESS:
            return word
        case Kind.ACCESS:
            return word == "rw"
        case Kind.ADDS:
            return word == "add"
        case _:
            return int(word)


def _fits(kind: Kind, word: str) -> bool:
    match kind:
        case Kind.NAME | Kind.ADDRESS:
            return word.isascii() and word.isalnum() and len(word) < 16
        case Kind.ADDS:
            return word in ("add", "del")
        case Kind.ACCESS:
            return word in ("r", "rw")
        case _:
            return _is_number(word.removeprefix("-")) and int(word) in _RANGES[kind]


def _form(name: str) -> str:
    return " ".join([name, *(kind.upper() for kind in SIGNATURES[name].values())])
