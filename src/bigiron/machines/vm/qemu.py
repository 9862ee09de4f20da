"""The QEMU on this machine: whether it is new enough, and whether it was built with plugins."""

import mmap
import os
import re
import shutil
import struct
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from bigiron.architectures import architectures
from bigiron.errors import UserError
from bigiron.util import distribution
from bigiron.util.distribution import Distribution

OLDEST = 10
"""QEMU 7.2 crashed kernel 6.12 in four of ten boots, with and without a plugin; 10.0.2 in none."""
KNOWN = ((10, 0), (10, 1), (10, 2), (11, 1))
"""Whose plugin interfaces the recorder knows (plugin/qemu/qemu_api.h). 10.0 and 11.1 were tried."""

_WHEEL = "bigiron_qemu"  # tools/qemu_wheel.py makes it
_PACKAGES = {one.qemu: one.qemu_package for one in architectures()}


@dataclass(frozen=True)
class Qemu:
    """One QEMU binary, as it describes itself."""

    path: Path
    version: str  # "10.0.2", or "" where it did not say
    plugins: bool
    modules: bool = True  # whether it was built for modules, and exports what the recorder needs
    ends_time_slices: bool = (
        True  # whether the recorder can end a CPU's time slice after so many instructions
    )

    @property
    def fault(self) -> str:
        """Why bigiron cannot use it, or an empty string.

        >>> Qemu(Path("/usr/bin/qemu-system-x86_64"), "7.2.0", True).fault
        'is QEMU 7.2.0, and versions before 10 crash newer kernels'
        >>> Qemu(Path("/usr/bin/qemu-system-x86_64"), "11.2.0", True).fault
        'is QEMU 11.2.0, but the recorder needs 10.0 to 10.2 or 11.1'
        >>> Qemu(Path("/usr/bin/qemu-system-x86_64"), "10.0.2", True).fault
        ''
        """
        if not self.version:
            return "does not print its version"
        major, minor, *_ = [*map(int, self.version.split(".")), 0]
        if major < OLDEST:
            return f"is QEMU {self.version}, and versions before {OLDEST} crash newer kernels"
        if (major, minor) not in KNOWN:
            return f"is QEMU {self.version}, but the recorder needs {known_versions()}"
        if not self.plugins:
            return f"is QEMU {self.version} built without plugin support, which recording needs"
        if not self.modules:
            return f"is QEMU {self.version} built without --enable-modules, so that it exports too little"
        return ""


def known_versions() -> str:
    """The versions of QEMU that bigiron can use, in words.

    >>> known_versions()
    '10.0 to 10.2 or 11.1'
    """
    *first, last = ("{}.{}".format(*version) for version in KNOWN)
    return f"{first[0]} to {first[-1]} or {last}"


def find_qemu(binary: str) -> Qemu | None:
    """The QEMU called `binary` on PATH (or at that path) if it will do, or else the QEMU wheel's.

    If neither will do, the first of them that exists; None if there is none.
    """
    on_path = _at(shutil.which(binary))
    if on_path and not on_path.fault:
        return on_path
    in_wheel = _at(_in_wheel(binary))
    return in_wheel if in_wheel and not in_wheel.fault else on_path or in_wheel


def program(binary: str) -> str:
    """The path of the QEMU called `binary`, or its name where there is none."""
    qemu = find_qemu(binary)
    return str(qemu.path) if qemu else binary


def _at(path: str | None) -> Qemu | None:
    return _identify(path, Path(path).stat().st_mtime_ns) if path else None


def _in_wheel(binary: str) -> str | None:
    """The path of a program in the package bigiron_qemu, if that is installed. It is not imported."""
    package = find_spec(_WHEEL)
    folders = (package and package.submodule_search_locations) or ()
    return shutil.which(binary, path=os.pathsep.join(f"{folder}/bin" for folder in folders))


