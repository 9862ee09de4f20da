"""The C programs that run in or beside the machine under test.

They are compiled on first use into the cache, or come with an installed wheel (`bigiron.prebuilt`).
"""

import hashlib
import platform
import re
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from bigiron import prebuilt
from bigiron.architectures import X86_64, architectures
from bigiron.errors import UserError
from bigiron.util import distribution, lazy, subprocesses
from bigiron.util.cache_dir import cache_folder
from bigiron.workloads import Workload

if TYPE_CHECKING:
    from bigiron.kernels import elf
else:
    elf = lazy.LazyModule("bigiron.kernels.elf")

_HERE = Path(__file__).parent
# The folders of guest/ that are not in every agent.
_NOT_IN_EVERY_AGENT = ("boot", "libbpf", "mark", "matrix", "pairs")
_FLAGS = ("-std=gnu11", "-O2")
# What each access calls lies in several files.
RECORDER_FLAGS = (*_FLAGS, "-flto=auto", "-fPIC", "-fvisibility=hidden", "-iquote", str(_HERE / "plugin"))
# A loop that calls no function would keep its number of operations in a register. GCC has it since 12.
STORE_IN_LOOPS = "-fno-move-loop-stores"
# A workload's own files, for the agent to remove from a real machine (guest/real/temporary.h).
_TOLD = ("-Dmkstemp=mkstemp_told", "-Dmkdtemp=mkdtemp_told")


def agent(
    workload: Workload | None, compiler: str, libbpf: Sequence[str] = (), *, time_slices: bool = False
) -> Path:
    """The guest agent linked with one workload: a static program, PID 1 of a virtual machine.

    Without a workload it runs external commands. It can load BPF programs if it is told how to link with
    libbpf (`bigiron.libbpf`). With `time_slices` it can end a task's time slice on an emulator after each
    operation, which a real machine's throughput must not pay for (guest/tasks/time_slices.h). UserError with
    the compiler's first error if the workload does not compile.
    """
    if not libbpf and (ready := prebuilt.find("agent", agent_key(workload, compiler, time_slices))):
        return ready
    ours = agent_files()
    flags: tuple[str, ...] = (*_FLAGS, STORE_IN_LOOPS, "-static", "-pthread", *guest_includes())
    if libbpf:
        # Without frame pointers the kernel does not find its way up a stack in user space.
        flags += ("-fno-omit-frame-pointer",)
        ours += sorted(_source_folder("guest").glob("libbpf/*.c"))
    # Once for all workloads: to compile them takes two seconds.
    where = [word for word in libbpf if not word.startswith("-l")]
    own = _compile("agent.o", compiler, (*flags, "-r"), ours, "the agent", where)
    if not workload:
        return _compile("agent", compiler, flags, [own], "the agent", libbpf)
    what, theirs, flags = f"workload {workload.source}", workload.source, (*flags, *_TOLD)
    if time_slices:
        watched = (*flags, "-fsanitize-coverage=trace-pc", "-c")
        theirs = _compile("workload.o", compiler, watched, [theirs], what)
    return _compile("agent", compiler, flags, [own, theirs], what, libbpf)


def matrix_agent(compiler: str) -> Path:
    """The guest agent that runs the tests of the matrix, pairs of system calls, in place of a workload."""
    if ready := prebuilt.find("agent", matrix_agent_key(compiler)):
        return ready
    guest = _source_folder("guest")
    flags = (*_FLAGS, "-static", "-pthread", *guest_includes())
    shared = [source for source in sorted(guest.glob("pairs/*.c")) if source.name != "main.c"]
    sources = [*agent_files(), *sorted(guest.glob("matrix/*.c")), *shared]
    return _compile("agent", compiler, flags, sources, "the agent with its pairs of calls")


def boot(compiler: str) -> Path:
    """PID 1 of a virtual machine until it is given its agent: a static program."""
    if ready := prebuilt.find("boot", boot_key(compiler)):
        return ready
    guest = _source_folder("guest")
    shared = (guest / name for name in ("machine/init.c", "protocol/recorder.c", "protocol/report.c"))
    sources = [*sorted(guest.glob("boot/*.c")), *shared]
    flags = (*_FLAGS, "-static", *guest_includes())
    return _compile("boot", compiler, flags, sources, "what a virtual machine boots into")


def mark(compiler: str) -> Path:
    """bigiron-mark, with which a program marks its own recorded part."""
    if ready := prebuilt.find("bigiron-mark", mark_key(compiler)):
        return ready
    source = _source_folder("guest") / "mark" / "mark.c"
    return _compile("bigiron-mark", compiler, (*_FLAGS, "-static"), [source], "bigiron-mark")


