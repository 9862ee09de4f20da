"""A real machine: the one that bigiron runs on, or another by ssh. Its times are a real machine's.

The agent is a plain program there. All goes through the standard streams of one shell, started here or by
ssh. The programs go there as an archive, which is unpacked in a folder of its own; the agent's messages come
back. When the stream to it ends, however this process or the connection does, the agent ends, settings and
CPUs are put back as they were (guest/real/guard.c), and the folder is removed.
"""

import functools
import hashlib
import io
import logging
import os
import re
import selectors
import shutil
import subprocess
import tarfile
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from bigiron.errors import MachineError, UserError
from bigiron.machines.engine import BootedKernel, Engine, FromOutcome, Job, deadline_s
from bigiron.machines.messages import Decoder, Message, check
from bigiron.machines.outcome import MachineOutcome
from bigiron.machines.real import cpu_quota, ssh
from bigiron.util import distribution
from bigiron.util.lazy import OF_OUR_ALLOCATOR
from bigiron.util.sanitize import sanitize
from bigiron.util.subprocesses import last_line
from bigiron.util.threads import StoppedError

_log = logging.getLogger(__name__)

_LOOK_S = 0.25  # how soon a stop is noticed
_RESTORE_S = 30  # that settings and CPUs may take to be put back
_CLEAR_S = (
    5  # that files may take to be removed while that is waited for, where something keeps the output open
)
_ANSWER_S = 60  # that a machine may take to say what it is
_COMMAND_S = 3600  # that a command may take, unless the study says otherwise
_LAST_WORDS_S = 5  # for the agent to say by itself that a command has come to its deadline

# One line, as a csh takes no other; $1 is the archive's size, as nothing may read past it. A command that is
# being killed may still make temporary files while the folder is removed.
_RUN_AGENT = (
    'set -e; umask 077; folder=$(mktemp -d "${TMPDIR:-/tmp}/bigiron-XXXXXX"); '
    'trap \'cd /; rm -rf "$folder" || { sleep 1; rm -rf "$folder"; }\' EXIT; '
    "trap 'exit 143' HUP INT TERM PIPE; "
    'cd "$folder"; head -c "$1" | tar -xf -; ./agent job'
)
_DESCRIBE = (
    f"{cpu_quota.SCRIPT}; "
    'say() { printf "@%s=%s\\n" "$1" "$2"; }; '
    'say arch "$(uname -m)"; say release "$(uname -r)"; say version "$(uname -v)"; '
    'say cpus "$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)"; '
    'say boot "$(cat /proc/cmdline)"; '
    'say cpu "$(grep -m 1 -E "^(model name|cpu)[[:space:]]*:" /proc/cpuinfo)"; '
    'say memory "$(grep MemTotal: /proc/meminfo)"'
)
_HASH = (
    'found=$(command -v -- "$1") || { echo "no $1 on PATH" >&2; exit 1; }; '
    'case $found in /*) sha256sum <"$found";; esac'
)


@dataclass(frozen=True)
class System:
    """What a real machine is."""

    arch: str  # as `uname -m` says, and so on
    release: str
    version: str
    cpus: int  # that tasks may use
    cpu_quota: float  # CPUs whose time the control group may use; 0: no quota
    boot_line: str
    cpu_model: str  # "" where /proc/cpuinfo gives no name
    memory_mib: int


@dataclass(frozen=True)
class RealMachine:
    """What runs where."""

    address: str  # ssh://USER@HOST:PORT; "" is here
    system: System
    agent: Path
    job: str
    deadline_s: float
    files: tuple[Path, ...] = ()  # that the agent finds in the folder that it runs in