def require_qemu(binary: str) -> str:
    """The version of a QEMU that bigiron can use, e.g. "10.0.2"; UserError where there is none."""
    qemu = find_qemu(binary)
    if qemu is None:
        raise UserError(f"no {binary} on PATH: {how_to_get(binary)}")
    if qemu.fault:
        raise UserError(f"{qemu.path} {qemu.fault}: {how_to_get(binary, found=qemu)}")
    return qemu.version


def how_to_get(binary: str, system: Distribution | None = None, found: Qemu | None = None) -> str:
    """The command that installs a QEMU that bigiron can use, as a distribution has it; or what else to do.

    `found`: what is there already, and will not do.
    """
    system = system or distribution.here()
    package = _PACKAGES.get(Path(binary).name, Path(binary).name)
    if (system.id, system.codename) == ("debian", "bookworm"):
        return f"apt-get install -t bookworm-backports {package}"
    target = f"{Path(binary).name.removeprefix('qemu-system-')}-softmmu"
    versions = f"QEMU {known_versions()}"
    wheel = "install the wheel bigiron-qemu (make qemu-wheel), or " if _wheel_starts(system) else ""
    build = (
        f"{wheel}build {versions} from its source, and put it first on PATH: "
        f"./configure --target-list={target} --enable-plugins --enable-modules && make install"
    )
    if system.qemu:
        fault = Qemu(Path(binary), system.qemu, True).fault
        return f"{system.name} has QEMU {system.qemu}: {build}" if fault else system.install(package)
    if found or not system.has(package):
        return build
    return f"{system.install(package)}, if that is {versions}; else {build}"


def _wheel_starts(system: Distribution) -> bool:
    r"""Whether the wheel's programs do: not without /lib64, or with a C library older than they need, 2.31.

    >>> [_wheel_starts(distribution.parse(f"ID=rhel\nVERSION_ID={one}\n")) for one in ("8.10", "9.6", "10")]
    [False, True, True]
    """
    is_old = system.family == "rhel" and system.version.partition(".")[0] in ("2", "7", "8")  # 2: Amazon's
    return system.family != "nixos" and not is_old


@lru_cache
def _identify(path: str, mtime_ns: int) -> Qemu:
    """Ask once per binary; `mtime_ns` is there so that a binary replaced meanwhile is asked again.

    A QEMU without plugins stops at the option ("plugin interface not enabled in this build"); one with
    them notes the file's name and goes on to the version without opening it.
    """
    with_plugin = _first_line(path, "-plugin", "none", "--version")
    line = with_plugin or _first_line(path, "--version")
    version = re.search(r"version (\d+(?:\.\d+)*)", line)
    return Qemu(
        Path(path),
        version[1] if version else "",
        bool(with_plugin),
        _exports(Path(path), b"current_cpu"),
        _exports(Path(path), b"cpu_exit"),
    )


_ELF = b"\x7fELF\x02\x01"  # of 64 bits, little-endian
_DYNAMIC_SYMBOLS = 11  # SHT_DYNSYM
_SECTION = struct.Struct("<2I4Q2I2Q")


def _exports(program: Path, symbol: bytes) -> bool:
    """Whether a program has a dynamic symbol of that name. A script may start a program that has it.

    >>> _exports(Path("/bin/sh"), b"no such symbol")
    False
    """
    try:
        with program.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return content[: len(_ELF)] != _ELF or _has_symbol(content, b"\0%b\0" % symbol)
    except (OSError, ValueError, struct.error, IndexError):
        return True  # it is damaged: QEMU's own errors say more


def _has_symbol(content: mmap.mmap, name: bytes) -> bool:
    (start,), (size, number) = struct.unpack_from("<Q", content, 40), struct.unpack_from("<2H", content, 58)
    sections = [_SECTION.unpack_from(content, start + size * place) for place in range(number)]
    names = [sections[link] for _, kind, _, _, _, _, link, *_ in sections if kind == _DYNAMIC_SYMBOLS]
    return any(content.find(name, at, at + length) >= 0 for _, _, _, _, at, length, *_ in names)


def _first_line(*command: str) -> str:
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout.partition("\n")[0] if answer.returncode == 0 else ""
