"""What the guest agent says: framed, checksummed messages (docs/contributing/protocol.md)."""

import json
import zlib
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from bigiron.errors import MachineError
from bigiron.util import decode

PROTOCOL = 1
_START = b"@bigiron "
_LONGEST_HEADER = 64  # bytes: "@bigiron TYPE LENGTH CRC32\n"
_LONGEST_PAYLOAD = 16 << 20
_MOST_BYTES = 1 << 30  # of all payloads: they are kept in memory
_MOST_DAMAGED = 1000  # each may have cost the checksum of a long payload


@dataclass(frozen=True)
class Message:
    """One message: its type (`hello`, `stage`, `sample`, `error`, `end`) and what its JSON payload says."""

    type: str
    content: dict[str, Any]


class Room(msgspec.Struct, frozen=True):
    """A virtual machine waits for its agent."""

    protocol: int
    page_bytes: int
    runs: list[tuple[int, int]]


class Waiting(msgspec.Struct, frozen=True):
    """Another agent measures on this real machine; which process that is, 0: not known."""

    pid: int


class Remains(msgspec.Struct, frozen=True):
    """All is put back, though a process has outlived the agent; which one, 0: not known."""

    pid: int


class Hello(msgspec.Struct, frozen=True):
    """The agent has started."""

    protocol: int
    page_bytes: int
    release: str
    version: str
    security_modules: str = ""
    security_label: str = ""


class CgroupMade(msgspec.Struct, frozen=True):
    """The group that tasks run in: which controllers it has, and which the kernel lacks."""

    controllers: list[str]
    absent: list[str]


class Stage(msgspec.Struct, frozen=True):
    """What it is doing."""

    stage: str


class Error(msgspec.Struct, frozen=True):
    """Why it gives up."""

    kind: Literal["job", "setting", "workload", "machine"]
    text: str
    output: str = ""
    """The last lines of what the program printed that is to blame."""


class End(msgspec.Struct, frozen=True):
    """Its last word."""

    failed: bool


class RecordingEnded(msgspec.Struct, frozen=True):
    """The recording has ended, which took so long by the machine's clock."""

    nanoseconds: int


class FileLines(msgspec.Struct, frozen=True):
    """What a file holds."""

    path: str
    lines: list[str]
    more: bool = False


class Command(msgspec.Struct, frozen=True):
    """How an external command ended."""

    nanoseconds: int
    status: int
    signal: int


class CounterSample(msgspec.Struct, frozen=True):
    """The tasks' counters at a moment."""

    nanoseconds: int
    operations: list[int]


class OperationTimes(msgspec.Struct, frozen=True):
    """What one operation took."""

    operation: int
    state: str
    cpu: int | None
    nanoseconds: int
    system_ns: int
    voluntary: int
    involuntary: int
    grace_periods: int | None
    expedited: int | None


class Blocked(msgspec.Struct, frozen=True):
    """One task's times off the CPU at one place in one state."""

    task: str
    pid: int
    tgid: int
    state: str
    path: str
    user_path: str
    count: int
    total_ns: int
    max_ns: int
    histogram: list[int]


class Share(msgspec.Struct, frozen=True):
    """What one CPU spent on one thing."""

    cpu: int
    kind: str
    name: str
    ns: int
    times: int


class OnCpu(msgspec.Struct, frozen=True):
    """How often one task was found in one stack on one CPU."""

    cpu: int
    pid: int
    tgid: int
    kind: str
    task: str
    path: str
    user_path: str
    samples: int


class Functions(msgspec.Struct, frozen=True):
    """Of the trace that follows as a file."""

    roots: list[str]
    absent: list[str]
    lost_events: int
    cost_of_a_call_ns: int


class ProbeSummary(msgspec.Struct, frozen=True):
    """What holds for all of a probe's messages."""

    nanoseconds: int
    lost: int
    operations: list[int]


class SampledSummary(ProbeSummary, frozen=True):
    """The same, and what a sample stands for."""

    event: str
    period: int


class TestFailed(msgspec.Struct, frozen=True):
    """A call of a test that returned something else than it should."""

    test: int
    call: str
    expected: str
    result: str


class Lost(msgspec.Struct, frozen=True):
    """What it had to leave out, and how many of it."""

    what: str
    count: int


