# SPDX-License-Identifier: GPL-2.0-or-later
"""How to install something on this Linux distribution, by its own names of packages (os-release(5)).

Programs know Debian's names; the table says what the other distributions call the same. setup.sh runs this
file before there is anything but Python, so it imports nothing of bigiron's.
"""

import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_OS_RELEASE = ("/etc/os-release", "/usr/lib/os-release")

_FAMILIES = {
    "debian": "apt-get install",
    "fedora": "dnf install",
    "rhel": "dnf install",
    "arch": "pacman -S",
    "opensuse": "zypper install",
    "nixos": "nix-shell -p",
}
"""By the name of ID or ID_LIKE: the command that installs packages."""
_ALSO = {"ubuntu": "debian", "centos": "rhel", "amzn": "rhel", "suse": "opensuse"}

_NONE = "-"  # no package is known that has it as bigiron needs it
_AS_DEBIAN = "="  # calls it
_SAME = """
bash bc binutils bison ccache clang coreutils dpkg e2fsprogs f2fs-tools flex gcc git util-linux xfsprogs zstd
"""
"""The packages that all of them call the same."""
_NAMES = """
debian                    fedora                arch                    opensuse             nixos
apt                       =                     =                       -                    =
btrfs-progs               =                     =                       btrfsprogs           =
cargo                     =                     rust                    =                    =
dash                      bash                  bash                    bash                 bash
debian-archive-keyring    debian-keyring        =                       -                    -
distribution-gpg-keys     =                     -                       =                    -
dwarves                   =                     pahole                  =                    pahole
gcc-aarch64-linux-gnu     =                     aarch64-linux-gnu-gcc   -                    -
gcc-powerpc64le-linux-gnu =                     -                       -                    -
gcc-x86-64-linux-gnu      gcc-x86_64-linux-gnu  -                       -                    -
libbpf-dev                libbpf-static         -                       libbpf-devel-static  -
libc6-dev                 glibc-static          glibc                   glibc-devel-static   glibc.static
libc6-dev-amd64-cross     -                     -                       -                    -
libc6-dev-arm64-cross     -                     aarch64-linux-gnu-glibc -                    -
libc6-dev-ppc64el-cross   -                     -                       -                    -
libelf-dev                -                     libelf                  -                    -
libzstd-dev               libzstd-static        -                       libzstd-devel-static -
linux-perf                perf                  perf                    perf                linuxPackages.perf
make                      =                     =                       =                    gnumake
mmdebstrap                =                     -                       -                    =
openssh-client            openssh-clients       openssh                 openssh-clients      openssh
python3-venv              python3               python                  python3              python3
qemu-system-arm           qemu-system-aarch64   qemu-system-aarch64     qemu-arm             qemu
qemu-system-ppc           =                     =                       qemu-ppc             qemu
qemu-system-x86           =                     =                       qemu-x86             qemu
qemu-user-static          =                     =                       qemu-linux-user      qemu
rpm                       =                     rpm-tools               =                    =
squashfs-tools            =                     =                       squashfs             squashfsTools
ubuntu-keyring            ubu-keyring           =                       -                    -
uidmap                    shadow-utils          shadow                  shadow               -
zlib1g-dev                zlib-ng-compat-static zlib                    zlib-devel-static    -
"""
"""Fedora builds no static libelf (elfutils-libelf-devel-static is switched off), Arch no static libbpf.
Fedora's cross compilers build kernels and no programs; those of openSUSE have another prefix."""
_NOT_IN_RHEL = """
apt btrfs-progs debian-archive-keyring distribution-gpg-keys f2fs-tools gcc-x86-64-linux-gnu libbpf-dev
libzstd-dev mmdebstrap qemu-system-arm qemu-system-ppc qemu-system-x86 qemu-user-static ubuntu-keyring
zlib1g-dev
"""
"""What RHEL and its rebuilds lack of Fedora's packages: their qemu-kvm has no plugins. Of static libraries
they have glibc's, in CodeReady Builder."""

_QEMU = {
    "debian 11": "5.2",
    "debian 12": "7.2",
    "debian 13": "10.0",
    "ubuntu 22.04": "6.2",
    "ubuntu 24.04": "8.2",
    "ubuntu 25.10": "10.1",
    "ubuntu 26.04": "10.2",
    "fedora 42": "9.2",
    "fedora 43": "10.1",
    "fedora 44": "10.2",
    "fedora 45": "11.1",
    "opensuse-leap 15.6": "8.2",
    "opensuse-tumbleweed": "11.1",
}
"""The QEMU of a distribution by ID and VERSION_ID, or by ID where that is a date: their package indexes,
November 2026."""


