"""The model of the calls, asked beside the kernel of this machine."""

import subprocess
from pathlib import Path

import pytest
from kernel_calls import answered, made
from random_traces import random_trace, text_of

from bigiron import compile
from bigiron.errors import UserError
from bigiron.matrix.model import model
from bigiron.matrix.model.calls import SystemCall, parsed_tests
from bigiron.matrix.model.extended.model import Epoll, Socket

CALLS_OF_A_TRACE = 40


def disagreements(seeds: range, *, extended: bool = False) -> int:
    traces = [(seed, random_trace(seed, CALLS_OF_A_TRACE, extended=extended)) for seed in seeds]
    given = made(text_of(traces))
    return sum(
        [result for _, result in trace] != results for (_, trace), results in zip(traces, given, strict=True)
    )


@pytest.mark.slow
def test_the_kernel_gives_what_the_model_says() -> None:
    assert disagreements(range(1000)) == 0


@pytest.mark.slow
def test_the_kernel_gives_what_the_model_of_the_extended_calls_says() -> None:
    assert disagreements(range(500), extended=True) == 0


def test_an_address_that_outlived_its_socket_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Socket, "is_open", True)
    assert disagreements(range(100), extended=True) > 0


def test_an_epoll_instance_that_forgot_what_it_looks_at_would_be_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Epoll, "ready", lambda _epoll: ())
    assert disagreements(range(100), extended=True) > 0


@pytest.mark.slow
def test_a_pipe_that_held_one_page_less_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "PIPE_PAGES", 15)
    assert disagreements(range(600)) > 0


def test_a_rename_that_forgot_the_replaced_file_s_link_would_be_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def forgetful(state: model.State, me: int, old: str, new: str) -> model.CallResult:
        file = state.names[old]
        if file is None:
            return "-ENOENT"
        if file is not state.names[new]:
            state.names[new], state.names[old] = file, None
        return 0

    monkeypatch.setattr(model.State, "_rename", forgetful)
    assert disagreements(range(200)) > 0


def test_processes_share_what_one_gives_the_other() -> None:
    calls = (
        "0 open a creat", "0 write 3 7", "0 write 3 8", "0 lseek 3 0", "1 receive 3 5", "1 read 5",
        "0 read 3", "0 pipe", "1 receive 4 4", "0 close 4", "0 write 5 1", "1 close 4", "0 write 5 1",
    )  # fmt: skip
    expected = ["3", "1", "1", "0", "5", "page 7", "page 8", "4 5", "4", "0", "1", "0", "-EPIPE"]
    text = "test 1 trace two\n" + "\n".join(calls) + "\n"
    assert made(text) == [expected]
    assert model.results_of([SystemCall.parsed(call) for call in calls]) == expected


def test_threads_share_descriptors_and_memory() -> None:
    calls = "0 mmap 0 rw anon\nA 0 memwrite 0 5\nB 0 memread 0\n"
    text = f"test 1 memwrite/memread same\n{calls}\ntest 2 memwrite/memread same\n{calls}"
    assert made(text) == [["0", "A 0", "B byte 5"]] * 2
    assert made(text, "b-first") == [["0", "A 0", "B byte 0"]] * 2


def test_processes_share_neither() -> None:
    text = "test 1 memread/fstat two\n0 mmap 0 rw anon\n0 open a creat\nA 1 memread 0\nB 1 fstat 3\n"
    assert made(text) == [["0", "3", "A SIGSEGV", "B -EBADF"]]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("open a", "a test begins with"),
        ("test 1 a/b three\n", "a test begins with"),
        ("test 1 a/b two\n2 open a\n", "process, 0 or 1, not with 2"),
        ("test 1 a/b two\n0 chmod a\n", "chmod is no call"),
        ("test 1 a/b two\n0 open ../a\n", "what follows open"),
        ("test 1 a/b two\n0 close 0\n", "what follows close"),
        ("test 1 a/b two\n0 memread 8\n", "what follows memread"),
        ("test 1 a/b two\n0 pipe 3\n", "more follows pipe"),
        ("test 1 a/b two\nA 0 pipe\n", "has a call B"),
        ("test 1 a/b two\nB 0 pipe\n", "A and B, in this order"),
        ("test 1 a/b two\nA 0 dup 3 4\n", "setting up only"),
        ("test 1 a/b same\n1 pipe\n", "no other one"),
        ("test 1 a/b two\n" + "0 pipe\n" * 257, "at most 256 calls"),
    ],
)
def test_text_that_is_no_test(text: str, complaint: str) -> None:
    done = answered(text)
    assert done.returncode == 2 and done.stdout == ""
    assert len(done.stderr.splitlines()) == 1 and complaint in done.stderr and done.stderr.startswith("line ")


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    command = [compile.pairs("gcc"), tmp_path / "none", "a-first"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "cannot work in" in done.stderr


TEST = "test 17 open/unlink two\n0 open a creat -> 3\nA 0 open b creat,excl -> 4\nB 1 unlink a -> 0\n"


def test_a_test_is_read_as_it_is_written() -> None:
    assert [str(test) for test in parsed_tests(f"\n{TEST}\n\n{TEST}".splitlines())] == [TEST, TEST]
    assert next(iter(parsed_tests(TEST.splitlines()))).expected() == ["3", "A 4", "B 0"]


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("test 17", "test x", "line 1: a test starts with"),
        ("two", "both", "line 1: a test starts with"),
        ("0 open a", "0 chmod a", "line 2: not a call"),
        ("0 open a", "2 open a", "line 2: not a call"),
        ("creat ->", "create ->", "line 2: wrong arguments of open"),
        ("A 0 open b creat,excl -> 4\n", "", "line 1: a test ends with one call A and one call B"),
    ],
)
def test_a_text_that_is_no_test(old: str, new: str, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        list(parsed_tests(TEST.replace(old, new).splitlines()))


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    command = [compile.pairs("gcc"), tmp_path, "a-first"]
    text = "test 1 trace two\n0 open a creat\n0 link a b\n"
    subprocess.run(command, input=text, text=True, capture_output=True, check=True)
    assert list(tmp_path.iterdir()) == []
