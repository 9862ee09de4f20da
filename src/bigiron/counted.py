# SPDX-License-Identifier: GPL-2.0-or-later
"""A number of things, in words."""


def counted(number: int, thing: str) -> str:
    """As English counts.

    >>> counted(1, "CPU"), counted(8, "CPU"), counted(0, "task")
    ('1 CPU', '8 CPUs', '0 tasks')
    """
    return f"{number} {thing}{'' if number == 1 else 's'}"
