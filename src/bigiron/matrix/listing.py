"""Lists of tests: read, and put in the orders in which they run."""

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from bigiron.errors import UserError
from bigiron.matrix.model.calls import Test, parsed_tests

CallPair = tuple[str, str]  # of calls, in alphabetical order

_MOST_TESTS = 1_000_000
MOVED = (0, 1, 3, 5, 6)
"""By how many descriptors a test's are moved in its runs, one after the other.

A line of the table has 8, and 4 is the first of one. So 3 and another descriptor share a line at three or
more of these places if they do at most of all 8, and else at two or fewer.
"""
_MOST_CALLS = 256  # guest/pairs/test_file.h


def read(text: str, where: str) -> list[Test]:
    r"""All tests of a text; UserError for what is none.

    >>> pair_of(read("test 3 stat/open two\nA 0 stat a -> -ENOENT\nB 1 open b creat -> 3\n", "t")[0])
    ('open', 'stat')
    """
    try:
        tests = list(parsed_tests(text.splitlines()))
    except UserError as error:
        raise UserError(f"{where}: {error}") from None
    if not tests:
        raise UserError(f"{where} has no tests")
    if len(tests) > _MOST_TESTS:
        raise UserError(f"{where}: more than {_MOST_TESTS} tests")
    numbers: set[int] = set()
    for test in tests:
        if len(test.set_up) + 2 > _MOST_CALLS:
            raise UserError(f"{where}: test {test.number} has more than {_MOST_CALLS} calls")
        if test.number in numbers:
            raise UserError(f"{where}: there are two tests {test.number}")
        numbers.add(test.number)
    return tests


def pair_of(test: Test) -> CallPair:
    """Which two calls a test makes."""
    one, other = sorted((test.a[0].name, test.b[0].name))
    return one, other


def sequence(tests: Sequence[Test], runs: int, seed: int) -> list[Test]:
    """Each test so many times, each time all in another order: what others leave behind is chance."""
    chance = random.Random(seed)
    order: list[Test] = []
    for _ in range(runs):
        some = list(tests)
        chance.shuffle(some)
        order += some
    return order


def numbered(order: Iterable[Test]) -> str:
    """A file in which each run has a number of its own: its place, from 0 on.

    Each run of a test has its descriptors at another place (guest/pairs/test_file.h).
    """
    runs: Counter[int] = Counter()
    texts = []
    for place, test in enumerate(order):
        head, _, calls = str(replace(test, number=place)).partition("\n")
        texts.append(f"{head} {MOVED[runs[test.number] % len(MOVED)]}\n{calls}")
        runs[test.number] += 1
    return "\n".join(texts)
