"""Another machine by ssh: the system's OpenSSH, with the user's own configuration, keys and known hosts."""

import os
import re
import shlex
from collections.abc import Sequence

from bigiron.errors import UserError

_ADDRESS = re.compile(r"ssh://([A-Za-z0-9_][\w.-]*@)?([A-Za-z0-9_][\w.-]*|\[[0-9A-Fa-f:.]+\])(:\d{1,5})?/?")
_FAILED = 255  # ssh's own exit status where it is not that of the remote command
_OPTIONS = (
    "-T",  # no terminal there
    "-a",  # nor the user's agent, nor X11
    "-x",
    "-oBatchMode=yes",  # fail rather than ask
    "-oClearAllForwardings=yes",
    "-oRemoteCommand=none",
    "-oServerAliveInterval=5",  # a machine that says nothing for 15 s is gone
    "-oServerAliveCountMax=3",
)


def check(address: str) -> None:
    """UserError where it is no address.

    >>> check("ssh://me@big-machine:2222")
    >>> check("ssh://-oProxyCommand=reboot")
    Traceback (most recent call last):
    bigiron.errors.UserError: machine 'ssh://-oProxyCommand=reboot': use ssh://USER@HOST or ssh://USER@HOST:PORT
    """
    if not _ADDRESS.fullmatch(address):
        raise UserError(f"machine {address!r}: use ssh://USER@HOST or ssh://USER@HOST:PORT")


def command(address: str, words: Sequence[str]) -> list[str]:
    """What to start here so that these words are started there.

    The environment variable BIGIRON_SSH has what to start instead of `ssh`, with its options.
    """
    check(address)
    # The remote user's shell, whichever that is, takes the line apart again.
    return [*_ours(), *_OPTIONS, "--", address, shlex.join(words)]


def program() -> str:
    """What must be on PATH."""
    return _ours()[0]


def _ours() -> list[str]:
    return shlex.split(os.environ.get("BIGIRON_SSH", "")) or ["ssh"]


def has_failed(status: int) -> bool:
    """Whether ssh ended for a reason of its own: the connection, not what ran there."""
    return status == _FAILED or status < 0


def advice(complaint: str) -> str:
    """What to do about what ssh says, where that is not plain."""
    if "Host key verification failed" in complaint:
        return " Connect once by hand, and check the host key"
    if "Permission denied" in complaint:
        return " It must accept a key, without asking for a password"
    return ""
