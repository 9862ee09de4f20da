"""Starts programs so that they do not outlive bigiron."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import IO, Literal

_GROUP = """trap 'trap "" TERM; kill -TERM 0; wait' TERM
"$@" &
wait $!
status=$?
trap "" TERM
kill -TERM 0
exit $status"""
"""A shell's: on TERM it ends the group that it leads, and waits, as who is ended tidies up first.

So it does with what a command leaves behind that has itself been ended.
"""


def dying_with(parent: int, signal: Literal["KILL", "TERM"] = "KILL") -> list[str]:
    """The prefix of a command that the kernel ends when its parent dies, for whatever reason.

    The shell checks whether the parent died before the kernel was told, which would go unnoticed. TERM is for
    a program that ends its own children then.
    """
    still_there = '[ "$PPID" = "$1" ] && shift && exec "$@"'
    return ["setpriv", "--pdeathsig", signal, "sh", "-c", still_there, "sh", str(parent)]


def bigiron_itself(
    *command: str, module: str = "bigiron", signal: Literal["KILL", "TERM"] = "KILL"
) -> list[str]:
    """The command that starts this bigiron, or a module of it, in a process that ends with this one."""
    # -P: nothing is imported of the folder that we are in.
    return [*dying_with(os.getpid(), signal), sys.executable, "-P", "-m", module, *command]


def run_with_all_it_starts(
    command: Sequence[str], output: IO[str], environment: Mapping[str, str], inherited: int
) -> int:
    """Run a command of which no descendant outlives this process; returns the exit status.

    `inherited`: a file that all of them have open, so that a lock on it is held until the last one ended.
    """
    process = subprocess.Popen(
        [*dying_with(os.getpid(), "TERM"), "sh", "-c", _GROUP, "sh", *command],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env=environment,
        pass_fds=(inherited,),
        start_new_session=True,
    )
    try:
        return process.wait()
    finally:
        process.terminate()
        process.wait()
