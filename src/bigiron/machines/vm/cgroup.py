"""The control group (v2) that a workload's tasks run in, in virtual machines.

A kernel charges nothing to tasks in the root group, and no server runs its tasks there: a session, a service
and a container are each in a group of their own, two levels or more below it.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bigiron.errors import UserError

MOST_DEPTH = 8
_DEPTH = 2
_NONE = "none"
_ROOT = "/sys/fs/cgroup"

_SIZE = r"max|\d+[KMGT]?"
_LIMITS: Mapping[str, tuple[str, str]] = {
    "memory.max": (_SIZE, "bytes, such as 512M or 2G, or max"),
    "memory.high": (_SIZE, "bytes, such as 512M or 2G, or max"),
    "cpu.max": (r"(max|\d+)( \d+)?", "microseconds in each period of 100 ms, or both: '50000 100000'"),
    "cpu.weight": (r"\d+", "a number from 1 to 10000"),
}
"""Files of the innermost group that can be written: what a value is, and how that is said."""


@dataclass(frozen=True)
class Cgroup:
    """A group so many levels below the root, which is 0, and its limits.

    >>> Cgroup().path, Cgroup(depth=3).path
    ('system.slice/bigiron.service', 'system.slice/system-bigiron.slice/bigiron.service')
    """

    depth: int = _DEPTH
    limits: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        """As it is asked for; nothing for the group that tasks run in by default."""
        if not self.depth:
            return _NONE
        depth = [] if self.depth == _DEPTH else [f"depth={self.depth}"]
        return ",".join([*depth, *(f"{file}={value}" for file, value in self.limits)])

    @property
    def path(self) -> str:
        """Below the root, as systemd calls a service's group and the slices above it."""
        slices = [f"system{'-bigiron' * level}.slice" for level in range(self.depth - 1)]
        return "/".join([*slices, "bigiron.service"]) if self.depth else ""

    @property
    def job(self) -> list[str]:
        """What the agent is to do (docs/contributing/protocol.md)."""
        if not self.depth:
            return []
        limits = (f"set {_ROOT}/{self.path}/{file}={value}" for file, value in self.limits)
        return [f"cgroup {self.path}", *limits]

    @property
    def environment(self) -> str:
        """What a cell's record says of it: in full, as the default may become another.

        >>> Cgroup(limits=(("memory.max", "1G"),)).environment
        'depth=2,memory.max=1G'
        """
        return str(self) if self.depth != _DEPTH else ",".join(filter(None, [f"depth={_DEPTH}", str(self)]))


OF_A_SERVICE = Cgroup()
"""Where tasks run by default."""


def parse(text: str) -> Cgroup:
    """Read `none`, or `depth=3,memory.max=1G`, any of them; UserError for what is neither.

    >>> parse("depth=3, memory.max=1G")
    Cgroup(depth=3, limits=(('memory.max', '1G'),))
    >>> parse("none"), str(parse("depth=2"))
    (Cgroup(depth=0, limits=()), '')
    >>> parse("memory.max=lots")
    Traceback (most recent call last):
    bigiron.errors.UserError: cgroup: memory.max=lots: use bytes, such as 512M or 2G, or max
    >>> parse("pids.max=5")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    bigiron.errors.UserError: cgroup: pids.max=5: use none, depth, memory.max, memory.high, ...
    """
    if text == _NONE:
        return Cgroup(0)
    given = dict(_read(text))
    depth = int(given.pop("depth", _DEPTH))
    return Cgroup(depth, tuple(sorted(given.items())))


def _read(text: str) -> Iterator[tuple[str, str]]:
    known = {"depth": (f"[1-{MOST_DEPTH}]", f"a number of levels from 1 to {MOST_DEPTH}"), **_LIMITS}
    seen: set[str] = set()
    for part in filter(None, map(str.strip, text.split(","))):
        name, _, value = part.partition("=")
        if name not in known:
            raise UserError(f"cgroup: {part}: use {', '.join([_NONE, *known])}")
        values, meaning = known[name]
        if not re.fullmatch(values, value, re.ASCII):
            raise UserError(f"cgroup: {part}: use {meaning}")
        if name in seen:
            raise UserError(f"cgroup: {name} is given twice")
        seen.add(name)
        yield name, value


def lacking(environment: Mapping[str, object]) -> str:
    """What a kernel lacks of the group's controllers, as a cell's record has it; "" where it has them.

    >>> lacking({"cgroup_absent": ["memory"]})
    'the kernel has no memory controller for control groups: the tasks are not charged for it'
    """
    absent = environment.get("cgroup_absent")
    if not isinstance(absent, list) or not absent:
        return ""
    which = " and no ".join(f"{name} controller" for name in map(str, absent))
    return f"the kernel has no {which} for control groups: the tasks are not charged for it"