def pairs(compiler: str) -> Path:
    """The static program that makes the system calls of the commutativity matrix's tests."""
    guest = _source_folder("guest")
    sources = [*sorted(guest.glob("pairs/*.c")), guest / "machine" / "affinity.c"]
    flags = (*_FLAGS, "-static", "-pthread", *guest_includes())
    return _compile("pairs", compiler, flags, sources, "the program for pairs of system calls")


def bpf(name: str) -> Path:
    """The BPF program in bpf/: one file for every kernel and every little-endian architecture."""
    debian_s_asm = f"/usr/include/{platform.machine()}-linux-gnu"  # clang looks there for its own target only
    flags = ("-target", "bpfel", "-mcpu=v3", "-O2", "-g", "-idirafter", debian_s_asm, "-c")
    source = _source_folder("bpf") / f"{name}.bpf.c"
    return _compile(f"{name}.bpf.o", "clang", flags, [source], f"the BPF program {name}")


def agent_files() -> list[Path]:
    """The C files of every agent."""
    guest = _source_folder("guest")
    return sorted(file for file in guest.rglob("*.c") if file.parent.name not in _NOT_IN_EVERY_AGENT)


def guest_includes() -> tuple[str, ...]:
    """Where guest/ finds its headers, and a workload, by their names alone, those that are for it."""
    guest = _source_folder("guest")
    folders = (guest, guest / "workload", guest / "tasks", guest / "probes")
    return tuple(word for folder in folders for word in ("-iquote", str(folder)))


def recorder() -> Path:
    """The QEMU plugin that counts."""
    if ready := prebuilt.find("recorder.so", recorder_key()):
        return ready
    return _compile("recorder.so", "gcc", (*RECORDER_FLAGS, "-shared"), recorder_files(), "the recorder")


def recorder_files() -> list[Path]:
    """The recorder's C files, by name: the order in which they are linked changes what is inlined."""
    return sorted(_source_folder("plugin").rglob("*.c"), key=lambda file: file.name)


def recorder_source() -> str:
    """The hash of the recorder's sources: counts of different recorders are not compared."""
    return _sha256(*_contents(map(str, sorted(_source_folder("plugin").rglob("*.[ch]")))))


def guest_source() -> str:
    """The hash of what runs in a virtual machine beside a workload: sources, and how they are compiled."""
    files = _source_folder("guest").rglob("*.[ch]")
    agent = sorted(str(file) for file in files if file.parent.name not in ("matrix", "pairs"))
    return _sha256(*_contents(agent), _this_file())


@cache
def system_calls(compiler: str) -> dict[str, int]:
    """The numbers of system calls by name, as the C library's headers for an architecture have them."""
    if known := prebuilt.index().system_calls.get(_target(compiler)):
        return known
    program = shutil.which(compiler)
    if program is None:
        raise UserError(f"no {compiler} on PATH: {distribution.install(*_packages(compiler))}")
    with tempfile.NamedTemporaryFile("w", suffix=".c") as source:
        source.write("#include <asm/unistd.h>\n")
        source.flush()
        text = _run([program, "-dM", "-E", source.name], "the list of system calls")
    return {name: int(number) for name, number in re.findall(r"#define __NR_(\w+) (\d+)", text)}


def agent_key(workload: Workload | None, compiler: str, time_slices: bool) -> str:
    """The key of an agent without libbpf among the programs that come compiled."""
    return _key("agent", compiler, workload.sha256 if workload else "", "time slices" if time_slices else "")


def matrix_agent_key(compiler: str) -> str:
    """The key of the agent of the matrix."""
    return _key("agent of the matrix", compiler)


def boot_key(compiler: str) -> str:
    """The key of what a virtual machine boots into."""
    return _key("boot", compiler)


def mark_key(compiler: str) -> str:
    """The key of bigiron-mark."""
    return _key("bigiron-mark", compiler)


def recorder_key(machine: str = platform.machine()) -> str:
    """The key of the recorder for hosts of an architecture, as uname(2) names it."""
    return prebuilt.key("recorder.so", machine, recorder_source(), _this_file())


def comes_compiled() -> bool:
    """Whether a virtual machine of x86_64 needs no compiler, unless it is given a workload file."""
    return all(map(prebuilt.holds, (recorder_key(), boot_key(X86_64.compiler))))


def _key(name: str, compiler: str, *parts: str) -> str:
    return prebuilt.key(name, _target(compiler), *_guest_files(), *parts, _this_file())


def _target(compiler: str) -> str:
    """The architecture that a compiler compiles for: the compiler's name depends on the host's."""
    return next((one.name for one in architectures() if one.compiler == compiler), compiler)


