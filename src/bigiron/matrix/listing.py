"""The tests as text: docs/matrix.md has the form."""

import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bigiron.errors import UserError

_HEAD = re.compile(r"test (\d+) ([a-z]+)/([a-z]+) (same|two)$")
_MOST_TESTS = 1_000_000
_MOST_CALLS = 40  # guest/matrix/test_file.h


@dataclass(frozen=True)
class Test:
    """A test: two calls that commute, and what makes the situation in which they do."""

    number: int
    pair: tuple[str, str]  # in alphabetical order
    two_processes: bool
    calls: tuple[str, ...]  # their lines, A and B the last

    @property
    def text(self) -> str:
        """As it is in a file."""
        return self.numbered(self.number)

    def numbered(self, number: int) -> str:
        """The same under another number."""
        mode = "two" if self.two_processes else "same"
        return "\n".join([f"test {number} {'/'.join(self.pair)} {mode}", *self.calls]) + "\n\n"


def read(text: str, where: str) -> list[Test]:
    """All tests of a text; UserError for what is none.

    >>> read("test 3 stat/open two\\nA 0 stat a -> -ENOENT\\nB 1 open b creat -> 3\\n", "t")[0].pair
    ('open', 'stat')
    """
    tests: list[Test] = []
    numbers: set[int] = set()
    for block in re.split(r"\n\s*\n", text.strip()):
        head, *calls = [line.strip() for line in block.splitlines() if line.strip()] or [""]
        found = _HEAD.match(head)
        if not found:
            raise UserError(f"{where}: {head[:60]!r} begins no test, such as: test 1 open/stat same")
        one, other = sorted((found[2], found[3]))
        test = Test(int(found[1]), (one, other), found[4] == "two", tuple(calls))
        _check(test, where)
        if test.number in numbers:
            raise UserError(f"{where}: there are two tests {test.number}")
        numbers.add(test.number)
        tests.append(test)
    if len(tests) > _MOST_TESTS:
        raise UserError(f"{where}: more than {_MOST_TESTS} tests")
    return tests


def _check(test: Test, where: str) -> None:
    for call in test.calls:
        if " -> " not in call:
            raise UserError(f"{where}: test {test.number}: {call[:60]!r} does not say what it returns, after ->")
    sides = [call[:2] for call in test.calls[-2:]]
    if sides != ["A ", "B "] or len(test.calls) > _MOST_CALLS:
        raise UserError(
            f"{where}: test {test.number} does not end with a line A and a line B, or has more than "
            f"{_MOST_CALLS} calls"
        )


def sequence(tests: Sequence[Test], runs: int, seed: int) -> list[Test]:
    """Each test so many times, all of them in another order each time: what is left behind by others is chance."""
    chance = random.Random(seed)
    order: list[Test] = []
    for _ in range(runs):
        some = list(tests)
        chance.shuffle(some)
        order += some
    return order


def numbered(order: Iterable[Test]) -> str:
    """A file in which each run has a number of its own: its place, from 0 on."""
    return "".join(test.numbered(place) for place, test in enumerate(order))
