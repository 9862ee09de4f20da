"""Programs of a root file system in virtual machines: with services, recorded in part, counted per unit."""

import random
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
from conftest import Answer, bigiron, compared, measured

from bigiron import open_study, probes
from bigiron.architectures import architecture
from bigiron.errors import MachineError, UserError
from bigiron.machines.messages import Message
from bigiron.probes.recording import RecordedProgram, Recording, program_operations
from bigiron.study import extend, program
from bigiron.study.resolve import command_words
from bigiron.study.spec import Spec, to_toml

TOOL = Path(__file__).with_name("tool.c")
KERNEL = ("--kernel", "debian/6.12")
CALLS = 2000


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one static program and one user."""
    folder = tmp_path_factory.mktemp("root")
    (folder / "bin").mkdir()
    (folder / "etc").mkdir()
    (folder / "etc" / "passwd").write_text("guest:x:65534:65534::/:/bin/false\n")
    (folder / "run" / "app").mkdir(parents=True)
    (folder / "srv").mkdir()
    (folder / "srv" / "data").write_bytes(random.Random(1).randbytes(1 << 20))
    subprocess.run(["gcc", "-O2", "-static", TOOL, "-o", folder / "bin" / "tool"], check=True)
    return folder


def in_vm(root: Path, command: str, *options: str, study: Path, cpus: int = 2) -> Answer:
    """`bigiron run` of a command in that root."""
    asked = ("--root", str(root), "--command", command, "--cpus", str(cpus))
    return bigiron("run", *asked, *(() if "--kernel" in options else KERNEL), *options, "-o", study)


def facts(answer: Answer, study: Path) -> dict[str, Any]:
    """What is known of the cell's conflicts."""
    assert answer.status == 0, answer
    (record,) = open_study(study).records()
    return record.facts["conflicts"]


def test_its_counts_are_those_of_a_loop(root: Path, tmp_path: Path) -> None:
    """The same system call, as often, as a program and as a workload: the same instructions."""
    metric = ("--metric", r"did (\d+) operations", "--unit", "getppid")
    answer = in_vm(root, f"tool count {CALLS}", *metric, study=tmp_path / "p")
    counted = facts(answer, tmp_path / "p")
    assert (counted["operations"], counted["operation"]) == ([CALLS], "getppid")
    assert CALLS < counted["system_calls"] < CALLS + 100
    measured(
        "getppid1", *KERNEL, "--cpus", "2", "--tasks", "1", "--clock", "instructions", "-o", tmp_path / "w"
    )
    rows = (compared(tmp_path / study, "--probe", "instructions")["rows"] for study in ("p", "w"))
    own = [{row["function"]: row["cells"]["debian/6.12"]["self_per_op"] for row in of} for of in rows]
    for function in ("__do_sys_getppid", "__task_pid_nr_ns", "do_syscall_64"):
        # One of the program's calls in thirty is not getppid.
        assert own[0][function] == pytest.approx(own[1][function], rel=0.03), function
    # The loop's own, those of libc's syscall(), and a share of its start (170,000 instructions with glibc
    # 2.41); a workload's are not recorded.
    shown = [
        compared(tmp_path / study, "--probe", "instructions")["totals"][0]["cells"] for study in ("p", "w")
    ]
    assert 5 < shown[0]["debian/6.12"]["user_per_op"] < 60 + 200_000 / CALLS
    assert "user_per_op" not in shown[1]["debian/6.12"]
    text = bigiron("compare", tmp_path / "p", "--probe", "instructions").out
    assert re.search(r"operation in user mode: [\d.]+ on debian/6\.12 \(\d+% of all\)\.", text), text