@dataclass(frozen=True)
class RealEngine(Engine):
    """The machine that bigiron runs on, or another: with its own kernel, its own CPUs, and its programs."""

    time = "real time"
    has_programs = True

    address: str  # "" is here
    runs_command: bool = False  # instead of a workload
    deadline: int = 0  # seconds; 0: by what it runs

    def cpus(self, asked: list[int]) -> list[int]:
        """All the CPUs that it has, or as many as a command is to use."""
        there = system(self.address).cpus
        numbers = asked or [there]
        if numbers != [there] and (not self.runs_command or max(numbers, default=0) > there):
            spelled = ", ".join(map(str, numbers))
            raise UserError(f"cpus = {spelled}: {self._name} has {there} to use; choose how many --tasks run")
        return numbers

    def arch(self, asked: str) -> str:
        """As it says itself."""
        return system(self.address).arch

    def kernel(self, name: str, boot: str) -> BootedKernel:
        """The one that runs; UserError for what needs another one or a boot."""
        if boot:
            raise UserError("kernel parameters are for virtual machines (--machine vm)")
        running = system(self.address)
        if name not in ("", running.release):
            raise UserError(f"{self._name} runs {running.release}, not {name}")
        identity = f"{running.release} {running.version}".encode()
        return BootedKernel(running.release, hashlib.sha256(identity).hexdigest())

    def prepare(self, cpus: list[int]) -> None:
        """It is there, as it has said how many CPUs it has. Warns where it may not use them all the time."""
        quota = system(self.address).cpu_quota
        if 0 < quota < max(cpus):
            _log.warning(
                "the control group on %s has a quota of %g CPUs, and tasks run on %d: more than %g tasks are "
                "throttled; raise cpu.max, or use fewer --tasks",
                *(self._name, quota, max(cpus), quota),
            )

    def side_by_side(self, cpus: int) -> int:
        """It is one machine."""
        return 1

    def deadline_s(self, cpus: int) -> int:
        """What the study says, else for a workload by the CPUs."""
        return self.deadline or (_COMMAND_S if self.runs_command else deadline_s(cpus))

    def environment(self, job: Job) -> dict[str, object]:
        """The machine as it says it is."""
        there = system(self.address)
        return {
            **({"address": self.address} if self.address else {}),
            "kernel": there.release,
            "kernel_release": there.release,
            "kernel_version": there.version,
            "boot": there.boot_line,
            "cpu": there.cpu_model,
            "memory_mib": there.memory_mib,
            **({"cpu_quota": there.cpu_quota} if there.cpu_quota else {}),
        }

    def run(
        self,
        job: Job,
        collect: Callable[[MachineOutcome], FromOutcome],
        stop: threading.Event,
        on_stage: Callable[[str], None],
    ) -> FromOutcome:
        """Run the agent there."""
        assert job.programs
        machine = RealMachine(
            address=self.address,
            system=system(self.address),
            agent=job.programs.agent,
            job=job.agent_job,
            deadline_s=self.deadline_s(job.cpus) + _LAST_WORDS_S,
            files=job.programs.bpf,
        )
        return collect(run(machine, stop, on_stage))

    @property
    def _name(self) -> str:
        return name(self.address)


@functools.cache
def system(address: str) -> System:
    """What the machine is; UserError where it cannot be asked."""
    output = remote_output(address, _DESCRIBE, cpu_quota.OWN, cpu_quota.TOP)
    said = dict(re.findall(r"^@(\w+)=(.*)$", output, re.MULTILINE))
    try:
        return System(
            arch=said["arch"],
            release=said["release"],
            version=said["version"],
            cpus=int(said["cpus"]),
            cpu_quota=cpu_quota.parse(output),
            boot_line=said["boot"].strip(),
            cpu_model=said["cpu"].partition(":")[2].strip(),
            memory_mib=int(said["memory"].split()[1]) >> 10,
        )
    except (KeyError, ValueError, IndexError):
        raise UserError(f"{name(address)} does not identify itself as Linux does") from None


def remote_output(address: str, script: str, *arguments: str) -> str:
    """What a shell script prints there; UserError where it fails."""
    try:
        done = subprocess.run(
            _command(address, script, *arguments),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=_ANSWER_S,
            env={**os.environ, "LC_ALL": "C"},
        )
    except subprocess.TimeoutExpired:
        raise UserError(f"{name(address)} has not answered for {_ANSWER_S} s") from None
    if done.returncode:
        complaint = _last_line(done.stderr)
        raise UserError(f"{name(address)}: {complaint}{ssh.advice(complaint) if address else ''}")
    return sanitize(done.stdout.decode(errors="replace"))


