"""A profile for `go tool pprof` and all that read its format: gzipped protocol buffers.

The messages are those of https://github.com/google/pprof/blob/main/proto/profile.proto, without what bigiron
has nothing to say about. Numbers that stand for text are places in the profile's table of strings.
"""

import gzip
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated

from pure_protobuf.annotations import Field, uint
from pure_protobuf.message import BaseMessage

from bigiron.results.stacks import SCALE, StackComparison


@dataclass
class ValueType(BaseMessage):
    """What a sample's value counts, and in which unit."""

    type: Annotated[uint, Field(1)]
    unit: Annotated[uint, Field(2)]


@dataclass
class Sample(BaseMessage):
    """A stack, the leaf first, and its weights."""

    location_id: Annotated[list[uint], Field(1)]
    value: Annotated[list[uint], Field(2)]


@dataclass
class Line(BaseMessage):
    """A place in a function."""

    function_id: Annotated[uint, Field(1)]


@dataclass
class Location(BaseMessage):
    """A frame."""

    id: Annotated[uint, Field(1)]
    line: Annotated[list[Line], Field(4)]


@dataclass
class Function(BaseMessage):
    """A function, or the object that is a stack's leaf.

    It has no `system_name`: were both the same, pprof would take the name for C++ and cut what looks like
    arguments.
    """

    id: Annotated[uint, Field(1)]
    name: Annotated[uint, Field(2)]


@dataclass
class Profile(BaseMessage):
    """The whole file."""

    sample_type: Annotated[list[ValueType], Field(1)]
    sample: Annotated[list[Sample], Field(2)]
    time_nanos: Annotated[uint, Field(9)]
    comment: Annotated[list[uint], Field(13)]
    default_sample_type: Annotated[uint, Field(14)]
    location: Annotated[list[Location], Field(4)] = field(default_factory=list)
    function: Annotated[list[Function], Field(5)] = field(default_factory=list)
    string_table: Annotated[list[str], Field(6)] = field(default_factory=list)


class _Numbers(dict[str, uint]):
    """A number for each text, in the order in which they are first asked for."""

    def __missing__(self, text: str) -> uint:
        return self.setdefault(text, uint(len(self)))


def encode(stacks: StackComparison) -> bytes:
    """All weights; pprof shows the first unless -sample_index names another."""
    strings, frames = _Numbers({"": uint(0)}), _Numbers({"": uint(0)})  # 0 is no text, and no frame
    profile = Profile(
        sample_type=[ValueType(strings[weight], strings["count"]) for weight in stacks.weights],
        sample=[
            Sample([frames[name] for name in reversed(names)], [uint(value) for value in values])
            for names, values in stacks
            if any(values)
        ],
        time_nanos=uint(int(datetime.fromisoformat(stacks.started).timestamp()) * 10**9),
        comment=[strings[stacks.title], strings[f"weights are per {SCALE} operations"]],
        default_sample_type=strings[stacks.weights[0]],
    )
    for name, number in list(frames.items())[1:]:
        profile.location.append(Location(number, [Line(number)]))
        profile.function.append(Function(number, strings[name]))
    profile.string_table = list(strings)
    return gzip.compress(bytes(profile), mtime=0)
