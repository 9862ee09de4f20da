"""Values of a type, out of bytes or of plain values; msgspec's errors for what is none.

msgspec (0.22) learns a type when it is first asked for one, and the process crashes where another thread asks
for the same meanwhile: a Struct is known before its fields are. So one thread at a time learns, and what is
decoded comes here.
"""

import threading
from typing import Any, TypeVar

import msgspec

_Kind = TypeVar("_Kind")

_learning = threading.Lock()
_learnt: set[Any] = set()


def convert(value: object, kind: type[_Kind]) -> _Kind:
    """Out of plain values."""
    return msgspec.convert(value, _known(kind))


def from_json(content: bytes | str, kind: type[_Kind]) -> _Kind:
    """Out of JSON."""
    return msgspec.json.decode(content, type=_known(kind))


def from_msgpack(content: bytes, kind: type[_Kind]) -> _Kind:
    """Out of MessagePack."""
    return msgspec.msgpack.decode(content, type=_known(kind))


def from_toml(content: bytes | str, kind: type[_Kind]) -> _Kind:
    """Out of TOML."""
    return msgspec.toml.decode(content, type=_known(kind))


def _known(kind: type[_Kind]) -> type[_Kind]:
    if kind not in _learnt:
        with _learning:
            msgspec.json.Decoder(kind)
            _learnt.add(kind)
    return kind
