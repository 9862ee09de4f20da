"""Other distributions: what doctor and setup.sh say there, from the text of their os-release files."""

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from test_setup import ROOT

from bigiron.architectures import architectures
from bigiron.libbpf import PACKAGES
from bigiron.machines.vm.qemu import Qemu, how_to_get, known_versions
from bigiron.util import distribution
from bigiron.util.distribution import parse

UBUNTU_24_04 = """\
PRETTY_NAME="Ubuntu 24.04.3 LTS"
NAME="Ubuntu"
VERSION_ID="24.04"
VERSION="24.04.3 LTS (Noble Numbat)"
VERSION_CODENAME=noble
ID=ubuntu
ID_LIKE=debian
"""
DEBIAN_12 = 'NAME="Debian GNU/Linux"\nVERSION_ID="12"\nVERSION_CODENAME=bookworm\nID=debian\n'
DEBIAN_13 = 'NAME="Debian GNU/Linux"\nVERSION_ID="13"\nVERSION_CODENAME=trixie\nID=debian\n'
FEDORA_43 = '# of Fedora\nNAME="Fedora Linux"\nVERSION="43 (Workstation Edition)"\nID=fedora\nVERSION_ID=43\n'
ROCKY_9 = 'NAME="Rocky Linux"\nID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.6"\n'
MINT_22 = 'NAME="Linux Mint"\nID=linuxmint\nID_LIKE="ubuntu debian"\nVERSION_ID="22"\n'
ARCH = 'NAME="Arch Linux"\nID=arch\nBUILD_ID=rolling\n'
LEAP = 'NAME="openSUSE Leap"\nID="opensuse-leap"\nID_LIKE="suse opensuse"\nVERSION_ID="16.0"\n'
TUMBLEWEED = (
    'NAME="openSUSE Tumbleweed"\nID="opensuse-tumbleweed"\nID_LIKE="opensuse suse"\nVERSION_ID="20261120"\n'
)
NIXOS = 'NAME=NixOS\nID=nixos\nVERSION_ID="26.05"\n'
UNKNOWN = "NAME=\"Plan '9\nID=plan9\nno line of an os-release\n"

KNOWN = f"QEMU {known_versions()}"
BUILD = f"build {KNOWN} from its source, and put it first on PATH: "
ELSE = f"install the wheel bigiron-qemu (make qemu-wheel), or {BUILD}"
OLD = Qemu(Path("/usr/bin/qemu-system-x86_64"), "8.2.2", True)


def test_the_examples() -> None:
    assert doctest.testmod(distribution).failed == 0


@pytest.mark.parametrize(
    ("os_release", "command"),
    [
        (DEBIAN_12, "apt-get install gcc libc6-dev dwarves squashfs-tools"),
        (UBUNTU_24_04, "apt-get install gcc libc6-dev dwarves squashfs-tools"),
        (FEDORA_43, "dnf install gcc glibc-static dwarves squashfs-tools"),
        (ROCKY_9, "dnf install gcc glibc-static dwarves squashfs-tools"),
        (ARCH, "pacman -S gcc glibc pahole squashfs-tools"),
        (LEAP, "zypper install gcc glibc-devel-static dwarves squashfs"),
        (TUMBLEWEED, "zypper install gcc glibc-devel-static dwarves squashfs"),
        (NIXOS, "nix-shell -p gcc glibc.static pahole squashfsTools"),
        (UNKNOWN, "install what Debian has in its packages gcc libc6-dev dwarves squashfs-tools"),
        ("", "install what Debian has in its packages gcc libc6-dev dwarves squashfs-tools"),
    ],
)
def test_what_is_installed_has_the_distribution_s_names(os_release: str, command: str) -> None:
    assert parse(os_release).install("gcc", "libc6-dev", "dwarves", "squashfs-tools") == command


