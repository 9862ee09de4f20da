# SPDX-License-Identifier: GPL-2.0-or-later
"""A number of things, in words."""

from collections.abc import Sequence


def counted(number: int, thing: str) -> str:
    """As English counts.

    >>> counted(1, "CPU"), counted(8, "CPU"), counted(0, "task")
    ('1 CPU', '8 CPUs', '0 tasks')
    """
    return f"{number} {thing}{'' if number == 1 else 's'}"


def listed(names: Sequence[str]) -> str:
    """All of several names.

    >>> listed(["fput", "iput", "dput"]), listed(["fput"]), listed([])
    ('fput, iput and dput', 'fput', '')
    """
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)


def some(names: Sequence[str], most: int) -> str:
    """The first of several names, and how many more there are.

    >>> some(["fput", "iput", "dput"], 2)
    'fput, iput and 1 more'
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
