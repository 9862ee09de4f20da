"""Work side by side, and Ctrl-C: the command ends, and nothing that it has started is left."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest
from conftest import BIGIRON, wait_until

from bigiron.analysis.replay.program import Event as Step
from bigiron.analysis.replay.program import ReplayLine, ReplayProgram
from bigiron.simulator import machine_files
from bigiron.simulator.replay import ReplayOptions, replay
from bigiron.util import subprocesses
from bigiron.util.cache_dir import cache_folder
from bigiron.util.threads import StoppableThreads, StoppedError, is_stopped, result

HANGS_S = 300
"""For what ends at once, or not within a quarter of an hour."""

TESTS = """\
test 1 close/close same
0 open a creat -> 3
0 open b creat -> 4
A 0 close 3 -> 0
B 0 close 4 -> 0
"""


def left(mark: Path) -> set[int]:
    """The processes that have a path in their environment."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.fsencode(mark) in (process / "environ").read_bytes():
                found.add(int(process.name))
        except OSError:
            continue  # it has just ended
    return found


def sleeping(mark: Path) -> list[int]:
    """Those of them that stand for a virtual machine."""
    found = []
    for process in left(mark):
        try:
            if Path(f"/proc/{process}/cmdline").read_bytes().startswith(b"sleep\0"):
                found.append(process)
        except OSError:
            continue
    return found


def without_end(folder: Path) -> dict[str, str]:
    """An environment in which a virtual machine starts, and boots until its deadline."""
    programs, temporary = folder / "programs", folder / "tmp"
    programs.mkdir()
    temporary.mkdir()
    real = shutil.which("qemu-system-x86_64")
    fake = programs / "qemu-system-x86_64"
    fake.write_text(
        f'#!/bin/sh\ncase " $* " in *" --version "*) exec {real} "$@";; esac\nexec sleep 1000000\n'
    )
    fake.chmod(0o755)
    # Snapshots of its own: this QEMU cannot resume those of another.
    cache = folder / "cache"
    cache.mkdir()
    for room in "kernels", "compiled", "symbols":
        (cache / room).symlink_to(cache_folder(room))
    paths = {"PATH": f"{programs}:{os.environ['PATH']}", "TMPDIR": str(temporary)}
    return os.environ | paths | {"BIGIRON_CACHE": str(cache)}


@pytest.mark.parametrize(
    "command",
    [
        ("run", "getppid1", "--kernel", "debian/6.12", "--cpus", "1", "--reps", "3", "--jobs", "2"),
        ("run", "getppid1", "--kernel", "debian/6.12", "--cpus", "1", "--fleet", "local:2"),
        ("matrix", "debian/6.12", "--tests", "TESTS", "--jobs", "2"),
        ("history", "add", "debian/6.12", "--cpus", "1", "--workloads", "getppid1", "--workloads", "open1"),
    ],
    ids=["run", "fleet", "matrix", "history"],
)
def test_ctrl_c_ends_machines(command: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "TESTS").write_text(TESTS)
    words = [str(tmp_path / word) if word == "TESTS" else word for word in command]
    running = subprocess.Popen(
        [BIGIRON, *words, "-o", tmp_path / "s"],
        env=without_end(tmp_path),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        wait_until(lambda: sleeping(tmp_path) or running.poll() is not None)
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=HANGS_S)
    finally:
        running.kill()
    assert running.returncode == 130, said
    assert "stopped: the same command continues" in said and "Traceback" not in said
    wait_until(lambda: not left(tmp_path))
    assert not list((tmp_path / "tmp").iterdir())


def interrupted(script: str) -> subprocess.CompletedProcess[str]:
    """What becomes of a program that gets a Ctrl-C where it calls `interrupt`."""
    begins = "import os, signal, threading, time\nfrom bigiron.util.threads import *\n"
    begins += "interrupt = lambda: os.kill(os.getpid(), signal.SIGINT)\n"
    return subprocess.run(
        [sys.executable, "-c", begins + script],
        capture_output=True, text=True, timeout=HANGS_S, check=False,
    )  # fmt: skip


