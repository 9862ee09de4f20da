"""Makes the wheel: the simulator compiled, and the programs of virtual machines beside their C sources.

    .venv/bin/python tools/wheel.py                   # `make wheel`: into dist/
    .venv/bin/python tools/wheel.py --arch aarch64    # for a host of another architecture

Needs what `make setup` installs, and takes zig, maturin and auditwheel from PyPI into build/wheel: zig links
with the symbols of an old C library, and auditwheel says which ones the wheel needs. The wheel has programs
for guests of x86_64; those of others are compiled on first use.
"""

import argparse
import lzma
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import msgspec

from bigiron import compile, prebuilt, workloads
from bigiron.architectures import X86_64
from bigiron.machines.vm.qemu import known_versions

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build/wheel"
GLIBC = (2, 28)
"""Of manylinux_2_28: RHEL 8, Debian 10 and Ubuntu 18.10 have it."""
AUDITWHEEL = "auditwheel>=6.4"
TOOLS = (AUDITWHEEL, "maturin>=1.9.4,<2", "ziglang>=0.13")
ARCHIVE = "guest-x86_64.tar.xz"
# What the agents share is found again, though each is a megabyte: the dictionary holds several of them.
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 1, "dict_size": 8 << 20}]
CROSS = {"x86_64": X86_64.compiler, "aarch64": "aarch64-linux-gnu-gcc"}


def main() -> None:
    """Build a wheel of this checkout's tracked files, and check it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--arch", choices=CROSS, default=platform.machine(), help="of the hosts")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="folder for the wheel")
    parser.add_argument("--workload", action="append", help="to compile; may be repeated  [default: all]")
    parser.add_argument("--programs", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    chosen = asked.workload or [one.name for one in workloads.builtin()]
    if asked.programs:
        make_programs(asked.programs, asked.arch, chosen)
        return
    tools = install_tools()
    source = copy_of_tracked_files()
    print("wheel: compiling the programs of virtual machines", flush=True)
    staged = dict(os.environ, PYTHONPATH=str(source / "src"))
    programs = BUILD / f"compiled-{asked.arch}"
    these = [f"--workload={name}" for name in asked.workload or []]
    run(sys.executable, __file__, "--arch", asked.arch, "--programs", programs, *these, env=staged)
    shutil.copytree(programs, source / "src/bigiron/compiled")
    print("wheel: compiling the simulator", flush=True)
    made = BUILD / "made"
    shutil.rmtree(made, ignore_errors=True)
    target = ("--target", f"{asked.arch}-unknown-linux-gnu", "--compatibility", tag())
    maturin = (tools / "maturin", "build", "--release", "--locked", "--zig", *target, "--out", made)
    run(*maturin, cwd=source, env=with_tools(tools))
    (wheel,) = made.glob("*.whl")
    check_tag(tools, wheel)
    asked.out.mkdir(exist_ok=True)
    print(f"wheel: {shutil.copy(wheel, asked.out)}, {wheel.stat().st_size / 1e6:.1f} MB")


def tag() -> str:
    """The platform's tag without the architecture."""
    return "manylinux_{}_{}".format(*GLIBC)


def install_tools(build: Path = BUILD, packages: tuple[str, ...] = TOOLS) -> Path:
    """The folder of these programs, auditwheel among them, in a virtual environment of their own."""
    venv = build / "tools"
    if not (venv / "bin/auditwheel").exists():
        run(sys.executable, "-m", "venv", "--clear", venv)
        run(venv / "bin/pip", "install", "--quiet", "--disable-pip-version-check", *packages)
    return venv / "bin"


def with_tools(tools: Path) -> dict[str, str]:
    """The environment in which maturin finds zig, and cargo keeps what it compiled."""
    return dict(os.environ, PATH=f"{tools}:{os.environ['PATH']}", CARGO_TARGET_DIR=str(BUILD / "target"))


def copy_of_tracked_files() -> Path:
    """A copy of the files that git knows, as they are now; with their times, by which cargo goes."""
    source = BUILD / "source"
    shutil.rmtree(source, ignore_errors=True)
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).exists():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, source / name, follow_symlinks=False)
    return source


