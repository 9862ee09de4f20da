"""The memory that this process, and the machines that it starts, may use."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_OWN = Path("/proc/self/cgroup")
_TOP = Path("/sys/fs/cgroup")


def physical_mib() -> int:
    """The memory of this host."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20


def host_mib(own: Path = _OWN, top: Path = _TOP) -> int:
    """The memory of this host, or the least limit of its control groups: a container has such a limit."""
    return min([physical_mib(), *(limit >> 20 for limit in _limits(own, top))])


def _limits(own: Path, top: Path) -> Iterator[int]:
    """The limits of all groups that the process is in, in bytes: cgroups(7)."""
    try:
        lines = own.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        place, name = (top / "memory", "memory.limit_in_bytes") if controllers else (top, "memory.max")
        group = place / path.lstrip("/")  # a container may see its own group as the top
        for folder in (group, *group.parents):
            if folder.is_relative_to(place):
                with suppress(OSError, ValueError):  # ValueError: "max"
                    yield int((folder / name).read_text(encoding="ascii"))
