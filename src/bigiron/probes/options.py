"""The options of probes: each probe has its own, and a study holds those of all probes.

An option is a key of study.toml and, where its field is annotated so, an option of `bigiron run`. Invariant:
no two probes have an option of the same name (`probes.register` refuses it).
"""

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

import msgspec

from bigiron.errors import UserError
from bigiron.util import decode


class ProbeOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of one probe, all with a default."""

    WRONG_PROBE_MESSAGE: ClassVar[str] = "{options} is for the probe {probe}: add it with --probe"
    """The error where one of them is given but the probe is not recorded."""

    @property
    def given(self) -> dict[str, object]:
        """The options that differ from the default."""
        default = type(self)()
        return {
            name: getattr(self, name)
            for name in self.__struct_fields__
            if getattr(self, name) != getattr(default, name)
        }

    def check(self) -> None:
        """Raise UserError for values with which the probe cannot be recorded."""

    def refusal(self, probe: str) -> str:
        """`WRONG_PROBE_MESSAGE`, in full."""
        return self.WRONG_PROBE_MESSAGE.format(options=" and ".join(self.given), probe=probe)

    def environment(self) -> dict[str, object]:
        """The options as a cell's record holds them."""
        return {name: getattr(self, name) for name in self.__struct_fields__}


AnyOptions = TypeVar("AnyOptions", bound=ProbeOptions)


class AllProbeOptions:
    """The options of all probes; the defaults for a probe without given options.

    >>> class Depth(ProbeOptions, frozen=True):
    ...     depth: int = 2
    >>> AllProbeOptions()[Depth].depth, AllProbeOptions(Depth(depth=3))[Depth].depth
    (2, 3)
    """

    def __init__(self, *given: ProbeOptions) -> None:
        self._given = {type(one): one for one in given if one != type(one)()}

    def __getitem__(self, kind: type[AnyOptions]) -> AnyOptions:
        given = self._given.get(kind)
        return given if isinstance(given, kind) else kind()

    def __contains__(self, kind: type[ProbeOptions]) -> bool:
        """Whether any option differs from its default."""
        return kind in self._given

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AllProbeOptions) and self._given == other._given

    __hash__ = None  # type: ignore[assignment]  # as for any value that may hold a list

    def __repr__(self) -> str:
        return f"AllProbeOptions({', '.join(map(repr, self._given.values()))})"


def read_options(
    kinds: tuple[type[ProbeOptions], ...], document: Mapping[str, Any]
) -> tuple[AllProbeOptions, dict[str, Any]]:
    """Split a document into the options and the other keys; msgspec.ValidationError for a wrong type."""
    rest, given = dict(document), []
    for kind in kinds:
        there = {name: rest.pop(name) for name in kind.__struct_fields__ if name in rest}
        given.append(decode.convert(there, kind))
    return AllProbeOptions(*given), rest


def whole_number(what: str, number: int, most: int, least: int = 1) -> None:
    """Raise UserError unless a number is in its range."""
    if not least <= number <= most:
        raise UserError(f"{what} = {number}: use whole numbers from {least} to {most}")


def words(text: str) -> list[str]:
    """Split a text at commas."""
    return [word.strip() for word in text.split(",") if word.strip()]


def in_words(listed: list[str] | None) -> list[str] | None:
    """The words of an option that may be repeated and may hold several words each time."""
    return [word for text in listed for word in words(text)] if listed else listed