def make_programs(folder: Path, arch: str, chosen: Sequence[str]) -> None:
    """Fill a folder as `bigiron.prebuilt` reads it, unless it is. The package is the copy's: it is hashed."""
    guest, recorder = guest_programs(chosen), compile.recorder_key(arch)
    index = dict.fromkeys(guest, ARCHIVE) | {recorder: ""}
    if prebuilt.read(folder / prebuilt.INDEX).programs == index:
        return
    shutil.rmtree(folder, ignore_errors=True)
    (folder / recorder).mkdir(parents=True)
    with lzma.open(folder / ARCHIVE, "wb", filters=FILTERS) as xz, tarfile.open(None, "w|", xz) as archive:
        for key, make in guest.items():
            program = make()
            member = tarfile.TarInfo(f"{key}/{program.name}")
            member.size, member.mode = program.stat().st_size, 0o755
            with program.open("rb") as content:
                archive.addfile(member, content)
    link_recorder(folder / recorder / "recorder.so", arch)
    calls = {X86_64.name: compile.system_calls(X86_64.compiler)}
    whole = prebuilt.Index(tuple(made_with(arch)), index, calls)
    (folder / prebuilt.INDEX).write_bytes(msgspec.json.format(msgspec.json.encode(whole), indent=1))


def guest_programs(chosen: Sequence[str]) -> dict[str, Callable[[], Path]]:
    """The static programs of virtual machines by key, as `bigiron run` and `bigiron matrix` ask for them.

    Of the workloads, those that are `chosen`.
    """
    gcc = X86_64.compiler
    tries_kvm = workloads.find("getppid1")
    programs: dict[str, Callable[[], Path]] = {
        compile.boot_key(gcc): partial(compile.boot, gcc),
        compile.mark_key(gcc): partial(compile.mark, gcc),
        compile.matrix_agent_key(gcc): partial(compile.matrix_agent, gcc),
        compile.agent_key(None, gcc, False): partial(compile.agent, None, gcc),
        compile.agent_key(tries_kvm, gcc, False): partial(compile.agent, tries_kvm, gcc),
    }
    for workload in map(workloads.find, chosen):
        slices = not workload.has_rounds
        key = compile.agent_key(workload, gcc, slices)
        programs[key] = partial(compile.agent, workload, gcc, time_slices=slices)
    return programs


def link_recorder(to: Path, arch: str) -> None:
    """The recorder as gcc compiles it, linked with the symbols of GLIBC."""
    whole = BUILD / "recorder.o"
    flags = (*compile.RECORDER_FLAGS, "-r", "-flinker-output=nolto-rel")
    run(CROSS[arch], *flags, *compile.recorder_files(), "-o", whole)
    target = "{}-linux-gnu.{}.{}".format(arch, *GLIBC)
    run(install_tools() / "python", "-m", "ziglang", "cc", "-target", target, "-shared", whole, "-o", to)


def made_with(arch: str) -> Iterator[str]:
    """Where the programs come from: compilers, the C library in the static ones, QEMU's interface."""
    for compiler in dict.fromkeys((X86_64.compiler, CROSS[arch])):
        version = subprocess.run([compiler, "--version"], check=True, capture_output=True, text=True)
        yield version.stdout.partition("\n")[0]
    yield f"static programs: {os.confstr('CS_GNU_LIBC_VERSION')}, LGPL-2.1-or-later"
    yield f"recorder: QEMU {known_versions()}, glibc {GLIBC[0]}.{GLIBC[1]} or newer"


def check_tag(tools: Path, wheel: Path, glibc: tuple[int, int] = GLIBC) -> None:
    """Exit unless auditwheel, which reads all programs, finds that the wheel needs no newer C library."""
    shown = subprocess.run([tools / "auditwheel", "show", wheel], check=True, capture_output=True, text=True)
    said = " ".join(shown.stdout.split())
    found = re.search(r'platform tag: "manylinux_(\d+)_(\d+)_', said)
    if not found or tuple(map(int, found.groups())) > glibc:
        sys.exit(f"wheel: {wheel.name} needs more than glibc {glibc[0]}.{glibc[1]}: {said}")
    print(f"wheel: auditwheel: {found[0]}…")


def run(*command: str | Path, cwd: Path = ROOT, env: dict[str, str] | None = None) -> None:
    """Run a program; if it fails, this script ends with its status."""
    done = subprocess.run(command, cwd=cwd, env=env, check=False)
    if done.returncode:
        sys.exit(done.returncode)


if __name__ == "__main__":
    main()
