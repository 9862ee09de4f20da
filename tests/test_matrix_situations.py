"""Which situations of two calls are found, and whether the kernel agrees that the calls commute."""

import re
from collections.abc import Callable, Iterator

import pytest
from kernel_calls import made

from bigiron.matrix.model import calls
from bigiron.matrix.model import situations as enumeration
from bigiron.matrix.model.calls import CALLS, SystemCall
from bigiron.matrix.model.set_up import test_of as made_into_test
from bigiron.matrix.model.situations import COMMUTER, EXTENDED, Family, pairs, situations
from bigiron.matrix.model.situations import tests as all_tests

SOME_PAIRS = pairs()[::10]
SOME_EXTENDED_PAIRS = pairs(EXTENDED)[::6]


def found_for(some: list[tuple[str, str]], family: Family = COMMUTER) -> Iterator[calls.Test]:
    for a, b in some:
        for same in (True, False):
            for situation in situations(a, b, same, family):
                yield family.test_of(1, situation)


def texts(a: str, b: str, same: bool) -> list[str]:
    return [str(made_into_test(1, situation)) for situation in situations(a, b, same)]


def wrong(some: list[calls.Test], order: str) -> list[str]:
    """Those of which a call gives something else than the model says."""
    given = made("\n".join(map(str, some)), order)
    return [str(test) for test, results in zip(some, given, strict=True) if results != test.expected()]


def later_calls(test: calls.Test) -> list[str]:
    """They look at everything that the calls of a test have to do with, and change it too."""
    made = [call for call, _ in (*test.set_up, test.a, test.b)]
    names = sorted({word for call in made for word in call.arguments if isinstance(word, str)})
    fds = sorted(
        {int(call.arguments[1] or 0) for call in made if call.name in ("dup", "receive")} | {3, 4, 5, 6}
    )
    both = ("0",) if test.same else ("0", "1")
    on_slots = [f"memread {slot}" for slot in (0, 1)]
    on_fds = [f"{call} {fd}" for fd in fds for call in ("fstat", "pread", "read", "read", "write", "read")]
    look = [f"{process} {call}" for process in both for call in (*on_slots, *on_fds)]
    return [
        *(f"0 stat {name}" for name in names),
        *(f"{call} {offset}" for call in look if " pread " in call for offset in range(5)),
        *(f"{call} 77" if " write " in call else call for call in look if " pread " not in call),
        *(f"{process} memwrite {slot} {90 + slot}" for process in both for slot in (0, 1)),
        *(f"0 close {fd}" for fd in fds),
        *(call for name in names for call in (f"0 open {name}", "0 pread 3 0", "0 pread 3 1", "0 close 3")),
    ]


def later_extended_calls(test: calls.Test) -> list[str]:
    made = [call for call, _ in (*test.set_up, test.a, test.b)]
    addresses = sorted({word for call in made for word in call.arguments if isinstance(word, str)})
    fds = sorted({3, 4, 5, 6} | {int(call.arguments[1] or 0) for call in made if call.name == "dup"})
    both = ("0",) if test.same else ("0", "1")
    waits = [f"futex_wait {word} 0" for word in range(calls.WORDS)] + ["wait"] * 4

    def each(*names: str) -> list[str]:
        return [f"{name} {fd}" for name in names for fd in fds]

    sends = [f"sendto {fd} {address} {fd}" for fd in (3, 4) for address in addresses]
    binds = [f"bind {fd} new{fd}" for fd in fds]
    looks = each("epoll_wait", "recvfrom", "recvfrom", "recvfrom")
    every = [*waits, *looks, *sends, *each("recvfrom", "epoll_wait"), *binds, *each("close")]
    # An address that is still in use is another result than one that is free.
    ends = ["0 socket", *(f"0 sendto 3 {address} 1" for address in addresses)]
    return [*(f"{process} {call}" for process in both for call in every), *ends]


def told_apart(
    some: list[calls.Test], later_calls: Callable[[calls.Test], list[str]] = later_calls
) -> list[bool]:
    """Of each, whether some later call gives something else, or one of the two, if B comes first."""
    texts: dict[bool, list[str]] = {False: [], True: []}
    for test in some:
        before = [str(call) for call, _ in test.set_up]
        # Which inode is which is known beforehand.
        before += [
            f"0 stat {name}" for name in sorted(set(re.findall(r"\b(?:[a-d]|x\d)\b", " ".join(before))))
        ]
        pair = [str(test.a[0]), str(test.b[0])]
        for b_first, lines in texts.items():
            order = pair[::-1] if b_first else pair
            header = f"test {len(before)} later {'same' if test.same else 'two'}"
            lines.append("\n".join([header, *before, *order, *later_calls(test)]) + "\n")
    straight, swapped = (made("\n".join(texts[b_first])) for b_first in (False, True))
    at = [int(text.split()[1]) for text in texts[False]]
    for results, a in zip(swapped, at, strict=True):
        results[a], results[a + 1] = results[a + 1], results[a]
    return [_renumbered(x) != _renumbered(y) for x, y in zip(straight, swapped, strict=True)]


