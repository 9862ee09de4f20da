"""One QEMU process: started, read until the agent's last message, and ended. It dies with this process."""

import fcntl
import os
import re
import selectors
import signal
import socket
import subprocess
import tempfile
import termios
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from bigiron.errors import KernelCrashError, MachineError
from bigiron.introspect.memory import GoneError, GuestRam
from bigiron.machines.messages import Decoder, Message
from bigiron.machines.outcome import MachineOutcome
from bigiron.machines.vm import monitor
from bigiron.machines.vm.monitor import Monitor, MonitorEndedError, RefusedError
from bigiron.util.parent_death import dying_with
from bigiron.util.sanitize import sanitize
from bigiron.util.threads import StoppedError

_CONSOLE_KEPT = 64 << 10  # bytes
_CONSOLE_TAIL = 120  # lines: an oops, and the panic that it ends in
_LOOK_S = 0.25  # how soon a stop is noticed

MemoryParts = Sequence[tuple[int, int]]
"""Pieces of a machine's memory: the offset and the length of each."""


@dataclass(frozen=True)
class Channels:
    """QEMU's ends of its connections to this process: file descriptors."""

    console: int
    agent: int
    monitor: int
    resumes: bool  # whether the machine loads the state of another


@dataclass(frozen=True)
class RunLimits:
    """The limits for all stages of a machine: its deadline, and the event that stops it."""

    deadline_s: float
    stop: threading.Event
    on_stage: Callable[[str], None]


class Guest:
    """A running machine."""

    def __init__(
        self, console: socket.socket, agent: socket.socket, monitor: socket.socket, state: int,
        ram: GuestRam, limits: RunLimits, pid: int,
    ) -> None:  # fmt: skip
        self.log = bytearray()
        self.outcome = MachineOutcome(stage="booting")
        self._console, self._agent, self._connection = console, agent, monitor
        self._state = state
        self._ram = ram
        self._limits = limits
        self._pid = pid
        self._decoder = Decoder()
        self._started = time.monotonic()

    def boot(self, poll: Callable[[], None]) -> Message:
        """Run until it waits for its agent and reports the room for it; calls `poll` now and then."""
        self._limits.on_stage(self.outcome.stage)
        return self._listen("room", poll)

    def save(self, is_settled: Callable[[], bool]) -> bytes:
        """Its state, saved when it is settled. The machine stays stopped until it is given its agent."""
        control = self._monitor()
        control.stop()
        while not is_settled():
            control.cont()
            control.stop()
        control.save(self._state)
        return os.pread(self._state, os.fstat(self._state).st_size, 0)

    def load(self, state: bytes, memory: Callable[[int], None]) -> None:
        """Load another machine's state; `memory` is called with QEMU's pid once the machine is created."""
        self.outcome.stage = "resuming"
        self._limits.on_stage(self.outcome.stage)
        os.pwrite(self._state, state, 0)
        control = self._monitor()
        memory(self._pid)  # only now: QEMU writes into the memory when it creates the machine
        control.load(self._state)

    def run(
        self, content: bytes, room: MemoryParts, meanwhile: Callable[[], object] = lambda: None
    ) -> MachineOutcome:
        """Give it its agent and read until the agent's last message; `meanwhile` is called once it runs.

        Called only then, because importing libraries in another thread would stall this one.
        """
        left = memoryview(content)
        for offset, length in room:
            self._ram.write(offset, left[:length])
            left = left[length:]
        self._agent.sendall(b"\n")
        control = self._monitor()
        # Before the guest runs, so that the byte arrives at the same moment of its clock each time.
        while _waits_to_be_read(self._agent):
            control.ping()
        with suppress(
            MonitorEndedError
        ):  # it ended before QEMU could answer: the agent's messages are still to be read
            control.cont()
        meanwhile()
        self._listen("end")
        return self.outcome

    def _monitor(self) -> Monitor:
        if not hasattr(self, "_control"):
            deadline = self._started + self._limits.deadline_s
            self._control = Monitor(self._connection, deadline, self._limits.stop)
        return self._control

    def _listen(self, until: str, poll: Callable[[], None] = lambda: None) -> Message:
        """Read until a message of that type. The end of the console's output is kept in `log`."""
        with selectors.DefaultSelector() as selector:
            for channel in (self._console, self._agent):
                selector.register(channel, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select(_LOOK_S):
                    data = _receive(key.fileobj)  # type: ignore[arg-type]
                    if not data:
                        selector.unregister(key.fileobj)
                    elif key.fileobj is self._console:
                        self.log += data
                        del self.log[:-_CONSOLE_KEPT]
                    elif last := self._take_in(data, until):
                        return last
                poll()
                if self._limits.stop.is_set():
                    raise StoppedError
                if not selector.get_map():
                    raise MonitorEndedError
                if time.monotonic() - self._started > self._limits.deadline_s:
                    deadline = f"its deadline of {self._limits.deadline_s:.0f} s"
                    raise MachineError(f"the machine was still {self.outcome.stage} after {deadline}")

    def _take_in(self, data: bytes, until: str) -> Message | None:
        for message in self._decoder.feed(data):
            self.outcome.damaged = self._decoder.damaged
            self.outcome.receive(message, time.monotonic() - self._started)
            self._limits.on_stage(self.outcome.stage)
            if message.type == until:
                return message
        return None


@contextmanager
def started(
    command: Callable[[Channels], Sequence[str]], ram: GuestRam, limits: RunLimits, *, resumes: bool = False
) -> Iterator[Guest]:
    """Start QEMU; `command` is called with the descriptors that QEMU inherits.

    Its errors are raised as MachineError with the console's tail.
    """
    with ExitStack() as stack:
        stderr = stack.enter_context(tempfile.TemporaryFile())
        state = os.fdopen(monitor.state_file(), "rb")
        stack.enter_context(state)
        console, agent, control = (_pair(stack) for _ in range(3))
        with console.theirs, agent.theirs, control.theirs:
            fds = [end.theirs.fileno() for end in (console, agent, control)]
            words = command(Channels(fds[0], fds[1], fds[2], resumes))
            process = subprocess.Popen(
                [*dying_with(os.getpid()), *words],
                stdin=subprocess.DEVNULL,
                stdout=stderr,
                stderr=stderr,
                pass_fds=[*fds, ram.fd, state.fileno()],
                start_new_session=True,  # a Ctrl-C is for this process only
            )
        running = stack.enter_context(ExitStack())
        running.callback(_end, process)
        guest = Guest(console.ours, agent.ours, control.ours, state.fileno(), ram, limits, process.pid)
        try:
            yield guest
            if ram.is_private:
                process.send_signal(signal.SIGSTOP)
                if process.returncode is None:  # it has not ended before
                    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
                ram.outlives(running.pop_all().close)
        except (MonitorEndedError, GoneError):
            process.wait()
            log, stage = bytes(guest.log), guest.outcome.stage
            if process.returncode < 0:  # whatever the kernel may have printed before: it did not end itself
                reason = _why_it_ended(words[0], stage, stderr, process.returncode)
                raise MachineError(reason, _tail(log)) from None
            if line := _out_of_memory(log):
                reason = f"the machine ran out of memory while {stage}: {line}: give it more (--memory MIB)"
                raise MachineError(reason, _tail(log)) from None
            if crash := next(_crashes(log), ""):
                raise KernelCrashError(f"the kernel crashed while {stage}: {crash}", _tail(log)) from None
            reason = _why_it_ended(words[0], stage, stderr, process.returncode)
            raise MachineError(reason, _tail(log)) from None
        except MachineError as error:
            # What a program printed says more of its failure than the console does.
            raise MachineError(error.reason, error.console_tail or _tail(bytes(guest.log))) from None
        except RefusedError as error:
            raise MachineError(str(error), _tail(bytes(guest.log))) from None


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


@dataclass(frozen=True)
class _Pair:
    ours: socket.socket
    theirs: socket.socket


_SO_SNDBUFFORCE = 32  # asm-generic/socket.h
_ROOM_BYTES = 16 << 20


def _enlarge(channel: socket.socket) -> None:
    """Give what a guest writes more room.

    QEMU sends each byte alone, and each takes almost a KiB of the socket's buffer: by default there is room
    for less than 300. A guest that wrote more before this process read it would wait, for as long as a busy
    host takes: then its clock would not follow its instructions alone.
    """
    with suppress(PermissionError):
        channel.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, _ROOM_BYTES)
        return
    channel.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _ROOM_BYTES)  # as much as everybody may have