_PAYLOADS: dict[str, type[msgspec.Struct]] = {
    "room": Room,
    "waiting": Waiting,
    "remains": Remains,
    "hello": Hello,
    "cgroup": CgroupMade,
    "stage": Stage,
    "error": Error,
    "end": End,
    "recorded": RecordingEnded,
    "file": FileLines,
    "command": Command,
    "sample": CounterSample,
    "operation": OperationTimes,
    "blocked": Blocked,
    "blocked_summary": ProbeSummary,
    "share": Share,
    "efficiency_summary": ProbeSummary,
    "oncpu": OnCpu,
    "oncpu_summary": SampledSummary,
    "functions": Functions,
    "test_failed": TestFailed,
    "lost": Lost,
}


def check(message: Message) -> None:
    """MachineError if a message is not as docs/contributing/protocol.md has it: an agent may be damaged.

    >>> check(Message("stage", {"stage": "recording"}))
    >>> check(Message("stage", {"stage": 7}))
    Traceback (most recent call last):
    bigiron.errors.MachineError: cannot read the agent's message stage: stage: Expected `str`, got `int`
    """
    payload = _PAYLOADS.get(message.type)
    if payload is None:
        return  # of a probe that came later, and checks it itself
    try:
        decode.convert(message.content, payload)
    except msgspec.ValidationError as error:
        why, _, place = str(error).partition(" - at ")
        place = place.strip("`").removeprefix("$.")
        raise MachineError(
            f"cannot read the agent's message {message.type}: {f'{place}: ' if place else ''}{why}"
        ) from None


class Decoder:
    r"""Takes bytes as they come and gives whole messages; what is damaged is left out and counted.

    >>> decoder = Decoder()
    >>> decoder.feed(b'noise @bigiron end 16 eb8df71c\n{"failed":')
    []
    >>> decoder.feed(b'false}\n')
    [Message(type='end', content={'failed': False})]
    >>> decoder.damaged
    0
    """

    def __init__(self) -> None:
        self._pending = bytearray()
        self._at = 0  # up to where that has been read
        self._bytes = 0  # of all payloads
        self._needed = 0  # bytes without which there is no next message: a long one comes in very many pieces
        self.damaged = 0

    def feed(self, data: bytes) -> list[Message]:
        """The messages that `data` completes. MachineError if all are too long, or too many are damaged."""
        self._pending += data
        messages: list[Message] = []
        if len(self._pending) < self._needed:
            return messages
        while (found := self._next()) is not None:
            if isinstance(found, Message):
                messages.append(found)
        del self._pending[: self._at]
        self._at = 0
        return messages

    def _next(self) -> Message | bool | None:
        """A message; False where something damaged was skipped; None where more bytes are needed."""
        self._needed = 0
        start = self._pending.find(_START, self._at)
        if start < 0:
            self._at = max(self._at, len(self._pending) - len(_START))
            return None
        self._at = start
        newline = self._pending.find(b"\n", start, start + _LONGEST_HEADER)
        if newline < 0:
            return None if len(self._pending) - start < _LONGEST_HEADER else self._skip(len(_START))
        fields = self._pending[start + len(_START) : newline].split(b" ")
        try:
            name, length, checksum = fields[0].decode("ascii"), int(fields[1]), int(fields[2], 16)
        except (ValueError, IndexError):
            return self._skip(len(_START))
        if not 0 <= length <= _LONGEST_PAYLOAD:
            return self._skip(len(_START))
        begin, end = newline + 1, newline + 1 + length
        if len(self._pending) <= end:
            self._needed = end + 1 - start
            return None
        with memoryview(self._pending) as pending:
            if zlib.crc32(pending[begin:end]) != checksum:
                return self._skip(len(_START))
        content = _content(bytes(self._pending[begin:end]))
        if content is None:
            return self._skip(end + 1 - start)
        self._at = end + 1
        self._bytes += length
        if self._bytes > _MOST_BYTES:
            raise MachineError(f"the agent's messages are longer than {_MOST_BYTES >> 20} MiB")
        return Message(name, content)

    def _skip(self, length: int) -> bool:
        self._at += length
        self.damaged += 1
        if self.damaged > _MOST_DAMAGED:
            raise MachineError(f"more than {_MOST_DAMAGED} of the agent's messages are damaged")
        return False


def _content(payload: bytes) -> dict[str, Any] | None:
    try:
        content = json.loads(payload)
        if b"\\ud" in payload.lower():  # half a character, perhaps, which cannot be written anywhere
            json.dumps(content, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None
