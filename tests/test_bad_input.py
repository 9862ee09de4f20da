"""Bad input and a bad machine: one clear line on stderr, the right exit status, never a traceback."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import BIGIRON, SAFETY_NET_S, WORKLOADS, Answer, bigiron, machines_of, says, started, wait_until

import bigiron as library
from bigiron.study.spec import Spec, Variant, to_toml

KERNEL = ("--kernel", "debian/6.1")
CELL = "cells/debian-6.1-8cpus-8tasks-r1"


def refused(*arguments: str | Path, **environment: str) -> str:
    """What the command says before anything runs or is made."""
    answer = bigiron(*arguments, **environment)
    assert (answer.status, answer.out) == (2, ""), answer
    return answer.complaint


# The command line


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("frob", r"No such command 'frob'\. \(bigiron --help explains it\)"),
        ("run --frob", r"No such option: --frob .*\(bigiron run --help explains it\)"),
        ("run", "no workload: name one "),
        ("run open1", "no kernel: give --kernel debian/6.12, or one of"),
        ("run open1 --kernel nope", "no kernel 'nope' for x86_64, only .*debian/.*: fetch one "),
        ("run opne1 {k}", r"no workload 'opne1'; did you mean open1, "),
        ("run frob.c {k}", "no workload 'frob.c'; for a C file of your own use --workload-file frob.c"),
        ("run open1 --workload-file x.c {k}", r"both a workload \(open1\) and --workload-file: give one"),
        ("run --workload-file none.c {k}", "cannot read workload file none.c: No such file or directory"),
        (
            "run open1 {k} --probe conflict",
            "no probe 'conflict': use one of conflicts, instructions, layout, locks, trace, ",
        ),
        ("run open1 {k} --probe ,", "no probe: use conflicts, instructions, layout, locks, trace, "),
        (
            "run open1 {k} --probe instructions --scope user",
            "scope user is an option of the probe conflicts: add it with --probe",
        ),
        ("run open1 {k} --set rcu=1", "setting 'rcu=1': use PATH=VALUE, for instance /sys/"),
        ("run open1 {k} --cpus 0", "cpus = 0: use whole numbers from 1 to 8192"),
        ("run open1 {k} --cpus 8193", "cpus = 8193: use whole numbers from 1 to 8192"),
        ("run open1 {k} --cpus 2,x", "--cpus '2,x': use whole numbers separated by commas"),
        ("run open1 {k} --cpus=", "--cpus '': use whole numbers separated by commas"),
        ("run open1 {k} --cpus 2,4,2", "cpus = 2 is given twice: "),
        ("run open1 {k} --tasks 0", "tasks = 0: use whole numbers from 1 to "),
        ("run open1 {k} --tasks=-1", "--tasks '-1': use whole numbers separated by commas"),
        ("run open1 {k} --reps 0", "repetitions = 0: use whole numbers from 1 to 1000"),
        ("run open1 {k} --operations 0", "operations = 0: use whole numbers from 1 to "),
        ("run open1 {k} --deadline -1", "deadline_s = -1: use whole numbers from 1 to "),
        ("run open1 {k} --jobs -1", "Invalid value for '--jobs': "),
        ("run open1 {k} --mode fibre", "Invalid value for '--mode': .*'process', 'thread'"),
        ("run open1 {k} --topology socket=2", "topology 'socket=2': use sockets=, nodes=, cores=, threads="),
        ("run open1 {k} --topology sockets=3", r"topology sockets=3 has 6 CPUs, not 8"),
        ("run open1 {k} --topology nodes=3", r"topology nodes=3: 8 CPUs do not divide into 3 nodes"),
        ("run open1 {k} --arch z80", "machines of z80 are not supported yet: use one of x86_64"),
        (
            "run open1 {k} --memory 9999999",
            r"a machine with 8 CPUs and 9999999 MiB writes ",
        ),
        ("run open1 {k} --memory 12", "memory_mib = 12: use whole numbers from 128 to "),
        (
            "run open1 {k} {k}",
            "variants need different names: debian/6.1, debian/6.1",
        ),
        ("compare none", "none is not a study: it has no study.toml"),
        ("compare none --line 96", "Invalid value for '--line': .*'64', '128'"),
        ("show none", "none is not a study: it has no study.toml"),
        ("run none.toml", "cannot read none.toml: No such file or directory"),
    ],
)
def test_the_command_line(
    arguments: str, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = arguments.format(k="--kernel debian/6.1").split()
    words += ["-o", "s"] if words[0] == "run" else []
    assert re.match(complaint, refused(*words))
    assert list(tmp_path.iterdir()) == [], "something was made"


def test_a_kernel_that_debian_has_not(tmp_path: Path) -> None:
    there = refused("run", "open1", "--kernel", "nonsense/6.1", "-o", tmp_path / "s")
    assert there.startswith("no kernel 'nonsense/6.1'")


@pytest.mark.parametrize("place", ["", "/etc", "/etc/passwd", "/proc/s"])
def test_no_folder_for_the_study(place: str) -> None:
    complaint = refused("run", "open1", *KERNEL, *(["-o", place] if place else []))
    assert complaint in (
        "no folder for the study: give -o FOLDER",
        f"{place} exists and is not a study: give another folder with -o",
        f"No such file or directory ({place})",
    )


def test_a_reader_that_has_seen_enough(open1: Path) -> None:
    command = f"set -o pipefail; {BIGIRON} compare {open1} --format csv | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.stdout.count("\n"), done.stderr) == (1, "")


# A study in a file

QUESTION = """
workload = "getppid1"
cpus = [1]
[[variant]]
name = "a"
kernel = "debian/6.1"
"""


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("[1]", "[1", r"Unclosed array \(at line 4, column 2\)|.*\(at line 4, column \d+\)"),
        ("[1]", '["1"]', r"Expected `int`, got `str` - at `cpus\[0\]`"),
        ("cpus", "cups", r"The study contains unknown field `cups`"),
        ("kernel", "kernal", r"The study contains unknown field `kernal` - at `variant\[0\]`"),
        ('name = "a"', "", r"The study missing required field `name` - at `variant\[0\]`"),
        ("cpus = [1]", 'mode = "fibre"', r"Invalid enum value 'fibre' - at `mode`"),
        ("cpus", "format = 1\ncpus", "s.toml has format 1 and this bigiron reads 3"),
        ('"a"', '"\\u001b"', r"variant '\\+x1b': use at most 80 letters, digits and signs"),
        (
            'kernel = "d',
            'boot = "a\\nb"\nkernel = "d',
            "variant a: boot parameters must be one printable line",
        ),
    ],
)
def test_a_study_in_a_file(old: str, new: str, complaint: str, tmp_path: Path) -> None:
    assert old in QUESTION
    (tmp_path / "s.toml").write_text(QUESTION.replace(old, new))
    said = refused("run", tmp_path / "s.toml", "-o", tmp_path / "s")
    assert re.search(complaint, said), said


def test_a_study_that_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_bytes(b"workload = \xff")
    assert refused("run", tmp_path / "s.toml", "-o", tmp_path / "s").startswith(f"{tmp_path}/s.toml: ")


# A study on disk: copies of a real one, each damaged in its own way


@pytest.fixture
def study(open1: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(open1, tmp_path / "s"))


def overwrite(path: Path, at: int, data: bytes) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:at] + data + content[at + len(data) :])


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (
            lambda s: overwrite(s / CELL / "conflicts.parquet", 500, b"\0\1\2"),
            "conflicts.parquet has another checksum",
        ),
        (
            lambda s: (s / CELL / "conflicts.parquet").write_bytes(b""),
            "conflicts.parquet has another checksum",
        ),
        (lambda s: (s / CELL / "conflicts.parquet").unlink(), "conflicts.parquet: No such file or directory"),
        (
            lambda s: (s / CELL / "cell.json").write_bytes(b'{"format": 1'),
            "cell.json: Input data was truncated",
        ),
        (lambda s: (s / CELL / "cell.json").write_bytes(b"{}"), "cell.json: Object missing required field"),
        (lambda s: (s / CELL / "cell.json").unlink(), "cell.json: .*No such file or directory"),
    ],
)
def test_a_damaged_cell(study: Path, damage: Callable[[Path], object], complaint: str) -> None:
    damage(study)
    said = refused("compare", study)
    assert re.match(f"the cell {study / CELL} is damaged \\({complaint}.*: delete that folder and run", said)


def test_a_cell_in_another_s_folder(study: Path) -> None:
    shutil.copy(study / CELL.replace("r1", "r2") / "cell.json", study / CELL)
    assert "is damaged (cell.json belongs to cell debian-6.1-8cpus-8tasks-r2)" in refused("compare", study)


def test_another_version_s_study(study: Path) -> None:
    file = study / "study.toml"
    file.write_text(file.read_text().replace("format = 3", "format = 1"))
    for command in "run", "compare", "show":
        assert refused(command, study) == (
            f"{file} has format 1 and this bigiron reads 3: use the version that made it"
        )


def test_another_version_s_cell(study: Path) -> None:
    file = study / CELL / "cell.json"
    file.write_text(file.read_text().replace('"format": 3', '"format": 1'))
    assert refused("compare", study) == f"{study / CELL} has format 1, but this bigiron reads 3"


@pytest.mark.parametrize(
    ("arguments", "difference"),
    [
        (["dup1", "--reps", "2"], "workload = 'open1', not 'dup1'"),
        (["open1", "--reps", "1"], "repetitions = 2, not 1"),
        (["open1", "--reps", "2", "--boot", "x=1"], "variant debian/6.1 with boot '' and settings []"),
        (["open1", "--reps", "3", "--operations", "9"], "repetitions = 2, not 3"),
    ],
)
def test_another_question(open1: Path, arguments: list[str], difference: str) -> None:
    same = ("--kernel", "debian/6.1", "--kernel", "debian/6.12", "--probe", "conflicts,instructions")
    said = refused("run", *arguments[:1], *same, *arguments[1:], "-o", open1)
    assert said.startswith(f"study {open1} has another question ({difference}")


def test_another_image_of_a_kernel(study: Path) -> None:
    file = study / "study.toml"
    file.write_text(re.sub('kernel_sha256 = "....', 'kernel_sha256 = "0000', file.read_text(), count=1))
    same = ("--kernel", "debian/6.12", "--probe", "conflicts,instructions", "--reps", "2")
    said = refused("run", "open1", *KERNEL, *same, "-o", study)
    assert f"study {study} has another question (another image of kernel debian/6.1)" in said


def test_a_variant_that_the_study_has_not(open1: Path) -> None:
    assert refused("compare", open1, "--base", "6.1") == (
        "open1 has no variant '6.1': it has debian/6.1, debian/6.12"
    )


def test_two_on_one_study(tmp_path: Path) -> None:
    with started(tmp_path / "s") as first:
        wait_until(lambda: machines_of(tmp_path / "tmp"))  # it measures, and so has the study
        first.send_signal(signal.SIGSTOP)  # or it may be done before the second one looks
        try:
            assert refused("run", tmp_path / "s") == (
                f"another bigiron is running study {tmp_path / 's'}: wait until it ends"
            )
        finally:
            first.send_signal(signal.SIGCONT)
            first.send_signal(signal.SIGINT)
        first.communicate(timeout=SAFETY_NET_S)


@pytest.mark.parametrize(
    ("module", "status"), [("typer", -signal.SIGINT), ("bigiron.commands.setup.doctor", 128 + signal.SIGINT)]
)
def test_ctrl_c_while_the_command_starts(module: str, status: int) -> None:
    script = (
        "import os, signal, sys\n"
        "class Interrupted:\n"
        "    def find_spec(self, name, path, target=None):\n"
        f"        if name == {module!r}:\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        "from bigiron.__main__ import main\n"
        "sys.argv += ['doctor']\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True)
    assert done.returncode == status
    assert done.stderr == ""


def test_a_full_disk(small_disk: Path) -> None:
    study, filler = small_disk / "s", small_disk / "filler"
    filler.write_bytes(bytes((4 << 20) - (16 << 10)))
    arguments = ("run", "mmap1", *KERNEL, "--cpus", "2", "--probe", "conflicts", "-o", study)
    assert refused(*arguments) == f"No space left on device ({study}): free some space and run it again"
    assert list((study / "cells").iterdir()) == []
    filler.unlink()
    assert bigiron(*arguments).status == 0


# The machine's tools


def fake(folder: Path, script: str) -> str:
    qemu = folder / "qemu-system-x86_64"
    qemu.write_text(f"#!/bin/sh\n{script}\n")
    qemu.chmod(0o755)
    return str(folder)


@pytest.mark.parametrize(
    ("script", "fault"),
    [
        ("echo QEMU emulator version 7.2.19", "is QEMU 7.2.19, and versions before 10 crash newer kernels"),
        (
            '[ "$1" = --version ] && echo QEMU version 10.1',
            "is QEMU 10.1 built without plugin support, which",
        ),
        ("exit 1", "does not print its version"),
    ],
)
def test_a_qemu_that_will_not_do(tmp_path: Path, script: str, fault: str) -> None:
    folder = fake(tmp_path, script)
    said = refused("run", "open1", *KERNEL, "-o", tmp_path / "s", PATH=f"{folder}:/usr/bin:/bin")
    assert said.startswith(f"{folder}/qemu-system-x86_64 {fault}") and "install" in said


def test_no_qemu(tmp_path: Path) -> None:
    said = refused("run", "open1", *KERNEL, "-o", tmp_path / "s", PATH=str(tmp_path))
    assert said.startswith("no qemu-system-x86_64 on PATH: ") and "install" in said


def test_no_compiler(tmp_path: Path) -> None:
    folder = fake(tmp_path, "echo QEMU version 10.0.2")
    said = refused("run", "open1", *KERNEL, "-o", tmp_path / "s", PATH=folder)
    assert re.match(r"no gcc on PATH to compile .*: apt-get install gcc libc6-dev$", said)


@pytest.mark.parametrize("comes_from", ["PATH", "wheel"])
def test_a_qemu_that_ends_at_once(comes_from: str, tmp_path: Path) -> None:
    script = 'case "$*" in *--version*) echo QEMU version 10.0.2;; *) echo no >&2; exit 3;; esac'
    paths = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    if comes_from == "wheel":
        programs = tmp_path / "site/bigiron_qemu/bin"
        programs.mkdir(parents=True)
        fake(programs, script)
        fake(tmp_path, "echo QEMU version 8.2.2")
        paths["PYTHONPATH"] = f"{tmp_path}/site:{os.environ.get('PYTHONPATH', '')}"
    else:
        fake(tmp_path, script)
    answer = bigiron("run", "open1", *KERNEL, "-o", tmp_path / "s", **paths)
    assert answer.status == 3
    *others, complaint = answer.err.splitlines()
    assert (
        complaint == "bigiron: debian/6.1, 8 CPUs: qemu-system-x86_64 ended with status 3 while booting: no"
    )
    assert all(re.search(r"snapshot \w+ is made again: it was made with QEMU", line) for line in others)


# A workload of one's own


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("frob = 1;", r"mine\.c:1:\d+: error: 'frob' undeclared"),
        ("extern int frob(void); frob();", r"undefined reference to `frob'"),
    ],
)
def test_a_workload_that_does_not_compile(tmp_path: Path, body: str, complaint: str) -> None:
    source = tmp_path / "mine.c"
    source.write_text(f"void testcase(unsigned long long *iterations, unsigned long nr) {{ {body} }}\n")
    said = refused("run", "--workload-file", source, *KERNEL, "-o", tmp_path / "s")
    assert re.match(f"workload {source} does not compile: .*{complaint}", said)


def endless(folder: Path, body: str) -> Path:
    """A workload whose loop calls no function, so that the compiler may keep in registers what it changes."""
    source = folder / "mine.c"
    source.write_text(
        "void testcase(unsigned long long *iterations, unsigned long nr)\n"
        f'{{ for (;;) {{ asm volatile("" : "+r"(nr)); {body} }} }}\n'
    )
    return source


ONE_CPU = (*KERNEL, "--cpus", "1", "--operations", "50")


def test_a_loop_that_calls_no_function_is_counted(tmp_path: Path) -> None:
    source = endless(tmp_path, "++*iterations;")
    answer = bigiron("run", "--workload-file", source, *ONE_CPU, "-o", tmp_path / "s")
    assert answer.status == 0, answer


def test_a_loop_that_counts_nothing(tmp_path: Path) -> None:
    source = endless(tmp_path, "")
    answer = bigiron("run", "--workload-file", source, *ONE_CPU, "--deadline", "30", "-o", tmp_path / "s")
    assert (answer.status, answer.err) == (
        2,
        "bigiron: debian/6.1, 1 CPU: task 0 made no operation in 15 s (warm-up) and does not wait: "
        "its loop must add 1 to *iterations for each; for long operations, see --deadline\n",
    )


WAYS = {
    "process": {
        "exits": r"task [01] ended by itself with status 7: gave up",
        "crashes": r"task [01] was killed by signal 11 \(Segmentation fault\)",
        "returns": r"testcase\(\) returned, which it must not: it counts operations until it is killed",
        "setting": r"setting: cannot open /proc/sys/kernel/frob: No such file or directory",
    },
    "process that waits": {
        "never": r"task 0 made no operation in 15 s \(warm-up\): it waits in \w*pause",
        "stops": r"task 0 made no operation in 15 s \(recording\): it waits in \w*pause",
    },
    "thread": {
        "exits": r"the workload ended by itself with status 7: gave up",
        "crashes": r"the workload was killed by signal 11 \(Segmentation fault\)",
        "returns": r"testcase\(\) returned, which it must not: it counts operations until it is killed",
    },
}


@pytest.fixture(scope="module", params=WAYS)
def misbehaved(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Answer, Path]:
    """What tasks are, what was said of all ways in which they misbehave, and the study."""
    folder, mode = tmp_path_factory.mktemp("misbehaved"), request.param.partition(" ")[0]
    spec = Spec(
        workload="",
        workload_file=str(WORKLOADS / "misbehave.c"),
        mode=mode,
        probes=["conflicts"],
        cpus=[2],
        deadline_s=100 if request.param == mode else 30,  # half of which a task is waited for
        variant=[
            Variant(
                name=way,
                kernel="debian/6.1",
                set=[says(way), *(["/proc/sys/kernel/frob=1"] if way == "setting" else [])],
            )
            for way in WAYS[request.param]
        ],
    )
    (folder / "s.toml").write_bytes(to_toml(spec))
    answer = bigiron("run", folder / "s.toml", "-o", folder / "s", "--jobs", "4")
    return request.param, answer, folder / "s"


def test_a_testcase_that_breaks_the_rules(misbehaved: tuple[str, Answer, Path]) -> None:
    tasks, answer, study = misbehaved
    assert answer.status == 2
    assert len(answer.err.splitlines()) == len(WAYS[tasks]), answer.err
    for record in library.open_study(study).records():
        assert record.failure and record.failure.kind == "input"
        assert re.fullmatch(WAYS[tasks][record.variant], record.failure.reason), record.failure
        assert f"bigiron: {record.variant}, 2 CPUs: {record.failure.reason}" in answer.err.splitlines()


def test_nothing_to_compare(misbehaved: tuple[str, Answer, Path]) -> None:
    _tasks, _answer, study = misbehaved
    assert refused("compare", study) == (
        f"{study} has no measured cell with the probe conflicts: see `bigiron show`"
    )