def _pair(stack: ExitStack) -> _Pair:
    ours, theirs = socket.socketpair()
    _enlarge(theirs)
    return _Pair(stack.enter_context(ours), stack.enter_context(theirs))


def _waits_to_be_read(channel: socket.socket) -> bool:
    """Whether bytes that were sent have not been received yet."""
    return any(fcntl.ioctl(channel, termios.TIOCOUTQ, bytes(4)))


def _receive(channel: socket.socket) -> bytes:
    try:
        return channel.recv(1 << 16)
    except ConnectionResetError:
        return b""


_BUGS = ("Oops", "BUG:")
_LOCKUP = re.compile(r"BUG: (soft|workqueue) lockup")  # which a machine on a busy host prints, and survives


def _crashes(log: bytes) -> Iterator[str]:
    """What the kernel printed when it crashed.

    The first line is the cause: an oops ends in a panic that says no more than "Fatal exception".
    """
    return _lines_with(log, "Kernel panic", *_BUGS)


def _out_of_memory(log: bytes) -> str:
    """What the kernel printed when it ran out of memory, unless it also hit a bug.

    The panic that follows is not a kernel bug: without memory it can only stop, or kill its PID 1.
    """
    return "" if any(_lines_with(log, *_BUGS)) else next(_lines_with(log, "Out of memory"), "")


def _lines_with(log: bytes, *signs: str) -> Iterator[str]:
    for line in _shown(log).splitlines():
        if any(sign in line for sign in signs) and not _LOCKUP.search(line):
            yield line.split("] ", 1)[-1].strip()


def _why_it_ended(program: str, stage: str, stderr: IO[bytes], status: int) -> str:
    qemu = Path(program).name
    stderr.seek(0)
    complaint = stderr.read().decode(errors="replace").strip().splitlines()
    if status < 0 and not complaint:
        advice = ": is this host out of memory?" if -status == signal.SIGKILL else ""
        return f"{qemu} was ended by signal {-status} while {stage}{advice}"
    if status or complaint:
        said = complaint[-1] if complaint else "it printed nothing"
        return f"{qemu} ended with status {status} while {stage}: {said}"
    return f"the machine stopped while {stage}, without a reason"


def _tail(console: bytes) -> str:
    return "\n".join(_shown(console).splitlines()[-_CONSOLE_TAIL:])


def _shown(console: bytes) -> str:
    return sanitize(console.decode(errors="replace").replace("\r", ""))
