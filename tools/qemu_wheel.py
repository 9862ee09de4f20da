"""Makes the wheel bigiron-qemu: a QEMU for machines whose distribution has none that will do.

    .venv/bin/python tools/qemu_wheel.py    # `make qemu-wheel`: into dist/; as root

Debian 13's source package is compiled in a Debian 11 made of packages, whose C library is old enough for most
machines, with what bigiron uses and nothing else. The devices are all that QEMU has by default, so that a
kernel finds the machine that Debian's QEMU emulates. Firmware comes from Debian's packages. What is made
stays in build/qemu-wheel, where the next run continues: delete that folder to bundle newer libraries.
"""

import argparse
import base64
import hashlib
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
import zipfile
from dataclasses import dataclass
from pathlib import Path

from wheel import AUDITWHEEL, ROOT, check_tag, install_tools, run

from bigiron.architectures import architectures
from bigiron.errors import UserError
from bigiron.kernels.archives import debian
from bigiron.machines.vm.qemu import find_qemu
from bigiron.roots import packages
from bigiron.util.parent_death import dying_with

BUILD = ROOT / "build/qemu-wheel"
SUITE, GLIBC = "bullseye", (2, 31)
"""What it is compiled in: the oldest Debian whose GLib is new enough for QEMU 10, 2.66."""
SOURCE_SUITE = "trixie"
ARCHIVED = ("http://archive.debian.org/debian", "http://archive.debian.org/debian-security")
"""Where Debian keeps releases that it no longer updates."""
SYSTEM = (
    "ca-certificates", "dpkg-dev", "gcc", "libc6-dev", "libfdt-dev", "libglib2.0-dev", "make", "ninja-build",
    "pkg-config", "python3-venv", "zlib1g-dev",
)  # fmt: skip
PYTHON = ("distlib==0.3.9", "tomli==2.0.1")
"""Without which QEMU's configure does not run in Debian 11."""
MESON = "meson==1.5.0"
"""As QEMU's pythondeps.toml demands. QEMU's own archives have this wheel; Debian took it out."""
PROGRAMS = tuple(sorted(one.qemu for one in architectures()))
OPTIONS = (
    "--target-list=" + ",".join(f"{one.removeprefix('qemu-system-')}-softmmu" for one in PROGRAMS),
    # No tool, display, network, sound, accelerator or image format that bigiron never uses.
    "--without-default-features", "--enable-tcg", "--enable-fdt=system", "--enable-plugins",
    "--enable-modules",  # exports what the recorder needs
    *(["--enable-avx2"] if platform.machine() == "x86_64" else []),
    "--enable-malloc-trim", "--enable-stack-protector", "--disable-download", "--disable-install-blobs",
    "--disable-debug-info", "--enable-relocatable", "--prefix=/usr",
    # For libraries of libraries, too, which the newer tag is not.
    "--extra-ldflags=-Wl,--disable-new-dtags,-rpath,$ORIGIN/../lib",
)  # fmt: skip
FIRMWARE = {
    "qemu-system-data": ("qemu/kvmvapic.bin", "qemu/linuxboot_dma.bin", "qemu/vof.bin"),
    "seabios": ("seabios/bios-256k.bin",),
}
"""What the machines of src/bigiron/architectures open when they boot: packages, and files of /usr/share."""
EVERYWHERE = ("libc6", "libgcc-s1")
"""The packages whose libraries each machine has, of the versions that the tag names."""
LICENCES = ("GPL-2", "GPL-3", "LGPL-2", "LGPL-2.1", "LGPL-3")
"""To whose text in /usr/share/common-licenses Debian's copyright files point."""
INIT = '"""QEMU as bigiron uses it: bin/, its libraries and its firmware. SOURCES.txt: their source."""\n'
METADATA = """\
Metadata-Version: 2.4
Name: bigiron-qemu
Version: {version}
Summary: QEMU with plugins, for bigiron on machines whose distribution has none that will do
Requires-Python: >=3.11
{files}
bigiron finds these programs where PATH has no QEMU that it can use.
Where their source comes from is in bigiron_qemu/SOURCES.txt.

QEMU as a whole is under the GNU General Public License, version 2. Parts of it, the libraries and the
firmware have other licences, too: Debian's copyright files, beside this file in licenses/, state them.
What is bigiron's own is under GPL-2.0-or-later.
"""
WHEEL = "Wheel-Version: 1.0\nGenerator: bigiron\nRoot-Is-Purelib: false\nTag: {tag}\n"
SOURCES = """\
The programs, the libraries and the firmware come from these source packages of Debian, unchanged:

{packages}

All else but the licences is bigiron's, under GPL-2.0-or-later: __init__.py, the scripts and this file.

To get the source, add to /etc/apt/sources.list

    deb-src http://deb.debian.org/debian {source_suite} main
    deb-src http://deb.debian.org/debian {suite} main
    deb-src http://deb.debian.org/debian-security {source_suite}-security main
    deb-src http://deb.debian.org/debian-security {suite}-security main

and run

    apt-get update
{commands}

https://snapshot.debian.org keeps versions that Debian has since replaced. If a release is no longer found,
write http://archive.debian.org for http://deb.debian.org, and [check-valid-until=no] after deb-src.

If you pass this package on, pass this source on too: beside it, or on request for at least three years
(section 3 of the GNU General Public License, version 2).

The programs in bin/ were compiled in Debian's {suite} by bigiron's tools/qemu_wheel.py, a copy of which is
beside this file, in a folder of the source:

    {configure}
    ninja {programs}
    strip {programs}

The libraries in lib/ and the firmware in share/ are Debian's own binaries.
"""


