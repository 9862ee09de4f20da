"""Programs that bigiron starts, and that must not outlive it."""

from typing import Literal


def dying_with(parent: int, signal: Literal["KILL", "TERM"] = "KILL") -> list[str]:
    """What is put before a command so that the kernel ends it when its parent dies, however it dies.

    The shell looks whether the parent died before the kernel was told, which nobody would notice. TERM is for
    a program that ends its own children then.
    """
    still_there = '[ "$PPID" = "$1" ] && shift && exec "$@"'
    return ["setpriv", "--pdeathsig", signal, "sh", "-c", still_there, "sh", str(parent)]