def test_what_is_shown_says_the_unit(root: Path, tmp_path: Path) -> None:
    study = tmp_path / "s"
    facts(in_vm(root, "tool count 500", "--per", "system-call", study=study), study)
    # How many tasks there are only the program knows: none is named, and its clock is that of two busy CPUs.
    for command, title in ("compare", ", 2 CPUs: "), ("explain", " with 2 CPUs, debian/6.12"):
        answer = bigiron(command, study)
        assert answer.out.startswith(f"tool (per system call){title}"), answer
    assert open_study(study).records()[0].environment["instructions_per_ns"] == 4
    assert "an operation is one system call, 5" in " ".join(bigiron("compare", study).out.split())
    shown = bigiron("show", study).out
    assert f"root        {root}" in shown
    assert "counts      per system call" in shown
    assert "recorded    the whole command" in shown
    assert bigiron("report", study, "-o", tmp_path / "r.html").status == 0
    assert "tool (per system call)" in (tmp_path / "r.html").read_text()
    # As an older version would have counted a second cell.
    (first,) = open_study(study).records()
    second = msgspec.structs.replace(first, id=first.id.replace("-r1", "-r2"), repetition=2)
    twice = msgspec.structs.replace(open_study(study).spec, repetitions=2)
    (study / "study.toml").write_bytes(to_toml(twice))
    shutil.copytree(study / "cells" / first.id, study / "cells" / second.id)
    counted = msgspec.json.encode(second).replace(b'"system call"', b'"million instructions"')
    (study / "cells" / second.id / "cell.json").write_bytes(counted)
    assert "has counts per million instructions and system call" in bigiron("compare", study).complaint


@pytest.mark.parametrize(
    ("command", "options"),
    [
        (f"tool parts {CALLS}", ("--begin-at", "^beginning", "--end-at", "ended")),
        (f"tool marks {CALLS}", ("--marked",)),
        (f"tool run-marks {CALLS}", ("--marked",)),
    ],
)
def test_a_part_is_recorded(command: str, options: tuple[str, ...], root: Path, tmp_path: Path) -> None:
    answer = in_vm(root, command, *options, "--per", "getppid", study=tmp_path / "s")
    assert facts(answer, tmp_path / "s")["operations"] == [CALLS]


def test_times_bound_a_part(root: Path, tmp_path: Path) -> None:
    # After the warm-up the program waits for nothing more. By its clock a busy host would be in the part too.
    times = ("--warm-up", "0.02", "--for", "0.001", "--clock", "instructions")
    answer = in_vm(root, "tool parts 1", *times, "--per", "instruction", study=tmp_path / "s")
    counted = facts(answer, tmp_path / "s")
    assert counted["operation"] == "million user-mode instructions"
    (record,) = open_study(tmp_path / "s").records()
    assert 1e6 <= record.recorded_ns < 2e6
    assert counted["operations"] == [counted["user_instructions"] / 1e6]
    # Two instructions a nanosecond, of each CPU that is busy; most of them in the kernel.
    assert 0.02 < counted["operations"][0] < 2


def test_beside_a_service(root: Path, tmp_path: Path) -> None:
    services = ("--service", "tool serve 7000", "--ready", "tool ask 7000 2", "--service", "tool serve 7001")
    answer = in_vm(
        root, "tool ask 7001 300", *services, "--ready-port", "7001", "--metric", r"asked (\d+)",
        study=tmp_path / "s",
    )  # fmt: skip
    counted = facts(answer, tmp_path / "s")
    assert counted["operations"] == [300]
    assert counted["system_calls"] > 4 * 300  # the service's too


def test_as_it_is_asked_to_run(root: Path, tmp_path: Path) -> None:
    asked = ("--user", "guest", "--folder", "/bin", "--env", "FRUIT=pear", "--command-cpus", "1")
    # Without a metric that fits, the output is shown.
    answer = in_vm(root, "tool say", *asked, "--metric", "(nothing)", study=tmp_path / "s")
    assert answer.status == 3
    said = "uid 65534 in /bin on 1 CPUs with 1048576 files, pear in 0::/system.slice/bigiron.service"
    assert answer.err.startswith(said), answer


def test_any_user_may_write_to_a_file_system(root: Path, tmp_path: Path) -> None:
    asked = ("--user", "guest", "--fs", "ext4", "--kernel", "debian/6.1-amd64", "--metric", "(nothing)")
    answer = in_vm(root, "tool create /tmp/file", *asked, study=tmp_path / "s")
    assert answer.err.startswith("created as 65534"), answer


