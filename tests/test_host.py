"""The host machine: the same workloads and probes, times of its own, and everything as it was afterwards."""

import fcntl
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
from conftest import BIGIRON, bigiron, measured, wait_until

import bigiron as library
from bigiron import compile, workloads
from bigiron.errors import MachineError, UserError
from bigiron.machines.messages import Decoder, Message
from bigiron.machines.real import real
from bigiron.machines.real.real import RealEngine
from bigiron.util.threads import StoppedError

pytestmark = pytest.mark.usefixtures("settings_are_ours")
SETTING = Path(
    "/proc/sys/vm/stat_interval"
)  # seconds between two updates of statistics: nothing depends on it
CPUS = len(os.sched_getaffinity(0))

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="settings are root's to change")


def now() -> str:
    return SETTING.read_text().strip()


@needs_root
def test_variants_of_the_running_kernel(tmp_path: Path) -> None:
    before = now()
    measured(
        *("getppid1", "--machine", "host", "--tasks", "1", "--probe", "throughput,efficiency"),
        *("--set-sweep", f"{SETTING}=7,8", "-o", tmp_path / "s"),
    )
    assert now() == before
    study = library.open_study(tmp_path / "s")
    assert [record.environment["set"] for record in study.records()] == [[f"{SETTING}={n}"] for n in (7, 8)]
    for record in study.records():
        assert (record.machine, record.cpus, record.tasks) == ("host", CPUS, 1)
        assert record.environment["kernel_release"] == os.uname().release
        assert record.environment["cpu"] and record.environment["memory_mib"] > 0
    assert study.tables("throughput")["operations"].min() > 0
    text = bigiron("compare", tmp_path / "s", "--probe", "efficiency").out
    assert "real time" in text and "VM time" not in text
    again = bigiron("run", tmp_path / "s")
    assert again.status == 0 and "every cell" in again.out


@needs_root
@pytest.mark.parametrize("victim", ["bigiron", "agent", "guard"])
def test_all_is_as_it_was_however_it_ends(victim: str, tmp_path: Path) -> None:
    before, files = now(), temporary_files()
    options = ["--machine", "host", "--probe", "efficiency", "--set", f"{SETTING}=9"]
    command = [BIGIRON, "run", "unlink2", *options, "-o", str(tmp_path / "s")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        wait_until(lambda: now() == "9" and len(temporary_files() - files) > CPUS)
        pid = run.pid if victim == "bigiron" else _agent_of(run.pid)
        os.kill(_guard_of(pid) if victim == "guard" else pid, signal.SIGKILL)
        _, complaint = run.communicate()
    wait_until(lambda: now() == before and not temporary_files() - files)
    assert run.returncode == {"bigiron": -signal.SIGKILL, "agent": 3, "guard": 0}[victim]
    if victim == "agent":
        assert "the agent ended by signal 9" in complaint
        measured(tmp_path / "s")


def temporary_files() -> set[Path]:
    """What unlink2 makes: a file, and beside it a folder for each task."""
    return set(Path("/tmp").glob("unlink2.*"))


def test_only_what_the_workload_has_made_is_removed(tmp_path: Path) -> None:
    """Links are, and not what they lead to; nor what is named after a folder that is gone."""
    others, workload = tmp_path / "others", tmp_path / "links.c"
    (others / "kept").mkdir(parents=True)
    workload.write_text(f"""
        #include <stdio.h>
        #include <stdlib.h>
        #include <sys/stat.h>
        #include <unistd.h>
        char *testcase_description = "make links until killed";
        static char folder[] = "{tmp_path}/made.XXXXXX", gone[] = "{tmp_path}/gone.XXXXXX";
        void testcase_prepare(unsigned long nr_tasks)
        {{
            char beside[sizeof(gone) + 2];
            if (!mkdtemp(folder) || !mkdtemp(gone) || rmdir(gone) || chdir(folder) ||
                symlink("{others}", "link") || symlink("{others}", "../made.link"))
                _exit(1);
            snprintf(beside, sizeof(beside), "%s.%lu", gone, nr_tasks - 1);
            if (mkdir(beside, 0700))
                _exit(1);
        }}
        void testcase(unsigned long long *iterations, unsigned long nr)
        {{
            for (;;)
                ++*iterations;
        }}
    """)
    options = ("--machine", "host", "--tasks", "1", "--probe", "throughput")
    measured("--workload-file", workload, *options, "-o", tmp_path / "s")
    (beside,) = tmp_path.glob("gone.*.0")
    assert set(tmp_path.iterdir()) == {beside, workload, tmp_path / "made.link", others, tmp_path / "s"}
    assert (others / "kept").is_dir()


WAYS_TO_TELL = ("statx", "name_to_handle_at", "fopen")


@pytest.fixture(scope="module")
def remove_temporary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program, guest = tmp_path_factory.mktemp("program") / "remove", Path(compile.__file__).parent / "guest"
    sources = [Path(__file__).with_name("agent") / "remove_temporary.c", guest / "real/temporary.c"]
    command = ["gcc", "-Wall", "-Wextra", "-Werror", *(f"-Wl,--wrap={each}" for each in WAYS_TO_TELL)]
    subprocess.run([*command, "-iquote", guest, *sources, "-o", program], check=True)
    return program


@needs_root
@pytest.mark.parametrize("without", range(len(WAYS_TO_TELL) + 1))
def test_what_is_mounted_in_a_temporary_folder_is_kept(
    without: int, remove_temporary: Path, tmp_path: Path
) -> None:
    """Also folders and files of the same file system, and what is mounted on the folder itself."""
    made, over, others = tmp_path / "made", tmp_path / "over", tmp_path / "others"
    beside, empty = tmp_path / "made.0", tmp_path / "empty"
    for folder in (made / "in" / "mounted", made / "plain" / "deep", beside, empty, over, others):
        folder.mkdir(parents=True)
    for file in (made / "in" / "file", made / "plain" / "deep" / "gone", beside / "gone", others / "kept"):
        file.touch()
    script = (
        "mount --bind others made/in/mounted && mount --bind others/kept made/in/file && "
        f'mount --bind others over && {remove_temporary} "$PWD/made" "$PWD/over" "$PWD/empty"'
    )
    run = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script],
        cwd=tmp_path,
        env=os.environ | {"WITHOUT": " ".join(WAYS_TO_TELL[:without])},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert (others / "kept").exists()
    left = {made, made / "in", made / "in" / "mounted", made / "in" / "file", over}
    spared = [beside, made, over] if without == len(WAYS_TO_TELL) else []
    if spared:
        left |= {beside, beside / "gone", made / "plain", made / "plain" / "deep"}
        left |= {made / "plain" / "deep" / "gone"}
    assert {file for file in tmp_path.rglob("*") if others not in (file, *file.parents)} == left
    why = "is not removed: the kernel does not tell what is mounted in it"
    assert run.stdout.splitlines() == [f"machine: {folder} {why}" for folder in spared]
    assert run.returncode == bool(spared)


