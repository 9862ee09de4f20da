"""A real machine's tracing is as it was, however the agent ends: with a folder in place of tracefs."""

import subprocess
from pathlib import Path

import pytest
from conftest import SAFETY_NET_S, wait_until

from bigiron import compile
from bigiron.machines.messages import Decoder

FIRST_PID_NAMESPACE = 0xEFFFFFFC  # of the kernel: PROC_PID_INIT_INO
WAITS = """
#include <unistd.h>
void testcase(unsigned long long *iterations, unsigned long nr) { ++*iterations; pause(); }
"""
# As the kernel prints them, and as they are written back.
PUT_BACK = {
    "current_tracer": ("nop", "nop"),
    "options/funcgraph-proc": ("0", "0"),
    "options/overwrite": ("1", "1"),
    "trace_clock": ("local [global] counter mono", "global"),
    "buffer_size_kb": ("7 (expanded: 1408)", "1408"),
    "events/sched/sched_switch/enable": ("1*", "1"),
    "tracing_on": ("1", "1"),
}
OTHERS = ("set_ftrace_filter", "set_graph_function", "set_ftrace_notrace_pid", "max_graph_depth", "trace")


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("agent")
    (folder / "waits.c").write_text(WAITS)
    command = ["gcc", "-std=gnu11", "-pthread", '-DTRACING_FOLDER="tracing/"', *compile.guest_includes()]
    subprocess.run([*command, *compile.agent_files(), folder / "waits.c", "-o", folder / "agent"], check=True)
    return folder / "agent"


def with_job(folder: Path, job: str, **values: str) -> Path:
    """A folder with a job and what stands for tracefs."""
    for file, (printed, _) in PUT_BACK.items():
        path = folder / "tracing" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(values.get(file, printed) + "\n")
    for file in (*OTHERS, "events/sched/sched_switch/trigger", "kprobe_events"):
        (folder / "tracing" / file).touch()
    (folder / "job").write_text(f"mode process\ntasks 1\noperations 9\npatience_s {SAFETY_NET_S}\n{job}")
    return folder / "tracing"


@pytest.mark.parametrize("job", ["function vfs_read\ndepth 1\n", "blocked /none\n"])
def test_tracing_is_put_back_after_a_kill(job: str, agent: Path, tmp_path: Path) -> None:
    if "blocked" in job and Path("/proc/self/ns/pid").stat().st_ino != FIRST_PID_NAMESPACE:
        pytest.skip("the agent refuses to count blocked time where tasks have other numbers than in events")
    folder = with_job(tmp_path, job)
    with subprocess.Popen([agent, "job"], cwd=tmp_path, stdout=subprocess.PIPE) as run:
        wait_until(lambda: (folder / "options/overwrite").read_text() == "0")
        wait_until(lambda: (folder / "tracing_on").read_text() == "1")
        assert (folder / "buffer_size_kb").read_text() in ("64", "1024")
        run.kill()
    wait_until(lambda: all(is_put_back(folder, file) for file in PUT_BACK))
    if "blocked" in job:
        assert (folder / "events/sched/sched_switch/trigger").read_text() == "!stacktrace"


def is_put_back(folder: Path, file: str) -> bool:
    """As before, or written back: what the job does not change is not written."""
    return (folder / file).read_text().strip() in PUT_BACK[file]


def test_a_tracer_in_use_is_left_alone(agent: Path, tmp_path: Path) -> None:
    folder = with_job(tmp_path, "function vfs_read\ndepth 1\n", current_tracer="function")
    run = subprocess.run(
        [agent, "job"], cwd=tmp_path, stdout=subprocess.PIPE, timeout=SAFETY_NET_S, check=False
    )
    (error,) = [message for message in Decoder().feed(run.stdout) if message.type == "error"]
    assert error.content["text"].startswith(
        "this machine traces already: the tracer is function; to stop it, "
    )
    assert (folder / "current_tracer").read_text() == "function\n"
