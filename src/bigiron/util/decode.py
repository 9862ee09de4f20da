"""Decodes values of a type from bytes or plain values; raises msgspec's errors.

msgspec (0.22) analyses a type on first use, and the process crashes if another thread uses the same type
meanwhile: a Struct is registered before its fields are. So all decoding is done here, where one thread at a
time analyses types.
"""

import threading
from typing import Any, TypeVar

import msgspec

_Kind = TypeVar("_Kind")

_learning = threading.Lock()
_learnt: set[Any] = set()


def convert(value: object, kind: type[_Kind]) -> _Kind:
    """Decode plain values."""
    return msgspec.convert(value, _known(kind))


def from_json(content: bytes | str, kind: type[_Kind]) -> _Kind:
    """Decode JSON."""
    return msgspec.json.decode(content, type=_known(kind))


def from_msgpack(content: bytes, kind: type[_Kind]) -> _Kind:
    """Decode MessagePack."""
    return msgspec.msgpack.decode(content, type=_known(kind))


def from_toml(content: bytes | str, kind: type[_Kind]) -> _Kind:
    """Decode TOML."""
    return msgspec.toml.decode(content, type=_known(kind))


def _known(kind: type[_Kind]) -> type[_Kind]:
    if kind not in _learnt:
        with _learning:
            msgspec.json.Decoder(kind)
            _learnt.add(kind)
    return kind
