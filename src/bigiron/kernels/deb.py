"""The kernel image or source inside a Debian package, taken out without unpacking anything else."""

import re
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import IO, cast

from bigiron.errors import UserError
from bigiron.util.subprocesses import last_line

# Debian: /boot up to 6.18, then /usr/lib/modules (packages linux-binary-*). Fedora, Arch and openSUSE: there
# or in /lib/modules; openSUSE has a vmlinux-*.gz in /boot. On arm64 openSUSE's and Arch's are called Image.
# Never a debug package's usr/lib/debug.
IMAGE = re.compile(
    r"(\./)?(boot/(vmlinu[xz]-[^/]+|Image(-[^/]+)?)(?<!\.[gx]z)|(usr/)?lib/modules/[^/]+/(vmlinu[xz]|Image))"
)
_SOURCE = re.compile(r"(\./)?usr/src/linux-source-[^/]+\.tar\.xz")
FILE_LIMIT = 64 << 20  # bytes of a module
FILES_LIMIT = 1 << 30  # bytes of all that are taken together: they are kept in memory
_NO_REASON = "dpkg-deb could not read it"
_LIMIT = 2 << 30  # bytes: a package that unpacks to more than this is an attack or a mistake


def read_version(deb: Path) -> str:
    """A package's version."""
    done = subprocess.run(
        [_dpkg_deb(), "--field", "--", deb, "Version"],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    version = done.stdout.strip()
    if done.returncode or not version:
        raise UserError(
            f"{deb} is not a complete Debian package: {last_line(done.stderr, _NO_REASON)}; copy it again"
        )
    return version


def extract_image(deb: Path, to: Path) -> None:
    """Write the package's kernel image, and nothing else of it, to the file `to`."""
    _extract(deb, IMAGE, "kernel image", to, "give a linux-image or linux-binary package")


def extract_source(deb: Path, to: Path) -> None:
    """Write the package's archive of the kernel's source, and nothing else of it, to the file `to`."""
    _extract(deb, _SOURCE, "kernel source", to, "give a linux-source package")


def _extract(deb: Path, wanted: re.Pattern[str], what: str, to: Path, advice: str) -> None:
    """The archive is only read: whatever links, device nodes or `../` paths it holds, no path of its choosing
    is ever opened. Only a regular file is taken.
    """
    with (
        tempfile.TemporaryFile() as stderr,
        subprocess.Popen(
            [_dpkg_deb(), "--fsys-tarfile", "--", deb], stdout=subprocess.PIPE, stderr=stderr
        ) as unpack,
    ):
        stream = cast(IO[bytes], unpack.stdout)
        try:
            found = _copy(stream, wanted, what, to)
        except tarfile.TarError:
            found = False
        # What follows it (hundreds of megabytes of modules) is not needed: with the pipe closed,
        # dpkg-deb and the decompressor that it forked both end.
        stream.close()
        unpack.wait()
        stderr.seek(0)
        complaint = stderr.read().decode(errors="replace")
    if not found:
        why = f" ({last_line(complaint, _NO_REASON)})" if complaint else ""
        raise UserError(f"{deb} holds no complete {what}{why}: {advice}")


def files(deb: Path, wanted: re.Pattern[str]) -> list[tuple[str, bytes]]:
    """The path and content of each regular file of the package whose path is wanted. Nothing is written."""
    found: list[tuple[str, bytes]] = []
    left = FILES_LIMIT
    with tempfile.TemporaryFile() as stderr:
        with subprocess.Popen(
            [_dpkg_deb(), "--fsys-tarfile", "--", deb], stdout=subprocess.PIPE, stderr=stderr
        ) as unpack:
            try:
                with tarfile.open(fileobj=cast(IO[bytes], unpack.stdout), mode="r|") as archive:
                    for member in archive:
                        if member.isreg() and member.size <= FILE_LIMIT and wanted.fullmatch(member.name):
                            left -= member.size
                            check_total(deb, left)
                            found.append((member.name, cast(IO[bytes], archive.extractfile(member)).read()))
            except tarfile.TarError as error:
                stderr.write(str(error).encode())
            finally:
                cast(IO[bytes], unpack.stdout).close()
        stderr.seek(0)
        complaint = stderr.read().decode(errors="replace")
    if complaint:
        raise UserError(
            f"{deb} is not a complete Debian package: {last_line(complaint, _NO_REASON)}; copy it again"
        )
    return found


def check_total(package: Path, left: int) -> None:
    """Raise UserError for a package of whose modules no more may be kept in memory."""
    if left < 0:
        raise UserError(f"the modules of {package} have more than {FILES_LIMIT >> 20} MiB: not a kernel's")


def check_size(path: str, size: int, what: str) -> None:
    """Raise UserError for a file of a package that claims to have more bytes than any kernel."""
    if size > _LIMIT:
        raise UserError(f"the {what} {path} claims {size} bytes: not a kernel")


def _copy(stream: IO[bytes], wanted: re.Pattern[str], what: str, to: Path) -> bool:
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            if not (wanted.fullmatch(member.name) and member.isreg()):
                continue
            check_size(member.name, member.size, what)
            data = archive.extractfile(member)
            assert data is not None  # a regular file has data
            with to.open("wb") as out:
                shutil.copyfileobj(data, out, 1 << 20)
            return True
    return False


def _dpkg_deb() -> str:
    tool = shutil.which("dpkg-deb")
    if tool is None:
        raise UserError("dpkg-deb is not installed: install the package dpkg to open Debian's packages")
    return tool