@pytest.fixture
def machine_lock() -> Iterator[int]:
    """That of this machine, locked: no other test measures here."""
    lock = os.open("/sys/devices/system/cpu", os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    yield lock
    os.close(lock)


def test_one_that_measures_here_is_waited_for(machine_lock: int, tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    command = [BIGIRON, "run", "getppid1", "--machine", "host", "--tasks", "1", "-o", tmp_path / "s"]
    for interrupted in True, False:
        with subprocess.Popen(
            command,
            env=os.environ | {"TMPDIR": str(tmp_path / "tmp")},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as run:
            assert run.stderr
            assert run.stderr.readline() == (
                f"bigiron: waiting for another bigiron that measures on this machine: process {os.getpid()}\n"
            )
            assert not library.open_study(tmp_path / "s").records()
            if interrupted:
                run.send_signal(signal.SIGINT)
            else:
                fcntl.flock(machine_lock, fcntl.LOCK_UN)
            run.communicate()
        assert run.returncode == (130 if interrupted else 0)
        wait_until(lambda: not list((tmp_path / "tmp").iterdir()))


# It starts a daemon, which has all of the agent's files open.
DAEMON = """
    #include <unistd.h>
    char *testcase_description = "leave a daemon";
    void testcase_prepare(unsigned long nr_tasks)
    {
        if (!fork()) {
            alarm(600);
            for (;;)
                pause();
        }
    }
    void testcase(unsigned long long *iterations, unsigned long nr)
    {
        for (;;)
            ++*iterations;
    }
"""
# As on an older kernel.
NO_FILES_OF_PROCESSES = """
    #define _GNU_SOURCE
    #include <errno.h>
    #include <sys/syscall.h>
    long __real_syscall(long number, long a, long b, long c, long d, long e, long f);
    long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f)
    {
        if (number != SYS_pidfd_open)
            return __real_syscall(number, a, b, c, d, e, f);
        errno = ENOSYS;
        return -1;
    }
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return of_less_patience(DAEMON, tmp_path_factory.mktemp("daemon"))


@pytest.fixture(scope="module")
def older_daemon(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("older")
    return of_less_patience(NO_FILES_OF_PROCESSES + DAEMON, folder, "-Wl,--wrap=syscall")


def of_less_patience(workload: str, folder: Path, *options: str) -> Path:
    """An agent that waits a second, not ten, for what outlives it."""
    (folder / "workload.c").write_text(workload)
    command = ["gcc", "-std=gnu11", "-pthread", "-DPATIENCE_S=1", *options, *compile.guest_includes()]
    sources = [*compile.agent_files(), folder / "workload.c"]
    subprocess.run([*command, *sources, "-o", folder / "agent"], check=True)
    return folder / "agent"


# A file system that answers nothing about a temporary folder, as FUSE and NFS may.
STUCK = """
    #define mkdtemp mkdtemp_told
    #include <fcntl.h>
    #include <stdlib.h>
    #include <string.h>
    #include <sys/stat.h>
    #include <unistd.h>
    int answered_lstat(const char *path, struct stat *status)
    {
        while (strstr(path, "/stuck."))
            pause();
        return fstatat(AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW);
    }
    static void make_folder(void)
    {
        char folder[] = "/tmp/stuck.XXXXXX";
        if (!mkdtemp(folder) || rmdir(folder))
            _exit(1);
    }
"""


def job_of(sample_ms: int) -> str:
    return f"mode process\ntasks 1\nwarmup 10\npatience_s 100\nsamples 1\nsample_ms {sample_ms}\n"


def end_daemon(pid: int) -> None:
    assert Path(f"/proc/{pid}/comm").read_text() == "agent\n"
    os.kill(pid, signal.SIGKILL)


def wait_for_machine_lock() -> None:
    lock = os.open("/sys/devices/system/cpu", os.O_RDONLY)
    wait_until(lambda: flocked(lock))
    os.close(lock)


def flocked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@pytest.mark.parametrize("stopped", [False, True])
def test_what_outlives_the_agent_is_named(
    stopped: bool, daemon: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stop = threading.Event()
    monkeypatch.setattr(real, "_RESTORE_S", 1200)  # the daemon has the output open for half as long
    started = time.monotonic()
    job = job_of(1_000_000 if stopped else 100)
    machine = real.RealMachine("", real.system(""), daemon, job, deadline_s=100)
    with pytest.raises(StoppedError) if stopped else nullcontext():
        real.run(machine, stop, lambda stage: stop.set() if stopped and stage == "in samples" else None)
    assert time.monotonic() - started < 300
    warning = caplog.messages[-1]  # what else measures here may have been waited for
    named = re.fullmatch(r"process (\d+) of the workload still runs on this machine, which may .*", warning)
    assert named, warning
    end_daemon(int(named[1]))
    wait_for_machine_lock()


@pytest.mark.parametrize("ends", ["agent", "input"])
@pytest.mark.parametrize("program", ["daemon", "older_daemon"])
def test_the_lock_is_given_up_when_an_agent_is_killed(
    program: str, ends: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """By whomever, while its standard input stays open, or by its guard at the end of that."""
    decoder, messages = Decoder(), list[Message]()
    (tmp_path / "job").write_text(job_of(1_000_000))
    command = [request.getfixturevalue(program), tmp_path / "job"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as agent:
        assert agent.stdin and agent.stdout
        while not messages or messages[-1].type != "remains":
            read = os.read(agent.stdout.fileno(), 1 << 16)
            assert read
            messages += decoder.feed(read)
            if any(message.content == {"stage": "samples"} for message in messages):
                agent.kill() if ends == "agent" else agent.stdin.close()
        end_daemon(messages[-1].content["pid"])
    assert agent.returncode == -signal.SIGKILL
    wait_for_machine_lock()


@pytest.mark.parametrize("outlived", [True, False])
def test_the_lock_is_given_up_where_a_file_system_is_stuck(outlived: bool, tmp_path: Path) -> None:
    """After what remains is named, if something does."""
    folder_first = DAEMON.replace("if (!fork())", f"make_folder(); if ({int(outlived)} && !fork())")
    program = of_less_patience(STUCK + folder_first, tmp_path, "-Dlstat=answered_lstat")
    (tmp_path / "job").write_text(job_of(100))
    decoder, messages = Decoder(), list[Message]()
    with subprocess.Popen(
        [program, tmp_path / "job"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as agent:
        assert agent.stdout
        while not any(message.type == ("remains" if outlived else "sample") for message in messages):
            messages += decoder.feed(os.read(agent.stdout.fileno(), 1 << 16))
        wait_for_machine_lock()
        assert agent.poll() is None
        os.kill(_guard_of(agent.pid), signal.SIGKILL)
        if outlived:
            end_daemon(messages[-1].content["pid"])
        agent.stdout.read()
    assert agent.returncode == 0


def test_what_may_change_cpus_later_is_an_error(tmp_path: Path) -> None:
    """What remains of a workload of CPU hotplug: here it is a daemon, which changes nothing."""
    (tmp_path / "daemon.c").write_text("unsigned long testcase_operations = 1;" + DAEMON)
    program = compile.agent(workloads.from_file(tmp_path / "daemon.c"), "gcc")
    machine = real.RealMachine("", real.system(""), program, f"allow_hotplug\n{job_of(100)}", deadline_s=100)
    complaint = r"process \d+ still runs, and may yet change settings and CPUs: check them when it has ended"
    with pytest.raises(MachineError, match=complaint) as raised:
        real.run(machine, threading.Event(), lambda stage: None)
    end_daemon(int(str(raised.value).split()[1]))
    wait_for_machine_lock()


def _agent_of(pid: int) -> int:
    """The only child of the shell that is its only child."""
    for _ in range(2):
        children = Path(f"/proc/{pid}/task").glob("*/children")
        pid = int("".join(each.read_text() for each in children).split()[0])
    return pid


def _guard_of(agent: int) -> int:
    """Its only child with a session of its own: who puts all back when the agent has ended."""
    children = [int(pid) for pid in Path(f"/proc/{agent}/task/{agent}/children").read_text().split()]
    (guard,) = [child for child in children if os.getsid(child) == child]
    return guard


@pytest.fixture
def half_a_cpu() -> Iterator[Path]:
    """A control group with a quota, in one that has none of its own."""
    group = Path("/sys/fs/cgroup/cpu/bigiron-tests")
    if not group.parent.is_dir():
        group = Path("/sys/fs/cgroup/bigiron-tests")
    try:
        group.mkdir()
    except OSError:
        pytest.skip("no control group can be made here")
    try:
        inner = group / "inner"
        inner.mkdir()
        v2, v1 = group / "cpu.max", group / "cpu.cfs_quota_us"
        if not v2.exists() and not v1.exists():
            pytest.skip("no control group has a quota of CPU time here")
        (v2 if v2.exists() else v1).write_text("50000")
        yield inner
    finally:
        wait_until(lambda: not (group / "inner/cgroup.procs").read_text())
        inner.rmdir()
        group.rmdir()


@needs_root
def test_a_quota_of_the_control_group(half_a_cpu: Path, tmp_path: Path) -> None:
    there = f'echo $$ >{half_a_cpu}/cgroup.procs; exec "$@"'
    asked = ("run", "getppid1", "--machine", "host", "--tasks", "1", "-o", tmp_path / "s")
    done = subprocess.run(
        ["sh", "-c", there, "sh", BIGIRON, *asked], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and done.stderr.startswith(
        f"bigiron: the control group on this machine has a quota of 0.5 CPUs, and tasks run on {CPUS}: "
    ), done
    (record,) = library.open_study(tmp_path / "s").records()
    assert record.environment["cpu_quota"] == 0.5


def test_cpus_that_are_asked_for_are_not_taken_for_the_default() -> None:
    """8 are a virtual machine's default: where they are asked for, they are refused or used as others are."""
    assert RealEngine("").cpus([]) == RealEngine("").cpus([CPUS]) == [CPUS]
    for number in {4, 8} - {CPUS}:
        with pytest.raises(UserError, match=f"^cpus = {number}: this machine has {CPUS} to use"):
            RealEngine("").cpus([number])
        if number > CPUS:
            with pytest.raises(UserError, match=f"^cpus = {number}: "):
                RealEngine("", runs_command=True).cpus([number])
    assert RealEngine("", runs_command=True).cpus([1]) == [1]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("open1 --probe conflicts", "probe conflicts is recorded in virtual machines only"),
        ("open1 --kernel debian/6.1", "the kernel of a real machine cannot be chosen"),
        ("open1 --probe throughput --boot quiet", "kernel parameters are for virtual machines"),
        ("open1 --probe throughput --cpus 4096", f"cpus = 4096: this machine has {CPUS} to use"),
        ("open1 --probe throughput --memory 512", "topology, memory and like are for virtual machines"),
        ("hotplug-offline --probe operations", "takes CPUs of this machine offline: say --allow-hotplug"),
        ("spin --probe throughput --set /no/such=1", "cannot read /no/such, so as to put it back"),
    ],
)
def test_what_it_refuses(tmp_path: Path, arguments: str, complaint: str) -> None:
    answer = bigiron("run", *arguments.split(), "--machine", "host", "-o", tmp_path / "s")
    # Before that, what else measures here may have been waited for.
    assert answer.status == 2 and complaint in answer.err.splitlines()[-1], answer
