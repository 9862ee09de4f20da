"""The probe blocked beside bcc's offcputime, on this machine: cost of a context switch, memory, totals.

As root, with offcputime of Debian's package libbpf-tools on PATH (bcc's tool as a CO-RE program; its Python
version needs kprobes and kernel headers too). Both look at all tasks. The cost is told twice: by the kernel's
own clock around each run of a BPF program (kernel.bpf_stats_enabled), and by what a pair of tasks that wake
each other loses. The order of the runs changes from round to round.

    benchmarks/recorder/blocked.py [ROUNDS]
"""

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bigiron import compile, libbpf, workloads
from bigiron.architectures import X86_64
from bigiron.errors import UserError
from bigiron.machines.messages import Decoder, Message

WORKLOADS = Path(__file__).parents[1] / "workloads"
STATISTICS = Path("/proc/sys/kernel/bpf_stats_enabled")
SWITCHES_PER_OPERATION = 2  # of the workload context_switch1
ATTACH_S = 2.0


@dataclass(frozen=True)
class Cost:
    """What a tracer took while the load ran."""

    ns_per_run: float  # of its BPF programs, at each context switch
    memory: int  # bytes of its maps and programs


def agent(name: str, workload: Path | str, folder: Path) -> Path:
    """The guest agent as a plain program, under a name of its own."""
    found = workloads.find(workload) if isinstance(workload, str) else workloads.from_file(workload)
    return Path(shutil.copy(compile.agent(found, "gcc", libbpf.flags(X86_64)), folder / name))


def job(folder: Path, *lines: str, tasks: int = 1) -> Path:
    """A job file for the agent."""
    file = Path(tempfile.mkstemp(dir=folder)[1])
    file.write_text("\n".join(["mode process", f"tasks {tasks}", "patience_s 600", *lines, ""]))
    return file


def messages(said: bytes) -> list[Message]:
    """What the agent said."""
    return Decoder().feed(said)


def load(program: Path, folder: Path) -> float:
    """Nanoseconds that an operation of the load takes: two context switches and what they need."""
    done = subprocess.run(
        [program, job(folder, "warmup 1000", "samples 1", "sample_ms 2000")],
        stdout=subprocess.PIPE,
        check=True,
    )
    first, last = (message.content for message in messages(done.stdout) if message.type == "sample")
    operations = sum(last["operations"]) - sum(first["operations"])
    return float((last["nanoseconds"] - first["nanoseconds"]) / operations)


@contextmanager
def tracing(*command: str | Path) -> Iterator[tuple[int, list[str]]]:
    """A tracer that is attached; its process, and, when it was told to end, what it said."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, **streams, start_new_session=True) as tracer:  # type: ignore[call-overload]
        said: list[str] = []
        time.sleep(ATTACH_S)
        try:
            yield tracer.pid, said
        finally:
            os.killpg(tracer.pid, signal.SIGINT)
        assert tracer.stdout
        said.append(tracer.stdout.read().decode(errors="replace"))


def children(pid: int) -> list[int]:
    """A process and its descendants."""
    below = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(each for child in below for each in children(int(child)))]


def programs_and_maps(pid: int) -> list[dict[str, int]]:
    """What the kernel says of each BPF program and map that a process or its children hold open."""
    found: dict[tuple[str, int], dict[str, int]] = {}
    for process in children(pid):
        for file in Path(f"/proc/{process}/fdinfo").iterdir():
            try:
                text = file.read_text()
            except OSError:
                continue
            fields = {name: int(value) for name, value in re.findall(r"^(\w+):\t(\d+)$", text, re.MULTILINE)}
            for kind in ("prog_id", "map_id"):
                if kind in fields and "memlock" in fields:
                    found[kind, fields[kind]] = fields
    return list(found.values())


def cost(pid: int, before: list[dict[str, int]]) -> Cost:
    """Of a tracer, since `before`."""
    after = programs_and_maps(pid)

    def grown(name: str) -> int:
        return sum(one.get(name, 0) for one in after) - sum(one.get(name, 0) for one in before)

    memory = sum(one["memlock"] for one in after)
    return Cost(grown("run_time_ns") / max(1, grown("run_cnt")), memory)


def totals_of_offcputime(text: str, task: str) -> dict[int, int]:
    """Microseconds of each task of that name."""
    totals: dict[int, int] = defaultdict(int)
    for pid, us in re.findall(rf"^ +- +{task} \((\d+)\)\n +(\d+)$", text, re.MULTILINE):
        totals[int(pid)] += int(us)
    return totals


def totals_of_ours(said: str, task: str) -> dict[int, int]:
    """The same."""
    totals: dict[int, int] = defaultdict(int)
    for message in messages(said.encode()):
        if message.type == "blocked" and message.content["task"] == task:
            totals[message.content["pid"]] += message.content["total_ns"] // 1000
    return totals


def main() -> None:
    """Measure, and print the figures."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    offcputime = shutil.which("offcputime", path=f"{os.environ['PATH']}:/usr/sbin")
    if offcputime is None:
        print("blocked: not compared, as there is no offcputime on PATH: apt-get install libbpf-tools")
        return
    with tempfile.TemporaryDirectory(prefix="bigiron-") as temporary:
        folder = Path(temporary)
        loaded = agent("load", "context_switch1", folder)
        watcher = agent("watcher", WORKLOADS / "tick.c", folder)
        blocked = ["warmup 0", "operations 600", f"blocked {compile.bpf('blocked')}"]
        tracers: dict[str, list[str | Path]] = {
            "nothing": ["sleep", "600"],
            "blocked": [watcher, job(folder, *blocked)],
            "blocked, user stacks too": [watcher, job(folder, *blocked, "blocked_user")],
            "offcputime (user stacks too)": [offcputime],
        }
        measure(tracers, loaded, folder, rounds)
        naps = agent("naps", WORKLOADS / "naps.c", folder)
        agree(watcher, offcputime, naps, folder)