def program_sha256(address: str, program: str) -> str:
    """Of a program's file, as far as it has one; UserError where there is no such program."""
    return remote_output(address, _HASH, program).partition(" ")[0].strip()


def name(address: str) -> str:
    """How a message calls it."""
    return address or "this machine"


def run(machine: RealMachine, stop: threading.Event, on_stage: Callable[[str], None]) -> MachineOutcome:
    """Run the agent and listen until its last word.

    Raises UserError where what it was given cannot run, MachineError where it died or is too slow or the
    connection broke, StoppedError where `stop` was set.
    """
    archive = _archive({"agent": machine.agent.read_bytes(), "job": machine.job.encode()}, machine.files)
    with tempfile.TemporaryFile() as stderr:
        process = subprocess.Popen(
            _command(machine.address, _RUN_AGENT, str(len(archive))),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            start_new_session=True,  # a Ctrl-C is for us, not for it
            env={name: value for name, value in os.environ.items() if name != OF_OUR_ALLOCATOR},
        )
        decoder, outcome, unread = Decoder(), MachineOutcome(), deque[Message]()
        try:
            _listen(machine, process, archive, decoder, outcome, unread, stderr, stop, on_stage)
        finally:
            _wait_until_all_is_put_back(machine, process, decoder, outcome, unread)
    return outcome


def _command(address: str, script: str, *arguments: str) -> list[str]:
    words = ["sh", "-c", script, "sh", *arguments]
    if not address:
        return words
    if shutil.which(ssh.program()) is None:
        raise UserError(f"no {ssh.program()} on PATH: {distribution.install('openssh-client')}")
    return ssh.command(address, words)


def _archive(contents: dict[str, bytes], files: Iterable[Path]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for file, content in (contents | {file.name: file.read_bytes() for file in files}).items():
            member = tarfile.TarInfo(file)
            member.size, member.mode = len(content), 0o700
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def _listen(
    machine: RealMachine,
    process: subprocess.Popen[bytes],
    archive: bytes,
    decoder: Decoder,
    outcome: MachineOutcome,
    unread: deque[Message],
    stderr: IO[bytes],
    stop: threading.Event,
    on_stage: Callable[[str], None],
) -> None:
    """Until the last word, handing over the archive meanwhile. After an error some messages may be unread."""
    assert process.stdin and process.stdout
    started, left = time.monotonic(), memoryview(archive)
    os.set_blocking(process.stdin.fileno(), False)
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdin, selectors.EVENT_WRITE)
        selector.register(process.stdout, selectors.EVENT_READ)
        while not outcome.ended:
            for key, _ in selector.select(_LOOK_S):
                if key.fileobj is process.stdin:
                    left = left[_write(process.stdin, left) :]
                    if not left:
                        selector.unregister(process.stdin)
                    continue
                data = os.read(process.stdout.fileno(), 1 << 16)
                if not data:
                    raise MachineError(_why_it_ended(machine, _status(process), stderr, outcome.stage))
                unread += decoder.feed(data)
                while unread:
                    message = unread.popleft()
                    outcome.damaged = decoder.damaged
                    outcome.receive(message, time.monotonic() - started)
                    _check_kernel(machine, message)
                    _say_whether_it_waits(machine, message)
                    on_stage(outcome.stage)
            if stop.is_set():
                raise StoppedError
            if outcome.waits:
                started = time.monotonic()
            if time.monotonic() - started > machine.deadline_s:
                deadline = f"its deadline of {machine.deadline_s:.0f} s"
                raise MachineError(f"the agent was still {outcome.stage} after {deadline}")


def _status(process: subprocess.Popen[bytes]) -> int:
    """Of what says no more: it ends when its input does, or is killed if it is not what it should be."""
    assert process.stdin
    process.stdin.close()
    _ends(process, _RESTORE_S)
    return process.returncode