def _guest_files() -> list[str]:
    return _contents(map(str, sorted(_source_folder("guest").rglob("*.[ch]"))))


def _this_file() -> str:
    """How things are compiled."""
    return "".join(_contents([__file__]))


def symbols(program: Path) -> str:
    """A program's symbols in the format of /proc/kallsyms: address, type, name."""
    try:
        with program.open("rb") as file, elf.reading(file) as read:
            return "".join(elf.kallsyms(read))
    except (OSError, elf.DamagedElfError) as error:
        raise UserError(f"the symbols of {program} cannot be read: {error}") from None


def _source_folder(name: str) -> Path:
    """The C sources: in an installed package; in a checkout, a link to the top of the tree."""
    return _HERE / name


def _compile(
    name: str,
    compiler: str,
    flags: Sequence[str],
    sources: Sequence[Path],
    what: str,
    libraries: Sequence[str] = (),
) -> Path:
    program = shutil.which(compiler)
    if program is None:
        advice = distribution.install(*_packages(compiler))
        raise UserError(f"no {compiler} on PATH to compile {what}: {advice}")
    store = cache_folder("compiled")
    words = (program, _version(program), name, *flags, *map(str, sources), *libraries)
    command = tuple(map(_in_package, words))
    inputs_of = store / f"{_sha256(*command)}.inputs"
    final = store / _known_digest(inputs_of, command) / name
    if final.exists():
        return final
    with tempfile.TemporaryDirectory(dir=store) as folder:
        made, listed = Path(folder) / name, Path(folder) / "inputs"
        # Before it is compiled: what changes meanwhile is compiled again.
        texts = _dependencies(_run([program, *flags, "-M", *map(str, sources)], what))
        before = _contents(texts)
        linking = [] if {"-c", "-r"} & set(flags) else ["-Wl,--trace"]
        trace = _run([program, *flags, *linking, *map(str, sources), "-o", str(made), *libraries], what)
        objects = _linked(trace) if linking else []
        listed.write_text("\n".join(map(_in_package, [*texts, *objects])))
        final = store / _sha256(*command, *before, *_contents(objects)) / name
        final.parent.mkdir(exist_ok=True)
        made.replace(final)
        listed.replace(inputs_of)
    return final


def _run(command: Sequence[str], what: str) -> str:
    """The output of the compiler; UserError if it fails."""
    return subprocesses.run(command, f"{what} does not compile").stdout


def _version(compiler: str) -> str:
    return subprocesses.run([compiler, "--version"], f"{compiler} does not print its version").stdout


def _dependencies(rules: str) -> list[str]:
    r"""The files that make's rules, as a compiler writes them, name as sources.

    >>> _dependencies("a.o: a.c /usr/a\\ b.h \\\n c.h\nb.o: b.c c.h\n")
    ['/usr/a b.h', 'a.c', 'b.c', 'c.h']
    """
    words = re.findall(r"((?:\\.|\S)+)", rules.replace("\\\n", " "))
    files = {re.sub(r"\\(.)", r"\1", word).replace("$$", "$") for word in words if not word.endswith(":")}
    return sorted(files)


def _linked(trace: str) -> list[str]:
    """The libraries and object files that a linker says it read; those of this compilation are gone by now.

    >>> _linked("/usr/bin/ld: mode elf_x86_64 /none/cc7.o (/none/libc.a)printf.o")
    []
    """
    files = set(re.findall(r"[^\s()]+\.(?:a|o|so[.\d]*)\b", trace))
    return sorted(file for file in files if Path(file).exists())


def _known_digest(inputs_of: Path, command: Sequence[str]) -> str:
    """Of the command and its inputs as they are now; of nothing that exists if they are not known."""
    try:
        inputs = [str(_HERE / line) for line in inputs_of.read_text().splitlines()]
        return _sha256(*command, *_contents(inputs))
    except (OSError, UnicodeDecodeError):
        return "unknown"


def _in_package(word: str) -> str:
    """A path without this package's own folder: checkouts with the same sources share what they compile."""
    return word.removeprefix(f"{_HERE}/")


def _contents(files: Iterable[str]) -> list[str]:
    """The name and the content's digest of each file."""
    return [f"{path.name} {_digest(path, path.stat().st_mtime_ns)}" for path in map(Path, files)]


@cache
def _digest(file: Path, _modified_ns: int) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _sha256(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def _packages(compiler: str) -> tuple[str, ...]:
    known = {"gcc": ("gcc", "libc6-dev"), "clang": ("clang", "libbpf-dev")}
    targets = {one.compiler: one.compiler_packages for one in architectures()}
    return (targets | known).get(compiler, (compiler,))