def _table() -> Mapping[str, Mapping[str, str]]:
    """By the name in ID: Debian's name of a package, and this distribution's."""
    families, *rows = (line.split() for line in _NAMES.strip().splitlines())
    same = {name: name for name in _SAME.split()}
    table = {
        family: same | {row[0]: row[0] if row[at] == _AS_DEBIAN else row[at] for row in rows}
        for at, family in enumerate(families)
    }
    newer_python = {"python3-venv": "python3.12"}
    return table | {"rhel": table["fedora"] | newer_python | dict.fromkeys(_NOT_IN_RHEL.split(), _NONE)}


_PACKAGES = _table()


@dataclass(frozen=True)
class Distribution:
    r"""What os-release says of a system.

    >>> parse('NAME="Fedora Linux"\nID=fedora\nVERSION_ID=43\n')
    Distribution(name='Fedora Linux 43', id='fedora', version='43', codename='', family='fedora')
    """

    name: str
    id: str
    version: str  # "" of a rolling one
    codename: str
    family: str  # of _FAMILIES; "" if unknown

    def install(self, *packages: str) -> str:
        r"""The command that installs what Debian has in these packages.

        >>> parse("ID=manjaro\nID_LIKE=arch\n").install("dwarves", "libbpf-dev")
        "pacman -S pahole; no package is known for Debian's libbpf-dev: build it from source"
        >>> parse("ID=plan9\n").install("gcc", "libc6-dev")
        'install what Debian has in its packages gcc libc6-dev'
        """
        if not self.family:
            return f"{self.command} {' '.join(packages)}"
        names = {package: self._name(package) for package in packages}
        known = dict.fromkeys(name for name in names.values() if name != _NONE)
        unknown = " ".join(package for package, name in names.items() if name == _NONE)
        steps = [" ".join((self.command, *known))] if known else []
        if unknown:
            how = "unpack Debian's" if unknown.endswith("-keyring") else "build it from source"
            steps.append(f"no package is known for Debian's {unknown}: {how}")
        return "; ".join(steps)

    def has(self, package: str) -> bool:
        """Whether a package is known, or the distribution is not."""
        return not self.family or self._name(package) != _NONE

    @property
    def command(self) -> str:
        """What `install` begins with, if a package is known."""
        return _FAMILIES.get(self.family, "install what Debian has in its packages")

    @property
    def qemu(self) -> str:
        """The version of its own QEMU, for instance "8.2"; "" where it is not known."""
        return _QEMU.get(f"{self.id} {self.version}") or _QEMU.get(self.id, "")

    def _name(self, package: str) -> str:
        if self.id == "ubuntu" and package == "linux-perf":
            return "linux-tools-generic"
        default = package if self.family == "debian" else _NONE
        return _PACKAGES[self.family].get(package, default)


def parse(os_release: str) -> Distribution:
    """A system, from the text of its os-release."""
    lines = (line.partition("=") for line in os_release.splitlines() if not line.lstrip().startswith("#"))
    said = {key.strip(): _unquoted(value) for key, _, value in lines}
    system, version = said.get("ID", "linux"), said.get("VERSION_ID", "")
    likes = (one.partition("-")[0] for one in (system, *said.get("ID_LIKE", "").split()))
    family = next((found for one in likes if (found := _ALSO.get(one, one)) in _FAMILIES), "")
    name = f"{said.get('NAME', 'this system')} {version}".strip()
    return Distribution(name, system, version, said.get("VERSION_CODENAME", ""), family)


@cache
def here() -> Distribution:
    """The system that bigiron runs on."""
    for file in map(Path, _OS_RELEASE):
        if file.is_file():
            return parse(file.read_text(encoding="utf-8", errors="replace"))
    return parse("")


def install(*packages: str) -> str:
    """The command that installs, on this system, what Debian has in these packages."""
    return here().install(*packages)


def _unquoted(value: str) -> str:
    try:
        return "".join(shlex.split(value))
    except ValueError:  # a quote without its end
        return value.strip()


if __name__ == "__main__":
    print(install(*sys.argv[1:]))
