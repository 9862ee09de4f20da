"""Whether an rpm is what a distribution signed, by rpm's own rpmkeys(8) with one key and nothing else.

The signature is in the package and covers its header, which has the payload's checksum. rpmkeys verifies both
as `rpm` and `dnf` do on installation. gpgv(1) and sqv(1) know no rpm: the header, the signature and the
payload's checksum would have to be found and compared here.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from bigiron.errors import UserError
from bigiron.kernels.archives.archive import UntrustedError
from bigiron.util import distribution
from bigiron.util.subprocesses import last_line

_NO_REASON = "rpmkeys does not say why"
_QUERY = "%{NAME}-%{VERSION}-%{RELEASE}.%{ARCH}"


def verify(file: Path, name: str, owner: str, key: Path) -> None:
    """Raise UntrustedError unless a package is signed with a key, and called NAME-VERSION-RELEASE.ARCH."""
    with tempfile.TemporaryDirectory(prefix="bigiron-") as home:
        imported = _run(home, "rpmkeys", "--import", str(key))
        if imported.returncode:
            raise UserError(f"{owner}'s key {key} cannot be read: {last_line(imported.stderr, _NO_REASON)}")
        # By default an unsigned package passes: rpm-software-management/rpm#1630.
        checked = _run(home, "rpmkeys", "--define=_pkgverify_level all", "--checksig", "--", str(file))
        if checked.returncode:
            why = last_line(checked.stdout + checked.stderr, _NO_REASON).rpartition(f"{file.name}: ")[2]
            raise UntrustedError(f"{name} is not signed with {owner}'s key {key}: {why}")
        found = _run(home, "rpm", "--query", f"--queryformat={_QUERY}", "--package", "--", str(file)).stdout
    if found != name:
        raise UntrustedError(f"{name} is another package: {found[:100]!r}")


def check() -> None:
    """Raise UserError if there is no rpm on this machine."""
    if not all(shutil.which(program) for program in ("rpm", "rpmkeys")):
        raise UserError(f"no rpmkeys on PATH, which verifies packages: {distribution.install('rpm')}")


def _run(home: str, program: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Without the user's macros, which could switch the verification off, and with a database of its own."""
    return subprocess.run(
        [program, f"--define=_dbpath {home}/db", *arguments],
        env={**os.environ, "HOME": home, "XDG_CONFIG_HOME": home, "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