def _renumbered(results: list[str]) -> list[str]:
    """Inodes by the order in which they appear here, whatever the order in which the calls were made."""
    seen: dict[str, str] = {}
    return [
        re.sub(r"\bi\d+$", lambda inode: seen.setdefault(inode[0], f"i{len(seen)}"), line) for line in results
    ]


def test_there_are_171_pairs_of_18_calls() -> None:
    assert len(CALLS) == 18
    assert len(pairs()) == len(set(pairs())) == 171


def test_there_are_105_pairs_of_14_extended_calls() -> None:
    assert len(EXTENDED.calls) == 14 and set(EXTENDED.calls) & set(CALLS) == {"close"}
    assert len(pairs(EXTENDED)) == 105


@pytest.mark.slow
def test_what_the_model_says_of_extended_calls_holds_in_both_orders() -> None:
    some = list(found_for(SOME_EXTENDED_PAIRS, EXTENDED))
    assert len(some) > 500
    assert wrong(some, "a-first") == wrong(some, "b-first") == []


@pytest.mark.slow
def test_no_later_extended_call_tells_the_order() -> None:
    assert not any(told_apart(list(found_for(SOME_EXTENDED_PAIRS, EXTENDED)), later_extended_calls))


@pytest.mark.slow
def test_where_extended_calls_do_not_commute_the_order_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    commutes: Callable[..., bool] = enumeration.commutes
    monkeypatch.setattr(enumeration, "commutes", lambda first, second: not commutes(first, second))
    some = list(found_for(SOME_EXTENDED_PAIRS, EXTENDED))
    assert len(some) > 50
    assert all(told_apart(some, later_extended_calls))


@pytest.mark.slow
def test_what_the_model_says_holds_in_both_orders() -> None:
    some = list(found_for(SOME_PAIRS))
    assert len(some) > 500
    assert wrong(some, "a-first") == wrong(some, "b-first") == []


@pytest.mark.slow
def test_no_later_call_tells_the_order() -> None:
    some = list(found_for(SOME_PAIRS))
    assert not any(told_apart(some))


def test_where_calls_do_not_commute_the_order_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    commutes: Callable[..., bool] = enumeration.commutes
    monkeypatch.setattr(enumeration, "commutes", lambda first, second: not commutes(first, second))
    some = list(found_for(SOME_PAIRS))
    assert len(some) > 50
    assert all(told_apart(some))


@pytest.mark.slow
def test_all_of_them() -> None:
    everything = list(all_tests())
    assert len(everything) >= 10_000
    assert [test.number for test in everything] == list(range(1, len(everything) + 1))
    assert len({str(test).partition("\n")[2] + str(test.same) for test in everything}) == len(everything)
    assert wrong(everything, "a-first") == wrong(everything, "b-first") == []


def test_they_are_the_same_each_time() -> None:
    assert texts("open", "unlink", False) == texts("open", "unlink", False)


def test_two_threads_cannot_swap_the_descriptors_that_they_get() -> None:
    assert texts("pipe", "pipe", True) == []
    assert texts("pipe", "pipe", False) == ["test 1 pipe/pipe two\nA 0 pipe -> 3 4\nB 1 pipe -> 3 4\n"]
    assert not any(
        "A 0 open a -> 3\nB 0 open" in text and "B 0 open b -> 4" in text
        for text in texts("open", "open", True)
    )


def test_processes_create_one_file_in_either_order() -> None:
    assert "test 1 open/open two\nA 0 open a creat -> 3\nB 1 open a creat -> 3\n" in texts(
        "open", "open", False
    )


def test_reads_that_move_one_offset_commute_where_they_find_the_same() -> None:
    shared = [text for text in texts("read", "read", False) if "receive" in text and "0 pipe" not in text]
    results = {tuple(re.findall(r"^[AB] . read 3 -> (.*)$", text, re.MULTILINE)) for text in shared}
    assert {("0", "0"), ("page 1", "page 1")} <= results
    assert all(a == b for a, b in results)


def test_writes_to_one_place_commute_where_they_write_the_same() -> None:
    written = r"A 0 memwrite 0 (\d+) -> 0\nB 0 memwrite 0 (\d+) -> 0\n"
    values = {
        found.groups() for text in texts("memwrite", "memwrite", True) if (found := re.search(written, text))
    }
    assert values == {("1", "1")}


def test_a_pair_of_one_call_is_found_once_not_twice() -> None:
    """Unlinking a name that is there beside one that is not: in one order only."""
    found = texts("unlink", "unlink", False)
    there_first = [text for text in found if re.search(r"A 0 unlink a -> 0\nB 1 unlink b -> -ENOENT", text)]
    there_last = [text for text in found if re.search(r"A 0 unlink a -> -ENOENT\nB 1 unlink b -> 0", text)]
    assert bool(there_first) != bool(there_last)


def test_calls_that_set_up_are_no_part_of_a_pair() -> None:
    assert not {"dup", "receive"} & set(CALLS)
    assert SystemCall.parsed("1 receive 3 4").name == "receive"
