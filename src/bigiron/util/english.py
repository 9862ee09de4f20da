# SPDX-License-Identifier: GPL-2.0-or-later
"""Lists, plurals and sizes in English."""

from collections.abc import Sequence


def plural(number: int, thing: str) -> str:
    """A number and a noun, in the plural where English has it.

    >>> plural(1, "CPU"), plural(8, "CPU"), plural(0, "task")
    ('1 CPU', '8 CPUs', '0 tasks')
    """
    return f"{number} {thing}{'' if number == 1 else 's'}"


def cpus_and_tasks(cpus: int, tasks: int | None) -> str:
    """The size of a machine, and what runs there if that is known.

    >>> cpus_and_tasks(8, 1), cpus_and_tasks(8, None)
    ('8 CPUs, 1 task', '8 CPUs')
    """
    return plural(cpus, "CPU") if tasks is None else f"{plural(cpus, 'CPU')}, {plural(tasks, 'task')}"


def join_and(names: Sequence[str]) -> str:
    """Names joined with commas and "and".

    >>> join_and(["fput", "iput", "dput"]), join_and(["fput"]), join_and([])
    ('fput, iput and dput', 'fput', '')
    """
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)


def shortened(text: str, most: int) -> str:
    """A text that has at most so many characters.

    >>> shortened("super_block", 11), shortened("super_block", 6)
    ('super_block', 'super…')
    """
    return text if len(text) <= most else f"{text[: most - 1]}…"


def first_n(names: Sequence[str], most: int) -> str:
    """The first names, and how many more there are.

    >>> first_n(["fput", "iput", "dput"], 2)
    'fput, iput and 1 more'
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
