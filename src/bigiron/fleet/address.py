"""Where a fleet is: `local:N`, or its scheduler's address."""

import ipaddress
import re
from dataclasses import dataclass
from pathlib import Path

from bigiron.errors import UserError

_LOCAL = re.compile(r"local:([0-9]{1,4})")
_REMOTE = re.compile(r"(tls|tcp)://(\[[0-9a-fA-F:]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")


@dataclass(frozen=True)
class Address:
    """A scheduler's. Unencrypted is only what stays on this machine."""

    protocol: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.protocol}://{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether it is reached from this machine alone."""
        try:
            return ipaddress.ip_address(self.host.strip("[]")).is_loopback
        except ValueError:
            return self.host == "localhost"

    def refuse_unencrypted(self, certificates: Path | None) -> None:
        """UserError without TLS beyond this machine, and where certificates do not fit."""
        if self.protocol == "tcp" and not self.is_loopback:
            raise UserError(
                f"{self} is not encrypted: any host that reaches a worker can run programs there; use tls:// "
                "and --certificates DIR (`bigiron fleet init DIR`)"
            )
        if self.protocol == "tls" and not certificates:
            raise UserError(f"no certificates for {self}: give --certificates DIR (`bigiron fleet init DIR`)")
        if self.protocol == "tcp" and certificates:
            raise UserError(f"{self} uses no certificates: use tls://, or leave out --certificates")


def parse(text: str) -> Address:
    """A scheduler's address.

    >>> parse("tls://build1:8786")
    Address(protocol='tls', host='build1', port=8786)
    """
    found = _REMOTE.fullmatch(text)
    if not found or int(found[3]) > 65535:
        raise UserError(f"{text!r} is not the address of a scheduler: use tls://HOST:PORT")
    return Address(found[1], found[2], int(found[3]))


def workers_here(text: str) -> int:
    """How many workers `local:N` asks for; 0 where it is another address.

    >>> workers_here("local:2"), workers_here("tls://build1:8786")
    (2, 0)
    """
    found = _LOCAL.fullmatch(text)
    if found and int(found[1]) == 0:
        raise UserError("--fleet local:0: use at least one worker")
    if not found and not _REMOTE.fullmatch(text):
        raise UserError(f"--fleet {text!r}: use local:N for N workers here, or tls://HOST:PORT")
    return int(found[1]) if found else 0
