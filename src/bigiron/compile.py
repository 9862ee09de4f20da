"""The C programs that run in or beside the machine under test, compiled on first use into the cache."""

import hashlib
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from bigiron.cache_dir import cache_folder
from bigiron.errors import UserError
from bigiron.workloads import Workload

_HERE = Path(__file__).parent
_FLAGS = ("-std=gnu11", "-O2")


def agent(
    workload: Workload | None, compiler: str, libbpf: Sequence[str] = (), *, turns: bool = False
) -> Path:
    """The guest agent linked with one workload: a static program, PID 1 of a virtual machine.

    Without a workload it runs external commands. It can load BPF programs if it is told how to link with
    libbpf (`bigiron.libbpf`). With `turns` it can end a task's turn on an emulator with each operation, which
    a real machine's throughput must not pay for (guest/turns.h). UserError with the compiler's first error if
    the workload does not compile.
    """
    ours = sorted(_source_folder("guest").glob("*.c"))
    flags: tuple[str, ...] = (*_FLAGS, "-static", "-pthread", "-iquote", str(_source_folder("guest")))
    if libbpf:
        # Without frame pointers the kernel does not find its way up a stack in user space.
        flags += ("-fno-omit-frame-pointer",)
        ours += sorted(_source_folder("guest").glob("libbpf/*.c"))
    if not workload:
        return _compile("agent", compiler, flags, ours, "the agent", libbpf)
    what, theirs = f"workload {workload.source}", workload.source
    if turns:
        watched = (*flags, "-fsanitize-coverage=trace-pc", "-c")
        theirs = _compile("workload.o", compiler, watched, [theirs], what)
    return _compile("agent", compiler, flags, [*ours, theirs], what, libbpf)


def bpf(name: str) -> Path:
    """The BPF program in bpf/: one file for every kernel and every little-endian architecture."""
    debian_s_asm = f"/usr/include/{platform.machine()}-linux-gnu"  # clang looks there for its own target only
    flags = ("-target", "bpfel", "-mcpu=v3", "-O2", "-g", "-idirafter", debian_s_asm, "-c")
    source = _source_folder("bpf") / f"{name}.bpf.c"
    return _compile(f"{name}.bpf.o", "clang", flags, [source], f"the BPF program {name}")


def recorder() -> Path:
    """The QEMU plugin that counts."""
    sources = sorted(_source_folder("plugin").glob("*.c"))
    flags = (*_FLAGS, "-shared", "-fPIC", "-fvisibility=hidden")
    return _compile("recorder.so", "gcc", flags, sources, "the recorder")


def symbols(program: Path, compiler: str) -> str:
    """A program's symbols, a line each as /proc/kallsyms has them: address, type, name."""
    tool = shutil.which(re.sub("gcc$", "nm", compiler))
    if tool is None:
        raise UserError(f"no nm on PATH to read the symbols of {program}: apt-get install binutils")
    return subprocess.run(
        [tool, "--defined-only", program], capture_output=True, text=True, check=True
    ).stdout


def _source_folder(name: str) -> Path:
    """In the package where it is installed; where one works on it, a link to the top of the tree."""
    return _HERE / name


def _compile(
    name: str,
    compiler: str,
    flags: Sequence[str],
    sources: Sequence[Path],
    what: str,
    libraries: Sequence[str] = (),
) -> Path:
    tool = shutil.which(compiler)
    if tool is None:
        raise UserError(f"no {compiler} on PATH to compile {what}: apt-get install {_package(compiler)}")
    final = cache_folder("compiled") / _digest((tool, *flags, *libraries), sources) / name
    if final.exists():
        return final
    final.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=final.parent) as folder:
        made = Path(folder) / name
        done = subprocess.run(
            [tool, *flags, *sources, "-o", made, *libraries],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            env={**os.environ, "LC_ALL": "C"},
        )
        if done.returncode:
            raise UserError(f"{what} does not compile: {_first_error(done.stderr)}")
        made.replace(final)
    return final


def _package(compiler: str) -> str:
    return {"gcc": "gcc libc6-dev", "clang": "clang libbpf-dev"}.get(compiler, compiler)


def _digest(command: Iterable[str], sources: Sequence[Path]) -> str:
    """Of the command, the sources, and the headers that stand beside them."""
    digest = hashlib.sha256("\0".join(command).encode())
    folders = {source.parent for source in sources}
    headers = sorted(header for folder in folders for header in folder.glob("*.h"))
    shared = sorted(header for name in ("guest", "bpf") for header in _source_folder(name).glob("*.h"))
    for file in (*sources, *headers, *shared):
        digest.update(f"\0{file.name}\0".encode() + file.read_bytes())
    return digest.hexdigest()[:32]


def _first_error(output: str) -> str:
    lines = output.strip().splitlines()
    errors = [line for line in lines if "error" in line or "undefined" in line]
    return (errors or lines or ["the compiler said nothing"])[0]