def test_its_files_are_there_and_read(root: Path, tmp_path: Path) -> None:
    """An image's /run is its own, and what lies outside of the usual folders is in the page cache too."""
    asked = ("--metric", "(nothing)")
    answer = in_vm(root, "tool cached /srv/data /run/app", *asked, study=tmp_path / "s")
    assert answer.err.startswith("256 of 256 pages of /srv/data are cached; /run/app: Success\n"), answer


@pytest.mark.parametrize("kernel", ["debian/5.10", "debian/7.2"])
def test_on_other_kernels_and_again(kernel: str, root: Path, tmp_path: Path) -> None:
    """The second cell is resumed from the first one's machine; its counts are the same."""
    for study in ("a", "b"):
        options = ("--per", "getppid", "--kernel", kernel)
        answer = in_vm(root, "tool count 20000", *options, study=tmp_path / study)
        assert facts(answer, tmp_path / study)["operations"] == [20_000]
    (record,) = open_study(tmp_path / "b").records()
    assert "resuming" in record.times
    assert "booting" not in record.times
    tables = [open_study(tmp_path / study).tables("instructions") for study in ("a", "b")]
    sums = [table.filter(context="process")["instructions"].sum() for table in tables]
    assert sums[0] == pytest.approx(sums[1], rel=0.02)  # of it the start of the program is a quarter


@pytest.mark.parametrize(
    ("command", "options", "status", "complaint"),
    [
        ("tool fail 4", "", 3, "all is lost\nbigiron: .*: the command failed: status 4"),
        ("tool crash", "", 3, "bigiron: .*: the command was killed by signal 6"),
        ("tool count 5", "--metric nothing:(.)", 3, "bigiron: .*: the command's output has no number of op"),
        ("tool count 5", "--per getpid", 3, "bigiron: .*: the program's recorded part has no getpid"),
        ("tool count 5", "--marked", 3, "bigiron: .*: the program marked no part"),
        ("tool count 5", "--begin-at never", 3, "bigiron: .*: the command ended and printed no line that"),
        ("tool count 5", "--begin-at did", 3, "bigiron: .*: the line that matches 'did' came too late, as"),
        ("tool count 5", "--end-at never", 3, "bigiron: .*: the command ended and then printed no line that"),
        ("tool count 5", "--warm-up 20", 3, "bigiron: .*: the command ended in less than its warm-up"),
        ("no-such-program", "", 2, "bigiron: .*: cannot run no-such-program: No such file or directory"),
        ("tool count 5", "--user nemo", 2, "bigiron: .*: the root has no user nemo in /etc/passwd"),
        ("tool count 5", "--folder /nowhere", 2, "bigiron: .*: cannot work in /nowhere: No such file"),
        ("tool count 5", "--begin-at ((", 2, r"bigiron: .*: '\(\(' is no regular expression: "),
        (
            "tool sleep 100000",
            "--deadline 60",
            2,
            r"bigiron: .*: the command was not done in 7\.5 s of VM time",
        ),
    ],
)
def test_a_program_that_fails(
    command: str, options: str, status: int, complaint: str, root: Path, tmp_path: Path
) -> None:
    per = () if {"--metric", "--per"} & set(options.split()) else ("--per", "system-call")
    answer = in_vm(root, command, *options.split(), *per, study=tmp_path / "s")
    assert answer.status == status, answer
    assert re.search(complaint, answer.err), answer.err