def test_a_thread_that_computes_does_not_keep_a_process_that_is_stopped() -> None:
    """Nor does one that waits for it. To make tables takes seconds, without a look whether to stop."""
    done = interrupted(
        "def compute():\n"
        "    interrupt()\n"
        "    while True: pass\n"
        "def outer():\n"
        "    with StoppableThreads() as threads: return result(threads.submit(compute))\n"
        "with StoppableThreads() as threads:\n"
        "    result(threads.submit(outer))\n"
    )
    assert done.stderr.strip().endswith("KeyboardInterrupt"), done


@pytest.mark.parametrize("threads", ["", "with StoppableThreads() as threads: result(threads.submit(work))"])
def test_what_a_tool_started_ends_with_it(threads: str, tmp_path: Path) -> None:
    """As compilers start others: of the main thread's, and of another's."""
    begun = tmp_path / "begun"
    script = (
        "from bigiron.util import subprocesses\n"
        f"script = 'sleep 1000000 & touch {begun}; wait'\n"
        "def work(): subprocesses.completed(['env', 'MARK=' + os.environ['MARK'], 'sh', '-c', script])\n"
        "def wait_for_it():\n"
        f"    while not os.path.exists({str(begun)!r}): time.sleep(0.01)\n"
        "    interrupt()\n"
        "threading.Thread(target=wait_for_it).start()\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MARK", str(begun))
        done = interrupted(script + (threads or "work()"))
    assert done.stderr.strip().endswith("KeyboardInterrupt"), done
    wait_until(lambda: not left(begun))


def test_work_on_threads_of_threads_is_stopped_with_theirs() -> None:
    inner_begun = Event()

    def inner() -> str:
        inner_begun.set()
        wait_until(is_stopped)
        return "stopped"

    def outer() -> str:
        with StoppableThreads() as threads:
            return result(threads.submit(inner))

    def stop_once_it_began() -> None:
        with StoppableThreads() as threads:
            found.append(threads.submit(outer))
            inner_begun.wait()
            raise ValueError

    found: list[object] = []
    with pytest.raises(ValueError):
        stop_once_it_began()
    assert not is_stopped()
    (future,) = found
    assert future.result() == "stopped"  # type: ignore[attr-defined]


def test_tasks_are_made_when_there_is_room() -> None:
    made: list[int] = []
    done: list[int] = []

    def task(number: int) -> Callable[[], Callable[[], None]]:
        made.append(number)
        assert len(made) - len(done) <= 2
        return lambda: lambda: done.append(number)

    with StoppableThreads() as threads:
        threads.do_all(map(task, range(9)), 2)
    assert made == list(range(9)) and sorted(done) == made


def test_a_tool_has_its_time() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        subprocesses.completed(["sleep", "1000000"], timeout_s=0.1)


def test_what_a_tool_that_is_killed_was_writing_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the temporary files of a compiler."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(subprocess.TimeoutExpired):
        subprocesses.completed(["sh", "-c", "mktemp; sleep 1000000"], timeout_s=1)
    assert not list(tmp_path.iterdir())


def test_a_replay_on_a_thread_is_stopped() -> None:
    """A history's: Ctrl-C reaches the main thread alone."""
    line = ReplayProgram(
        [ReplayLine("count", "shared")],
        [],
        [[Step("work", 500.0), Step("access", 0, 0, "atomic")]],
    )
    options = ReplayOptions(machine_files.load("xeon-5418y-x2"), list(range(2, 49)), samples=512)
    with pytest.raises(StoppedError), StoppableThreads() as threads:
        replaying = threads.submit(replay, {"v": lambda _: line}, options)
        assert not replaying.done()
        threads.stop.set()
        replaying.result(timeout=HANGS_S)
