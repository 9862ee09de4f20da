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


class Recorded(msgspec.Struct, frozen=True):
    """The recording has ended, which took so long by the machine's clock."""

    nanoseconds: int


class File(msgspec.Struct, frozen=True):
    """What a file holds."""

    path: str
    lines: list[str]
    more: bool = False


class Command(msgspec.Struct, frozen=True):
    """How an external command ended."""

    nanoseconds: int
    status: int
    signal: int


class Sample(msgspec.Struct, frozen=True):
    """The tasks' counters at a moment."""

    nanoseconds: int
    operations: list[int]


class Operation(msgspec.Struct, frozen=True):
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


class Summary(msgspec.Struct, frozen=True):
    """What holds for all of a probe's messages."""

    nanoseconds: int
    lost: int
    operations: list[int]


class SampledSummary(Summary, frozen=True):
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
    "hello": Hello,
    "cgroup": CgroupMade,
    "stage": Stage,
    "error": Error,
    "end": End,
    "recorded": Recorded,
    "file": File,
    "command": Command,
    "sample": Sample,
    "operation": Operation,
    "blocked": Blocked,
    "blocked_summary": Summary,
    "share": Share,
    "efficiency_summary": Summary,
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
        self._needed = 0  # bytes without which there is no next message: a long one comes in very many pieces
        self.damaged = 0

    def feed(self, data: bytes) -> list[Message]:
        """The messages that `data` completes."""
        self._pending += data
        messages: list[Message] = []
        if len(self._pending) < self._needed:
            return messages
        while (found := self._next()) is not None:
            if isinstance(found, Message):
                messages.append(found)
        return messages

    def _next(self) -> Message | bool | None:
        """A message; False where something damaged was skipped; None where more bytes are needed."""
        self._needed = 0
        start = self._pending.find(_START)
        if start < 0:
            self._pending = self._pending[-len(_START) :]
            return None
        self._pending = self._pending[start:]
        header, newline, rest = self._pending.partition(b"\n")
        if not newline:
            return None if len(self._pending) < _LONGEST_HEADER else self._skip()
        fields = header[len(_START) :].split(b" ")
        try:
            name, length, checksum = fields[0].decode("ascii"), int(fields[1]), int(fields[2], 16)
        except (ValueError, IndexError):
            return self._skip()
        if not 0 <= length <= _LONGEST_PAYLOAD:
            return self._skip()
        if len(rest) <= length:
            self._needed = len(header) + len(newline) + length + 1
            return None
        payload = rest[:length]
        if zlib.crc32(payload) != checksum:
            return self._skip()
        self._pending = rest[length + 1 :]
        try:
            content = json.loads(payload)
            if b"\\ud" in payload.lower():  # half a character, perhaps, which cannot be written anywhere
                json.dumps(content, ensure_ascii=False).encode()
        except (ValueError, RecursionError):
            content = None
        if not isinstance(content, dict):
            self.damaged += 1
            return False
        return Message(name, content)

    def _skip(self) -> bool:
        self.damaged += 1
        self._pending = self._pending[len(_START) :]
        return False
