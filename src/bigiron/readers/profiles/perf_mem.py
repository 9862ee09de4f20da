"""What `perf script` prints of `perf mem record` or `perf c2c record`: loads and stores by address."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field

from bigiron.errors import UserError
from bigiron.readers.figure import Format, Reading, label
from bigiron.readers.profiles.profile import ProfileText, measured, without_quotes
from bigiron.util.measured import MeasuredPart, MeasuredThing, symbol

_MARK = re.compile(r"\|SNP [^|\n]*\|TLB ")
_SAMPLE = re.compile(r"(?:.*\s(\S+):\s+|.*\s)?([0-9a-f]{6,16})\s+([0-9a-f]+) \|?[^|]*\|.*?\|TLB (.*)")
_FUNCTION = r"(\S.*?)(?: \((?:[^()]*|\[[^\]]*\])\))?\s*$"
_AT = re.compile(rf".*?\s([0-9a-f]{{5,16}}) {_FUNCTION}")
_CHAIN = re.compile(rf"\s+([0-9a-f]+) {_FUNCTION}")
_PLACE = re.compile(r"(.+)\+0x([0-9a-f]+)")
_LINE_BYTES = 64
_OF_ARM = "memory"  # the event that a sample of SPE has once, besides one for each thing that happened to it

# Bits of the data source (include/uapi/linux/perf_event.h). The text beside it is cut where it is long.
_LOAD, _STORE = 1 << 1, 1 << 2
_HIT_OWN = (0x08 | 0x10) << 5  # the first level, or a line that was on its way
_FROM_ELSEWHERE = 0x10 << 19 | 2 << 38  # HitM, or a peer


@dataclass
class _MemorySample:
    """A load or a store, while its call chain is read."""

    event: str
    address: int
    source: int
    chain: list[tuple[int, str]] = field(default_factory=list)  # instruction and function, innermost first

    @property
    def transfers(self) -> float:
        """1 if another cache answered a load."""
        found = self.source & _LOAD and self.source & _FROM_ELSEWHERE and not self.source & _HIT_OWN
        return 1.0 if found else 0.0

    @property
    def stores(self) -> float:
        """1 of a store."""
        return 1.0 if self.source & _STORE else 0.0


def _read(text: str) -> Reading:
    """The cache lines of which another cache answered a load."""
    lines, samples = ProfileText(without_quotes(text)), list[_MemorySample]()
    for at, written in lines:
        found = _SAMPLE.match(written) if "|SNP " in written else None
        if found:
            samples.append(_MemorySample(found[1], int(found[2], 16), int(found[3], 16)))
        elif _MARK.search(written):
            raise UserError(
                f"line {at}: this sample has no address of data, or is cut off: print `perf script -F +addr`"
            )
        if place := _AT.match(found[4]) if found else _CHAIN.match(written):
            if samples:
                samples[-1].chain.append((int(place[1], 16), label(place[2], at)))
        elif not found:
            lines.skip(at, written)
    if not samples:
        raise UserError("there is no sample with a data source in it: record with `perf mem` or `perf c2c`")
    if any(sample.event == _OF_ARM for sample in samples):
        samples = [sample for sample in samples if sample.event == _OF_ARM]
    things = [thing for thing in _things(samples) if thing.weight]
    if not things:
        raise UserError(
            f"another cache answered no load of {len(samples)} samples (HitM, Peer): "
            "did several CPUs write the same data while `perf c2c record -a` ran?"
        )
    return Reading([], measured=measured("cache lines", "loads answered by another cache", things, lines))


def _things(samples: list[_MemorySample]) -> list[MeasuredThing]:
    """The cache lines, with a part for each instruction and byte."""
    by_line: dict[int, dict[tuple[int, int], list[_MemorySample]]] = defaultdict(lambda: defaultdict(list))
    for sample in samples:
        byte = sample.address % _LINE_BYTES
        instruction = sample.chain[0][0] if sample.chain else 0
        by_line[sample.address - byte][byte, instruction].append(sample)
    return [
        MeasuredThing(
            f"{line:#x}",
            sum(sample.transfers for part in parts.values() for sample in part),
            tuple(_part(byte, instruction, part) for (byte, instruction), part in parts.items()),
        )
        for line, parts in by_line.items()
    ]


def _part(byte: int, instruction: int, samples: list[_MemorySample]) -> MeasuredPart:
    names = [name for _, name in samples[0].chain] or ["[unknown]"]
    place = _PLACE.fullmatch(names[0])
    is_kernel = bool(instruction >> 63)
    return MeasuredPart(
        symbol(names[0]) if is_kernel else names[0].partition("+")[0],
        sum(sample.transfers for sample in samples),
        len(samples),
        sum(sample.stores for sample in samples),
        byte,
        f"{place[1]}+{int(place[2], 16)}" if place else "",
        tuple(filter(None, map(symbol, names[1:]))),
        is_kernel,
    )


FORMAT = Format(
    "perf-mem", "what `perf script` prints of `perf mem` or `perf c2c record`", _read, profile=_MARK
)