@dataclass(frozen=True)
class Source:
    """The source package of QEMU, unpacked."""

    version: str  # Debian's, "1:10.0.13+ds-0+deb13u1"

    @property
    def qemu(self) -> str:
        """QEMU's own version.

        >>> Source("1:10.0.13+ds-0+deb13u1").qemu
        '10.0.13'
        """
        return re.split(r"[+-]", self.version.partition(":")[2])[0]

    @property
    def release(self) -> str:
        """The version of wheels made from it. Debian's revision is in it, as pip keeps what has the same.

        >>> Source("1:10.0.13+ds-0+deb13u1").release
        '10.0.13+0.deb13u1'
        """
        return f"{self.qemu}+{re.sub('[+~]', '.', self.version.rpartition('-')[2])}"

    @property
    def folder(self) -> str:
        """Where it is in the root."""
        return f"/build/qemu-{self.version.partition(':')[2].rpartition('-')[0]}"

    @property
    def configure(self) -> str:
        """The command for its build folder."""
        name = f"--with-pkgversion=Debian {self.version}, built for bigiron"
        return shlex.join(("../configure", *OPTIONS, name))


def main() -> None:
    """Make the wheel, and check it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="compilers at once")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="folder for the wheel")
    asked = parser.parse_args()
    if os.geteuid():
        sys.exit("qemu-wheel: only root can change roots")
    begin = time.monotonic()
    try:
        make_root()
    except UserError as error:
        sys.exit(f"qemu-wheel: {error}")
    source = fetch_source()
    compile_programs(source, asked.jobs)
    package = BUILD / "package/bigiron_qemu"
    fill(package, source)
    for program in PROGRAMS:
        made = find_qemu(str(package / "bin" / program))
        if not made or made.fault or not made.ends_time_slices:
            sys.exit(f"qemu-wheel: bigiron cannot use {program}: {made and made.fault}")
    make_folder(asked.out)
    # What it bundles may have changed since the last one of that release.
    wheel = pack(package, f"{source.release}.{time.strftime('%Y%m%d', time.gmtime())}", asked.out)
    give(wheel)
    check_tag(install_tools(BUILD, (AUDITWHEEL,)), wheel, GLIBC)
    minutes = (time.monotonic() - begin) / 60
    print(f"qemu-wheel: {wheel}, {wheel.stat().st_size / 1e6:.1f} MB, made in {minutes:.0f} minutes")


def make_root() -> None:
    """The Debian that all is compiled in, unless it is there. Its apt knows the source's release, too."""
    root = BUILD / "root"
    stamp, content = BUILD / "root-stamp", " ".join((SUITE, SOURCE_SUITE, *SYSTEM, *PYTHON, MESON))
    if stamp.exists() and stamp.read_text() == content:
        return
    say(f"installing Debian's {SUITE}")
    debian.check_keyring()
    for folder in (root, BUILD / "wheels"):
        shutil.rmtree(folder, ignore_errors=True)
    make_folder(BUILD)
    program = packages.mmdebstrap()
    run(program, "--variant=apt", f"--include={','.join(SYSTEM)}", SUITE, root, *apt_lines("deb", SUITE))
    shutil.copy(debian.KEYRING, root / str(debian.KEYRING).lstrip("/"))
    lines = (*apt_lines("deb", SOURCE_SUITE), *apt_lines("deb-src", SOURCE_SUITE))
    (root / "etc/apt/sources.list.d/source.list").write_text("".join(f"{line}\n" for line in lines))
    (root / "etc/apt/apt.conf.d/sandbox").write_text('APT::Sandbox::User "root";\n')  # /build is root's
    python = install_tools(BUILD, (AUDITWHEEL,)) / "python"
    pip = (python, "-m", "pip", "--quiet", "--disable-pip-version-check")
    run(*pip, "install", "--no-deps", "--no-compile", "--target", root / "build/python", *PYTHON)
    run(*pip, "download", "--no-deps", "--dest", BUILD / "wheels", MESON)
    stamp.write_text(content)