def test_what_a_distribution_lacks_is_said() -> None:
    assert parse(FEDORA_43).install("clang", *PACKAGES) == (
        "dnf install clang libbpf-static zlib-ng-compat-static; "
        "no package is known for Debian's libelf-dev: build it from source"
    )
    assert parse(LEAP).install("mmdebstrap") == (
        "no package is known for Debian's mmdebstrap: build it from source"
    )
    assert parse(ROCKY_9).install("debian-archive-keyring") == (
        "no package is known for Debian's debian-archive-keyring: unpack Debian's"
    )
    assert parse(UBUNTU_24_04).install("linux-perf") == "apt-get install linux-tools-generic"


@pytest.mark.parametrize(
    ("os_release", "found", "advice"),
    [
        (DEBIAN_12, None, "apt-get install -t bookworm-backports qemu-system-x86"),
        (DEBIAN_12, OLD, "apt-get install -t bookworm-backports qemu-system-x86"),
        (DEBIAN_13, None, "apt-get install qemu-system-x86"),
        (FEDORA_43, None, "dnf install qemu-system-x86"),
        (NIXOS, None, f"nix-shell -p qemu, if that is {KNOWN}; else {BUILD}"),
        (ROCKY_9.replace("9.6", "8.10"), None, BUILD),  # its C library is too old for the wheel
        (ROCKY_9, None, ELSE),  # it has only qemu-kvm
        (MINT_22, None, f"apt-get install qemu-system-x86, if that is {KNOWN}; else {ELSE}"),
        (UBUNTU_24_04, None, f"Ubuntu 24.04 has QEMU 8.2: {ELSE}"),
        (UBUNTU_24_04, OLD, f"Ubuntu 24.04 has QEMU 8.2: {ELSE}"),
        (TUMBLEWEED, None, "zypper install qemu-x86"),
        (ARCH, None, f"pacman -S qemu-system-x86, if that is {KNOWN}; else {ELSE}"),
        (ARCH, OLD, ELSE),  # what pacman installed will not do
    ],
)
def test_a_qemu_that_will_do(os_release: str, found: Qemu | None, advice: str) -> None:
    said = how_to_get("qemu-system-x86_64", parse(os_release), found)
    assert said.startswith(advice)
    if "build" in said:
        configure = "--target-list=x86_64-softmmu --enable-plugins --enable-modules"
        assert said.endswith(f"put it first on PATH: ./configure {configure} && make install")


def test_each_package_that_setup_installs_has_a_name_everywhere_or_is_known_to_have_none() -> None:
    table = (ROOT / "setup.sh").read_text().partition('\n    [ "$purpose" != test ] || cat')[0]
    rows = re.findall(r"^(?:program|library|libzstd|crosslib|qemu|emulator|keyring) +\S+ +(\S+)", table, re.M)
    packages = {*rows, *PACKAGES, *(one.qemu_package for one in architectures())}
    assert len(packages) > 35
    for names in distribution._PACKAGES.values():
        assert packages <= names.keys()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can put another os-release into its place")
def test_doctor_where_there_are_no_tools(tmp_path: Path) -> None:
    (tmp_path / "os-release").write_text(UBUNTU_24_04)
    (tmp_path / "empty").mkdir()
    script = (
        'mount --bind "$1" /etc/os-release && export PATH="$2" && exec "$3" -m bigiron doctor --format csv'
    )
    arguments = [tmp_path / "os-release", tmp_path / "empty", sys.executable]
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, "sh", *map(str, arguments)],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "BIGIRON_CACHE": str(tmp_path / "cache")},
    )
    assert done.returncode == 2 and done.stderr.endswith("cannot run bigiron yet: see above\n"), done
    assert "missing,gcc,no gcc on PATH,apt-get install gcc\n" in done.stdout
    assert f'no qemu-system-x86_64 on PATH,"Ubuntu 24.04 has QEMU 8.2: {ELSE}' in done.stdout


def test_the_page_names_the_same_versions() -> None:
    page = (ROOT / "docs/howto/install.md").read_text()
    for system, version in distribution._QEMU.items():
        name, _, release = system.partition(" ")
        if name != "debian":
            row = rf"^\| .*{name.replace('-', ' ')}[^|]*\b{release}\b[^|]*\| [^|]*\b{version}\b"
            assert re.search(row, page, re.MULTILINE | re.IGNORECASE), system
