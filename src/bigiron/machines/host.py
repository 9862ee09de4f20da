"""The machine that bigiron runs on: the agent is a plain program here, and its times are a real machine's.

It ends with this process however that ends; settings and CPUs are then put back as they were (guest/guard.c).
"""

import os
import platform
import re
import selectors
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from bigiron.children import dying_with
from bigiron.errors import MachineError
from bigiron.machines.messages import Decoder
from bigiron.machines.outcome import Outcome, StoppedError

_LOOK_S = 0.25  # how soon a stop is noticed
_RESTORE_S = 30  # that settings and CPUs may take to be put back


@dataclass(frozen=True)
class HostMachine:
    """What runs here."""

    agent: Path
    job: str
    deadline_s: float
    files: tuple[Path, ...] = ()  # that the agent finds in the folder that it runs in


def kernel() -> tuple[str, str]:
    """The running kernel's release and version, as `uname -r` and `uname -v` say."""
    return platform.release(), platform.version()


def cpus() -> int:
    """How many CPUs tasks may use here."""
    return len(os.sched_getaffinity(0))


def boot_line() -> str:
    """The kernel's parameters."""
    return Path("/proc/cmdline").read_text(encoding="utf-8").strip()


def cpu_model() -> str:
    """What /proc/cpuinfo calls the CPUs; "" where it gives no name."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    names = (line.partition(":")[2].strip() for line in lines if re.match(r"model name|cpu\s*:", line))
    return next(names, "")


def memory_mib() -> int:
    """All of it."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20


def run(host: HostMachine, stop: threading.Event, on_stage: Callable[[str], None]) -> Outcome:
    """Run the agent and listen until its last word.

    Raises UserError where what it was given cannot run, MachineError where it died or is too slow,
    StoppedError where `stop` was set.
    """
    with tempfile.TemporaryDirectory(prefix="bigiron-") as folder, tempfile.TemporaryFile() as stderr:
        job = Path(folder) / "job"
        job.write_text(host.job, encoding="utf-8")
        for file in host.files:
            shutil.copy(file, folder)
        process = subprocess.Popen(
            [*dying_with(os.getpid()), host.agent, job],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            cwd=folder,
            start_new_session=True,  # a Ctrl-C is for us, not for it
        )
        decoder = Decoder()
        try:
            return _listen(host, process, decoder, stderr, stop, on_stage)
        finally:
            process.terminate()
            _wait_until_all_is_put_back(process, decoder)


def _listen(
    host: HostMachine,
    process: subprocess.Popen[bytes],
    decoder: Decoder,
    stderr: IO[bytes],
    stop: threading.Event,
    on_stage: Callable[[str], None],
) -> Outcome:
    assert process.stdout
    started, outcome = time.monotonic(), Outcome()
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while not outcome.ended:
            if selector.select(_LOOK_S):
                data = os.read(process.stdout.fileno(), 1 << 16)
                if not data:
                    raise MachineError(_why_it_ended(process.wait(), stderr, outcome.stage))
                for message in decoder.feed(data):
                    outcome.hear(message, time.monotonic() - started)
                    on_stage(outcome.stage)
            if stop.is_set():
                raise StoppedError
            if time.monotonic() - started > host.deadline_s:
                deadline = f"its deadline of {host.deadline_s:.0f} s"
                raise MachineError(f"the agent was still {outcome.stage} after {deadline}")
    return outcome


def _wait_until_all_is_put_back(process: subprocess.Popen[bytes], decoder: Decoder) -> None:
    """Who puts it back has the agent's output open until that is done."""
    try:
        rest, _ = process.communicate(timeout=_RESTORE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        raise MachineError(
            f"settings and CPUs were not put back within {_RESTORE_S} s: look at them"
        ) from None
    for message in decoder.feed(rest):
        if message.type == "error":
            raise MachineError(str(message.content.get("text")))


def _why_it_ended(status: int, stderr: IO[bytes], stage: str) -> str:
    stderr.seek(0)
    said = stderr.read().decode(errors="replace").strip().splitlines()
    how = f"by signal {-status}" if status < 0 else f"with status {status}"
    return f"the agent ended {how} while {stage}: {said[-1] if said else 'it said nothing'}"
