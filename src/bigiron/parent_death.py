"""Programs that bigiron starts, and that must not outlive it."""

import os
import sys
from typing import Literal


def dying_with(parent: int, signal: Literal["KILL", "TERM"] = "KILL") -> list[str]:
    """What is put before a command so that the kernel ends it when its parent dies, however it dies.

    The shell looks whether the parent died before the kernel was told, which nobody would notice. TERM is for
    a program that ends its own children then.
    """
    still_there = '[ "$PPID" = "$1" ] && shift && exec "$@"'
    return ["setpriv", "--pdeathsig", signal, "sh", "-c", still_there, "sh", str(parent)]


def bigiron_itself(*command: str, signal: Literal["KILL", "TERM"] = "KILL") -> list[str]:
    """What starts this bigiron once more, in a process that ends with this one."""
    # -P: nothing is imported of the folder that we are in.
    return [*dying_with(os.getpid(), signal), sys.executable, "-P", "-m", "bigiron", *command]
