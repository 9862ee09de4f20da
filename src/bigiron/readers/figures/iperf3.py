"""iperf3's JSON."""

import msgspec

from bigiron.errors import UserError
from bigiron.readers.figure import Figure, Format, Reading, count, document, label, number
from bigiron.util import decode

_BLOCK = 128 << 10  # bytes; TCP's default, DEFAULT_TCP_BLKSIZE of iperf.h


class _Transfer(msgspec.Struct):
    bytes: int
    bits_per_second: float


class _Test(msgspec.Struct):
    protocol: str
    num_streams: int
    blksize: int = 0


class _Start(msgspec.Struct):
    version: str
    test_start: _Test


class _End(msgspec.Struct):
    sum_sent: _Transfer | None = None
    sum_received: _Transfer | None = None


class _Iperf3Output(msgspec.Struct):
    start: _Start
    end: _End


def _read(text: str) -> Reading:
    """What all streams together sent and received per second. An operation is a block, which it writes."""
    try:
        output = decode.convert(document(text), _Iperf3Output)
    except msgspec.ValidationError as error:
        raise UserError(f"this is not iperf3's JSON (--json): {error}") from None
    test = output.start.test_start
    name = label(test.protocol, None)
    tasks = count(str(test.num_streams), None, "streams")
    figures = []
    for what, total in (("sent", output.end.sum_sent), ("received", output.end.sum_received)):
        if total is not None:
            value = number(repr(total.bits_per_second), None, what)
            figures.append(Figure(f"{name}: {what}", "bits/s", "more", value, tasks))
    block = test.blksize or _BLOCK
    sent = output.end.sum_sent.bytes // block if output.end.sum_sent else 0
    about = {"iperf3": label(output.start.version, None)}
    return Reading(figures, about, operations=max(sent, 0), operation=f"block of {block:,} bytes")


FORMAT = Format("iperf3", "iperf3's JSON (--json)", _read)
