"""What the guest agent says: framed, checksummed messages (docs/protocol.md)."""

import json
import zlib
from dataclasses import dataclass
from typing import Any

PROTOCOL = 1
_START = b"@bigiron "
_LONGEST_HEADER = 64  # bytes: "@bigiron TYPE LENGTH CRC32\n"
_LONGEST_PAYLOAD = 16 << 20


@dataclass(frozen=True)
class Message:
    """One message: its type (`hello`, `stage`, `sample`, `error`, `end`) and what its JSON payload says."""

    type: str
    content: dict[str, Any]


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
        except ValueError:
            content = None
        if not isinstance(content, dict):
            self.damaged += 1
            return False
        return Message(name, content)

    def _skip(self) -> bool:
        self.damaged += 1
        self._pending = self._pending[len(_START) :]
        return False