@pytest.mark.parametrize(
    ("service", "options", "complaint"),
    [
        ("tool fail 3", (), "all is lost\n+bigiron: .*: the service tool ended with status 3"),
        ("tool crash", (), "bigiron: .*: the service tool was killed by signal 6"),
        (
            "tool sleep 100000",
            ("--ready", "tool fail 1", "--deadline", "60"),
            "all is lost\n+bigiron: .*: the service tool was not ready in 7.5 s of VM time: tool did not",
        ),
        (
            "tool sleep 100000",
            ("--ready-port", "99", "--deadline", "60"),
            "bigiron: .*: nothing listened on port 99 in 7.5 s of VM time",
        ),
    ],
)
def test_a_service_that_fails(
    service: str, options: tuple[str, ...], complaint: str, root: Path, tmp_path: Path
) -> None:
    asked = ("--service", service, *options, "--per", "system-call")
    answer = in_vm(root, "tool sleep 1000000", *asked, study=tmp_path / "s")
    assert answer.status == 3, answer
    assert re.search(complaint, answer.err), answer.err


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ((), "counts per what? Give --metric, --per system-call, --per instruction or --per NAME"),
        (("--per", "teleport"), "--per teleport: use system-call, instruction or the name of a system call"),
        (("--per", "read", "--metric", "(x)"), "both --metric (x) and --per read: counts are per one"),
        (("--metric", "(x)", "--end-at", "x"), "--metric reads the operations of the whole command, and a"),
        (("--per", "read", "--ready", "x"), "each --ready belongs to the --service before it"),
        (("--per", "read", "--service", "'"), 'service "\'": No closing quotation'),
        (("--per", "read", "--ready-port", "70000"), "ready_port = 70000: use at most 16 ports from 1"),
        (("--per", "read", "--env", "x"), "env 'x': use NAME=VALUE"),
        (("--per", "read", "--env", "N={cpus}"), "env: {cpus} is not filled in: write {tasks} for"),
        (("--per", "read", "--service", "a {task}"), "service: {task} is not filled in: write {tasks}"),
        (("--per", "read", "--tasks", "2"), "--tasks needs {tasks} in --command"),
        (("--per", "read", "--user", "a b"), "user 'a b': use the name of a user of the root"),
        (("--per", "read", "--folder", "x"), "folder 'x': use an absolute path in the root"),
        (("--per", "read", "--begin-at", "x", "--warm-up", "1"), "both --begin-at and --warm-up"),
        (("--per", "read", "--end-at", "x", "--for", "1"), "both --end-at and --for"),
        (("--per", "read", "--marked", "--for", "1"), "--marked excludes --begin-at, --end-at"),
        (
            ("--per", "read", "--warm-up", "26", "--for", "0.3"),
            "--warm-up and --for: the recorded part ends after 26.3 s of VM time, and with 2 CPUs the "
            "command may take 26.2 s: see --deadline",
        ),
        (("--per", "read", "--warm-up", "-1"), "warm_up_s = -1.0: use seconds, 0 or more"),
        (("--per", "read", "--command-cpus", "0-2"), "command_cpus = '0-2': the last of 2 CPUs is 1"),
        (("--per", "read", "--service-cpus", "x"), "service_cpus = 'x': use numbers of CPUs, as in 0-3,8"),
        (
            ("--per", "read", "--scope", "user"),
            "--scope user is for workloads: a program's own memory has no",
        ),
        (("--per", "read", "--probe", "throughput"), "probe throughput cannot measure a program: use"),
        (("--per", "read", "--machine", "host"), "the kernel of a real machine cannot be chosen"),
        (("--per", "read", "--less-is-better"), "--less-is-better is for real machines"),
    ],
)
def test_what_cannot_be_asked(options: tuple[str, ...], complaint: str, root: Path, tmp_path: Path) -> None:
    answer = in_vm(root, "tool", *options, study=tmp_path / "s")
    assert (answer.status, answer.out) == (2, ""), answer
    assert answer.complaint.startswith(complaint)
    assert not (tmp_path / "s").exists()


def test_what_only_programs_can_be_asked(tmp_path: Path) -> None:
    answer = bigiron("run", "open1", *KERNEL, "--cpus", "2", "--per", "read", "-o", tmp_path / "s")
    assert answer.complaint == "--per needs --root and --command, in a virtual machine"
    answer = bigiron("run", "--command", "x", *KERNEL, "--cpus", "2", "-o", tmp_path / "s")
    assert answer.complaint.startswith("a command in a virtual machine needs a root file system: give --root")


