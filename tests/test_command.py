"""External commands as workloads: run without a shell, read, and cleared away with all that they started."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import BIGIRON, Answer, bigiron, measured, wait_until
from sshd import Server, served

import bigiron as library

pytestmark = pytest.mark.usefixtures("settings_are_ours")
SETTING = Path("/proc/sys/vm/stat_interval")
HERE = ("--machine", "host")


@pytest.fixture
def tool(tmp_path: Path) -> Iterator[Path]:
    """A program of the user's own."""
    program = tmp_path / "tool"
    program.write_text(
        '#!/bin/sh\necho "cpus $(nproc)"\nfor n; do echo "did $n.5 things"; done\necho careful >&2\n'
    )
    program.chmod(0o755)
    yield program


def tried(command: str, *options: str, study: Path) -> Answer:
    return bigiron("run", "--command", command, *HERE, *options, "-o", study)


def test_its_figures_are_a_table(tool: Path, tmp_path: Path) -> None:
    study = tmp_path / "s"
    asked = ("--metric", r"did (?P<things>\S+)", "--unit", "things/s", "--tasks", "1,3", "--reps", "2")
    measured("--command", f"{tool} 7 {{tasks}}", *HERE, *asked, "-o", study)
    opened = library.open_study(study)
    table = opened.tables("metrics").sort("repetition", "tasks", "sample")
    assert table.select("tasks", "repetition", "metric", "unit", "better", "sample", "value").rows() == [
        (tasks, repetition, "things", "things/s", "more", sample, value)
        for repetition in (1, 2)
        for tasks in (1, 3)
        for sample, value in enumerate((7.5, tasks + 0.5))
    ]
    record = opened.records()[0]
    assert record.environment["command"] == f"{tool} 7 {{tasks}}"
    assert len(record.environment["workload_sha256"]) == 64
    assert record.facts["metrics"]["seconds"] > 0
    assert f"command     {tool} 7 {{tasks}}" in bigiron("show", study).out
    tool.write_text(tool.read_text() + "\n")
    assert "has another question" in bigiron("run", study).complaint


def test_no_shell_has_a_part_in_it(tool: Path, tmp_path: Path) -> None:
    trap = tmp_path / "made"
    measured("--command", f"{tool} '$(touch {trap})' ; touch {trap}", *HERE, "--metric", r"did \S+;?(\.5) ",
             "-o", tmp_path / "s")  # fmt: skip
    assert not trap.exists()


def test_on_as_many_cpus_as_asked(tool: Path, tmp_path: Path) -> None:
    measured("--command", str(tool), *HERE, "--cpus", "1", "--metric", r"cpus (\d+)", "-o", tmp_path / "s")
    assert library.open_study(tmp_path / "s").tables("metrics")["value"].to_list() == [1]


@pytest.mark.parametrize(
    ("command", "options", "status", "complaint"),
    [
        ("sh -c 'echo boo; exit 3'", "", 3, "boo\nbigiron: .*: the command failed: status 3"),
        ("sh -c 'echo boo; kill -9 $$'", "", 3, "boo\nbigiron: .*: the command was killed by signal 9"),
        ("echo hello", "", 3, "hello\nbigiron: .*: the command's output has no metric .*"),
        ("echo 'figure nan'", "", 3, "bigiron: .*: line 1: value is 'nan', not a number"),
        ("printf 'figure \\033[2J'", "", 3, r"figure \\x1b\[2J\nbigiron: .*: line 1: value is"),
        ("sleep 1000", "--deadline 5", 2, "bigiron: .*: the command was not done in 5 s: see --deadline"),
        ("yes", "--deadline 60", 2, "bigiron: .*: the command has printed more than 2 MiB"),
    ],
)
def test_a_command_that_fails(
    command: str, options: str, status: int, complaint: str, tmp_path: Path
) -> None:
    answer = tried(command, "--metric", r"figure (\S+)", *options.split(), study=tmp_path / "s")
    assert (answer.status, answer.out[:22]) == (status, "0 of 1 cells measured:"), answer
    assert re.search(complaint, answer.err), answer.err
    assert "\x1b" not in answer.err


@pytest.mark.parametrize(
    ("command", "options", "complaint"),
    [
        ("no-such-program", "", "this machine: no no-such-program on PATH"),
        ("bin/tool", "", "command: it runs in a temporary folder: give the absolute path of bin/tool"),
        ("echo '", "", 'command "echo \'": No closing quotation'),
        ("echo {cpus}", "", "command: {cpus} is not filled in: write {tasks} for"),
        ("echo", "--tasks 1,2", "--tasks needs {tasks} in --command"),
        ("echo", "--cpus 4096", "cpus = 4096: this machine has"),
        ("echo", "--metric x", "metric 'x' has no group for the value"),
        ("echo", "--metric fio --unit s", "metric fio has its own units"),
        ("echo", "--probe throughput", "--command excludes --workload-file and --probe"),
        (
            "echo",
            "--machine vm",
            "a command in a virtual machine needs a root file system: give --root debian:trixie+PACKAGE",
        ),
    ],
)
def test_what_is_no_command(command: str, options: str, complaint: str, tmp_path: Path) -> None:
    answer = tried(command, "--metric", "(.)", *options.split(), study=tmp_path / "s")
    assert (answer.status, answer.out) == (2, ""), answer
    assert answer.complaint.startswith(complaint)


def test_a_metric_without_a_command(tmp_path: Path) -> None:
    answer = bigiron("run", "open1", *HERE, "--probe", "throughput", "--metric", "fio", "-o", tmp_path / "s")
    assert answer.complaint == "metric and unit describe an external command: give --command"


@pytest.mark.skipif(os.geteuid() != 0, reason="settings are root's to change")
def test_nothing_of_it_is_left_when_bigiron_is_killed(tmp_path: Path) -> None:
    """Nor of what left its session, and settings are as they were."""
    before = SETTING.read_text()
    children = f"sh -c 'setsid sleep {os.getpid()}.5 & sleep {os.getpid()}.5'"
    options = [*HERE, "--metric", "(.)", "--set", f"{SETTING}=9", "-o", str(tmp_path / "s")]
    with subprocess.Popen([BIGIRON, "run", "--command", children, *options], stderr=subprocess.PIPE) as run:
        wait_until(lambda: len(sleepers()) == 2)
        assert SETTING.read_text().strip() == "9"
        run.send_signal(signal.SIGKILL)
    wait_until(lambda: not sleepers() and SETTING.read_text() == before)


def sleepers() -> list[str]:
    mark = f"sleep\0{os.getpid()}.5\0".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cmdline").read_bytes() == mark:
                found.append(process.name)
        except OSError:
            continue  # it has just ended
    return found


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with served(tmp_path / "server") as server:
        yield server


def test_a_command_on_another_machine(server: Server, tool: Path, tmp_path: Path) -> None:
    asked = ("--machine", server.address, "--metric", r"did (\S+)", "-o", tmp_path / "s")
    measured("--command", f"{tool} {{tasks}}", "--tasks", "2", *asked, **server.environment)
    assert library.open_study(tmp_path / "s").tables("metrics")["value"].to_list() == [2.5]
    unknown = bigiron("run", "--command", "no-such-program", *asked, **server.environment)
    assert unknown.complaint == f"{server.address}: no no-such-program on PATH"