def _check_kernel(machine: RealMachine, message: Message) -> None:
    """Checks again, as the machine may have been rebooted since the study began."""
    running = machine.system.release, machine.system.version
    said = message.content.get("release"), message.content.get("version")
    if message.type == "hello" and said != running:
        raise MachineError(f"{name(machine.address)} runs another kernel now: {said[0]}, {said[1]}")


def _say_whether_it_waits(machine: RealMachine, message: Message) -> None:
    if message.type == "waiting":
        pid = message.content["pid"]
        which = f": process {pid}" if pid else ""
        _log.warning("waiting for another bigiron that measures on %s%s", name(machine.address), which)


def _write(stream: IO[bytes], left: memoryview) -> int:
    """How much of it went; who reads no more says elsewhere why."""
    try:
        return os.write(stream.fileno(), left)
    except BlockingIOError:
        return 0
    except BrokenPipeError:
        return len(left)


def _wait_until_all_is_put_back(
    machine: RealMachine,
    process: subprocess.Popen[bytes],
    decoder: Decoder,
    outcome: MachineOutcome,
    unread: Iterable[Message],
) -> None:
    """The end of its standard input ends the agent; who puts all back has its output open until then.

    So may have what outlives the agent, for longer: of that the agent says so when all is put back, after
    all errors of that. A shell here is not killed, as it is what removes the folder: after the agent, which
    may have many files to remove. Nor is one elsewhere, but ssh, which waits for what has the output open.
    """
    assert process.stdout
    if process.stdin:
        process.stdin.close()
    deadline, messages = time.monotonic() + _RESTORE_S, list(unread)
    remaining = _remaining(outcome.messages) or _remaining(messages)
    with process.stdout, selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while not remaining and (left := deadline - time.monotonic()) > 0:
            if not selector.select(left):
                continue
            data = os.read(process.stdout.fileno(), 1 << 16)
            if not data:
                break
            messages += decoder.feed(data)
            remaining = _remaining(messages)
        within_s = _CLEAR_S if remaining else deadline - time.monotonic()
        has_ended = _ends(process, within_s, is_killed=bool(machine.address))
    if remaining:
        _say_what_remains(machine, remaining)
    elif not has_ended:
        where = f" of {machine.address}" if machine.address else ""
        raise MachineError(f"settings and CPUs{where} were not restored within {_RESTORE_S} s: check them")
    for message in messages:
        if message.type == "error":
            raise MachineError(sanitize(str(message.content.get("text"))))


def _remaining(messages: Iterable[Message]) -> Message | None:
    return next((message for message in messages if message.type == "remains"), None)


def _ends(process: subprocess.Popen[bytes], within_s: float, *, is_killed: bool = True) -> bool:
    """Whether it does by itself; else it is killed, or left to end later."""
    try:
        process.wait(max(within_s, 0))
    except subprocess.TimeoutExpired:
        if not is_killed:
            threading.Thread(target=process.wait, daemon=True).start()
            return False
        process.kill()
        process.wait()
        return False
    return True


def _say_what_remains(machine: RealMachine, message: Message) -> None:
    check(message)
    which = f"process {message.content['pid']}" if message.content["pid"] else "a process"
    _log.warning(
        "%s of the workload still runs on %s, which may disturb what is measured next: end it",
        *(which, name(machine.address)),
    )


def _why_it_ended(machine: RealMachine, status: int, stderr: IO[bytes], stage: str) -> str:
    stderr.seek(0)
    said = _last_line(stderr.read())
    if machine.address and ssh.has_failed(status):
        how = f" (ssh ended by signal {-status})" if status < 0 else f": {said}{ssh.advice(said)}"
        return f"the connection to {machine.address} broke while {stage}{how}"
    # A shell says so of what ended by a signal.
    how = f"by signal {status - 128}" if status > 128 else f"with status {status}"
    return f"the agent ended {how} while {stage}: {said}"


def _last_line(output: bytes) -> str:
    return sanitize(last_line(output.decode(errors="replace")))