def measure(tracers: dict[str, list[str | Path]], loaded: Path, folder: Path, rounds: int) -> None:
    """Cost and memory of each tracer."""
    took: dict[str, list[float]] = defaultdict(list)
    costs: dict[str, list[Cost]] = defaultdict(list)
    for _round in range(rounds):
        for name in random.sample(list(tracers), len(tracers)):
            with tracing(*tracers[name]) as (pid, _said):
                took[name].append(load(loaded, folder))
                with statistics():
                    before = programs_and_maps(pid)
                    load(loaded, folder)
                    costs[name].append(cost(pid, before))
    alone = median(took["nothing"])
    print(f"context_switch1, one pair of tasks, {rounds} rounds of 2 s each, medians")
    print(f"{'':30}{'ns/switch':>12}{'ns added':>12}{'BPF ns':>12}{'KiB':>10}")
    for name in tracers:
        per_switch = median(took[name]) / SWITCHES_PER_OPERATION
        added = per_switch - alone / SWITCHES_PER_OPERATION
        program = median(one.ns_per_run for one in costs[name])
        memory = median(one.memory for one in costs[name]) / 1024
        print(f"{name:30}{per_switch:12.0f}{added:12.0f}{program:12.0f}{memory:10.0f}", flush=True)


@contextmanager
def statistics() -> Iterator[None]:
    """The kernel measures each run of a BPF program, which takes time too."""
    STATISTICS.write_text("1")
    try:
        yield
    finally:
        STATISTICS.write_text("0")


def agree(watcher: Path, offcputime: str, naps: Path, folder: Path) -> None:
    """Both look at the same load from its beginning to its end."""
    # Ours ends by itself, after the load.
    ours = job(folder, "warmup 0", "operations 8", f"blocked {compile.bpf('blocked')}")
    quiet = job(
        folder, "warmup 2000", "stay", tasks=4
    )  # offcputime leaves out tasks that have ended when it prints
    with subprocess.Popen([watcher, ours], stdout=subprocess.PIPE) as tracer:
        with tracing(offcputime, "--stack-storage-size", "16384") as (_pid, said):
            streams = {"stdout": subprocess.PIPE, "start_new_session": True}
            load = subprocess.Popen([naps, quiet], **streams)  # type: ignore[call-overload]
            while b"@bigiron end" not in load.stdout.readline():
                pass
        assert tracer.stdout
        counted = totals_of_ours(tracer.stdout.read().decode(), naps.name)
        os.killpg(load.pid, signal.SIGKILL)
        load.wait()
    theirs = totals_of_offcputime(said[0], naps.name)
    print(f"\n{'task':>10}{'blocked, us':>16}{'offcputime, us':>16}{'difference':>12}")
    both = sorted(set(counted) & set(theirs))
    for pid in both:
        print(f"{pid:10}{counted[pid]:16}{theirs[pid]:16}{counted[pid] / theirs[pid] - 1:12.4%}")
    one, other = (sum(totals[pid] for pid in both) for totals in (counted, theirs))
    print(f"{'all':>10}{one:16}{other:16}{one / other - 1:12.4%}")
    for name, totals in (("blocked", counted), ("offcputime", theirs)):
        if alone := sorted(set(totals) - set(both)):
            print(f"only {name} has {', '.join(f'{pid} ({totals[pid]} us)' for pid in alone)}")


if __name__ == "__main__":
    try:
        main()
    except (UserError, OSError) as error:
        sys.exit(f"blocked.py: {error}")