def apt_lines(kind: str, release: str) -> list[str]:
    """Lines of apt's sources.list for a release and its security updates, which may be archived."""
    main_archive, security = debian.mirrors()
    archives = (main_archive, security or f"{main_archive.rstrip('/')}-security")
    lines = []
    for uri, old, suite in zip(archives, ARCHIVED, (release, f"{release}-security"), strict=True):
        # Lists there are signed by the same keys, and are not renewed.
        where, more = (old, " check-valid-until=no") if is_gone(uri, suite) else (uri, "")
        lines.append(f"{kind} [signed-by={debian.KEYRING}{more}] {where} {suite} main")
    return lines


def is_gone(uri: str, suite: str) -> bool:
    """Whether an archive says that it has no such suite. What else is wrong is apt's to report."""
    try:
        urllib.request.urlopen(f"{uri.rstrip('/')}/dists/{suite}/Release", timeout=30).close()
    except (OSError, ValueError) as error:
        return isinstance(error, urllib.error.HTTPError) and error.code == 404
    return False


def inside(script: str) -> str:
    """What a script of the shell prints in the root; if it fails, this one ends. It ends with this one."""
    namespaces = ("unshare", "--mount", "--pid", "--fork", "--kill-child")
    command = (*dying_with(os.getpid()), *namespaces, "chroot", str(BUILD / "root"), "sh", "-ec", script)
    proxies = {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}
    env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "PYTHONPATH": "/build/python"}
    done = subprocess.run(command, env=env | proxies, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"qemu-wheel: failed in {BUILD / 'root'}: {script}\n{done.stdout[-4000:]}")
    return done.stdout


def fetch_source() -> Source:
    """The newest source package of the release and its security updates."""
    versions = inside("apt-get -qq update; apt-cache showsrc --only-source qemu | sed -n 's/^Version: //p'")
    newest = "printf '%s\\n' " + shlex.join(versions.split()) + " | sort --version-sort | tail -n 1"
    source = Source(inside(newest).strip())
    say(f"the source package of QEMU is {source.version}")
    unpack = f"rm -rf {source.folder}; apt-get -qq source --only-source qemu={source.version}"
    # Not by the folder, which has the same name after an update of Debian's.
    stamp = f"unpacked-{source.version}"
    inside(f"cd /build; [ -e {stamp} ] || {{ {unpack}; rm -f unpacked-*; touch {stamp}; }}")
    return source


def compile_programs(source: Source, jobs: int) -> None:
    """Configure QEMU, unless it is so configured, and make its programs."""
    folder = f"{source.folder}/b"
    here = BUILD / "root" / folder.lstrip("/")
    stamp = here / "configured"
    if not stamp.exists() or stamp.read_text() != source.configure:
        say("configuring QEMU")
        shutil.rmtree(here, ignore_errors=True)
        here.mkdir()
        shutil.copytree(BUILD / "wheels", here.parent / "python/wheels", dirs_exist_ok=True)
        inside(f"cd {folder}; {source.configure}")
        stamp.write_text(source.configure)
    say("compiling QEMU: 10 minutes on two cores, more on busy ones")
    ninja = f"ninja -j{jobs} {' '.join(PROGRAMS)}"
    inside(f"cd {folder}; {ninja} >ninja.log 2>&1 || {{ tail -n 40 ninja.log; exit 1; }}")