def counted_of(user: int, in_kernel: int, calls: dict[int, int], begin_at: str = "") -> dict[str, object]:
    """What is made of a program that executed so many instructions and these system calls."""
    files = (Message("file", {"path": stream, "lines": []}) for stream in ("stdout", "stderr"))
    messages = [Message("command", {"status": 0, "signal": 0, "nanoseconds": 1}), *files]
    asked = probes.CellRequest(1, 1, operations=1, mode="process", per="instruction", begin_at=begin_at)
    raw = probes.RawOutput(messages, Path(), architecture("x86_64"), Path(), asked)
    ran = RecordedProgram(
        parts=1, windows=1, lost_windows=0, instructions={"user": user, "process": in_kernel},
        system_calls=calls, other_system_calls=0,
    )  # fmt: skip
    recording = Recording(
        operations=[], entries=1, stack_bytes=1, per_cpu_offsets=[], accesses={}, stack_accesses={},
        instructions={}, unreleased=0, traces=[], lost={}, program=ran,
    )  # fmt: skip
    return dict(program_operations(raw, recording))


@pytest.mark.parametrize("in_kernel", [9_000_000, 18_000_000])
def test_what_is_compared_does_not_change_the_unit(in_kernel: int) -> None:
    """A kernel that executes twice as much for the same program does no more operations."""
    counted = counted_of(1_000_000, in_kernel, {0: 1000})
    assert (counted["operations"], counted["operation"]) == ([1], "million user-mode instructions")


WRITE, EXIT_GROUP = 1, 231


def test_a_part_that_is_only_the_program_s_end_is_refused() -> None:
    with pytest.raises(MachineError, match="the line that matches 'go' came too late, as programs hold back"):
        counted_of(500, 200_000, {WRITE: 1, EXIT_GROUP: 1}, begin_at="go")
    assert counted_of(500, 200_000, {WRITE: 2, EXIT_GROUP: 1}, begin_at="go")["system_calls"] == 3
    assert counted_of(1_000_000, 200_000, {EXIT_GROUP: 1}, begin_at="go")["operations"] == [1]
    assert counted_of(500, 200_000, {EXIT_GROUP: 1})["system_calls"] == 1  # which a mark began, or a time


@pytest.mark.parametrize(
    ("command", "tasks", "known"),
    [("c {tasks}", "all", True), ("c", [1], True), ("c", "all", False), ("", "all", True)],
)
def test_whether_the_number_of_tasks_is_known(
    command: str, tasks: list[int] | Literal["all"], known: bool
) -> None:
    spec = Spec(root="r", command=command, tasks=tasks, variant=[])
    assert spec.knows_tasks is known and spec.known_tasks(8) == (8 if known else None)


def test_another_clock_is_named_as_what_differs() -> None:
    """Until November 2026, a program without {tasks} had the clock of one task."""
    older, asked = (Spec(root="r", command="c", tasks=tasks, variant=[]) for tasks in ([1], "all"))
    said = "tasks = [1], not 'all', with the clock of one busy CPU, for which --tasks 1 asks"
    assert extend.first_difference(older, asked) == said
    assert extend.first_difference(asked, older) == "tasks = 'all', not [1]"


def test_each_service_gets_its_own_words() -> None:
    spec = Spec(
        root="r", command="c", service=["a 'b c'", "d"], ready=["", "e f"], ready_port=[8], variant=[]
    )
    assert list(program.job(spec, ["c", "1"], 1)) == [
        "in_root", "service", "service_word a", "service_word b c", "service", "service_word d",
        "ready_word e", "ready_word f", "ready_port 8", "word c", "word 1",
    ]  # fmt: skip
    with pytest.raises(UserError, match="use one printable line"):
        program.words_of("service", "a\nb")


def test_the_number_of_tasks_is_filled_in_everywhere() -> None:
    spec = Spec(
        root="r", command="c", service=["a -t {tasks}"], ready=["b {tasks}"], env=["N={tasks}", "F=${cpus}"],
        variant=[],
    )  # fmt: skip
    assert list(program.job(spec, ["c"], 8)) == [
        "in_root", "service", "service_word a", "service_word -t", "service_word 8", "ready_word b",
        "ready_word 8", "env N=8", "env F=${cpus}", "word c",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "command", ["sh -c 'echo ${HOME} ${cpus}'", "awk '{print}'", "docker inspect -f '{{.Id}}'", "a {0..9} {}"]
)
def test_other_braces_are_the_command_s(command: str) -> None:
    assert command_words(Spec(command=command, root="r", variant=[]), 4) == shlex.split(command)