def fill(package: Path, source: Source) -> None:
    """The folder of the package: programs, the libraries and the firmware that they open, licences."""
    shutil.rmtree(package.parent, ignore_errors=True)
    for name in ("bin", "lib", "share/qemu"):
        (package / name).mkdir(parents=True)
    root, licences = BUILD / "root", package.parent / "licences"
    licences.mkdir()
    for program in PROGRAMS:
        inside(f"strip -o /build/stripped {source.folder}/b/{program}")
        shutil.copy(root / "build/stripped", package / "bin" / program)
    known = {f"qemu {source.version}"}
    for name, library in libraries(source).items():
        owner = inside(f"dpkg-query -S '*/{name}'").partition(":")[0]
        if owner not in EVERYWHERE:
            shutil.copy(root / library.lstrip("/"), package / "lib" / name)
            known.add(inside(f"dpkg-query -W -f '${{source:Package}} ${{source:Version}}' {owner}"))
            shutil.copy(root / f"usr/share/doc/{owner}/copyright", licences / f"{owner}.copyright")
    for name, files in FIRMWARE.items():
        known.add(unpacked(name, source))
        for file in files:
            shutil.copy(root / f"build/firmware/usr/share/{file}", package / "share/qemu")
        shutil.copy(root / f"build/firmware/usr/share/doc/{name}/copyright", licences / f"{name}.copyright")
    for name in ("COPYING", "COPYING.LIB", "LICENSE", "debian/copyright"):
        text = root / source.folder.lstrip("/") / name
        shutil.copy(text, licences / f"qemu.{text.name}")
    for name in LICENCES:
        shutil.copy(root / "usr/share/common-licenses" / name, licences)
    (package / "__init__.py").write_text(INIT)
    for script in (Path(__file__), Path(__file__).with_name("wheel.py")):
        shutil.copy(script, package / f"{script.name}.txt")
    (package / "SOURCES.txt").write_text(sources(source, sorted(known)))


def libraries(source: Source) -> dict[str, str]:
    """The libraries that the programs load, by name: their paths in the root."""
    programs = " ".join(f"{source.folder}/b/{one}" for one in PROGRAMS)
    return dict(re.findall(r"^\s*(lib\S+) => (/\S+)", inside(f"ldd {programs}"), re.MULTILINE))


def unpacked(name: str, source: Source) -> str:
    """The source package and version of a package with firmware, which is then in /build/firmware."""
    release = f"{name}={source.version}" if name.startswith("qemu-") else f"{name}/{SOURCE_SUITE}"
    said = inside(
        f"mkdir -p /build/firmware; cd /build/firmware; rm -f {name}_*.deb; "
        f"apt-get -qq download {release} >&2; dpkg-deb -x {name}_*.deb .; "
        f"dpkg-deb -f {name}_*.deb Source Version"
    )
    fields = dict(re.findall(r"^(\w+): (\S+)", said, re.MULTILINE))
    return f"{fields.get('Source', name)} {fields['Version']}"


def sources(source: Source, known: list[str]) -> str:
    """How to get the source of all that is in the package."""
    commands = (f"    apt-get source --only-source {one.replace(' ', '=')}" for one in known)
    return SOURCES.format(
        packages="\n".join(f"    {one}" for one in known),
        commands="\n".join(commands),
        suite=SUITE,
        source_suite=SOURCE_SUITE,
        configure=source.configure,
        programs=" ".join(PROGRAMS),
    )


def pack(package: Path, version: str, out: Path) -> Path:
    """The wheel: what is in the package's folder, and what installers read."""
    tag = f"py3-none-manylinux_{GLIBC[0]}_{GLIBC[1]}_{platform.machine()}"
    info = f"bigiron_qemu-{version}.dist-info"
    licences = sorted((package.parent / "licences").iterdir())
    fields = "".join(f"License-File: {file.name}\n" for file in licences)
    files = sorted(file for file in package.rglob("*") if file.is_file())
    members = {
        **{str(file.relative_to(package.parent)): file.read_bytes() for file in files},
        **{f"{info}/licenses/{file.name}": file.read_bytes() for file in licences},
        f"{info}/METADATA": METADATA.format(version=version, files=fields).encode(),
        f"{info}/WHEEL": WHEEL.format(tag=tag).encode(),
    }
    record = "".join(record_line(name, content) for name, content in members.items())
    members[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    wheel = out / f"bigiron_qemu-{version}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in members.items():
            member = zipfile.ZipInfo(name)  # of 1980: the same content gives the same wheel
            member.compress_type = zipfile.ZIP_DEFLATED
            member.external_attr = (0o100755 if "/bin/" in name else 0o100644) << 16
            archive.writestr(member, content)
    return wheel


def record_line(name: str, content: bytes) -> str:
    r"""What RECORD says of a file.

    >>> record_line("a", b"")
    'a,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\n'
    """
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}\n"


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it, the checkout's owner's, unless they are there."""
    if not folder.exists():
        make_folder(folder.parent)
        folder.mkdir()
        give(folder)


def give(made: Path) -> None:
    """Let the checkout's owner, who may not be root, change or delete this."""
    owner = ROOT.stat()
    os.chown(made, owner.st_uid, owner.st_gid)


def say(what: str) -> None:
    """Report what comes next."""
    print(f"qemu-wheel: {what}", flush=True)


if __name__ == "__main__":
    main()
