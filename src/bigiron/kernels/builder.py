"""Kernels built from source: patched, configured to be small, compiled outside of the user's tree, and kept.

All sources of one family (one Debian series, one tree of the user's) are built in one folder an architecture:
there the next build compiles only what differs from the last.
"""

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from bigiron.architectures import Architecture, architecture, known_arch
from bigiron.errors import BuildHostError, SourceBuildError, UserError
from bigiron.kernels import compiled_files, configuration, image, source, store, variables
from bigiron.kernels.configuration import ConfigOption
from bigiron.kernels.kernel import Kernel
from bigiron.kernels.source import KernelSource
from bigiron.util import distribution, subprocesses
from bigiron.util.cache_dir import cache_folder, locked
from bigiron.util.parent_death import run_with_all_it_starts

# What the kernel's make starts, and the packages that it is in
_TOOLS = {"make": "make", "flex": "flex", "bison": "bison", "bc": "bc", "pahole": "dwarves"}
_ERROR = re.compile(r".*(\b[Ee]rror: |syntax error|undefined reference|FAILED: |No rule to make target).*")
_OF_THE_HOST = re.compile(
    r"No space left on device|Disk quota exceeded|: Read-only file system|: Input/output error"
    r"|Cannot allocate memory|\bout of memory allocating\b|virtual memory exhausted"
    # Not in a line of the source, which the compiler quotes.
    r"|^make.*\b(?:Killed|Terminated|Error 1(?:37|43))$"
    r"|^(?:\S+: line \d+: +\d+ )?(?:Killed|Terminated)(?: .*)?$"  # a shell's words of pahole
    r"|fatal error: (?:Killed|Terminated) signal.*|terminated with signal \d+ \[(?:Killed|Terminated)\]",
    re.MULTILINE,
)
_NO_SUCH_PROGRAM = re.compile(
    # One with a path in its name may be a script that the source lacks.
    r"^(?:.*\bsh: (?:(?:line )?\d+: )?[\w.+-]+: (?:command )?not found"
    r"|make(?:\[\d+\])?: [\w.+-]+: (?:No such file or directory|Command not found))$",
    re.MULTILINE,
)
_STOP = re.compile(r".*\*\*\* .*")

_PAHOLE = """\
#!/bin/sh
for argument do
    shift
    case $argument in -j*) ;; *) set -- "$@" "$argument" ;; esac
done
exec pahole "$@"
"""

# So that the same source makes the same image, and ccache finds what another build compiled.
_REPRODUCIBLE = {
    "KBUILD_BUILD_TIMESTAMP": "1970-01-01",
    "KBUILD_BUILD_USER": "bigiron",
    "KBUILD_BUILD_HOST": "bigiron",
    "KBUILD_BUILD_VERSION": "1",
    "CCACHE_NOHASHDIR": "1",
}


def build(
    spelled: str,
    patches: Sequence[Path],
    fragments: Sequence[Path],
    arch: str,
    name: str | None,
    on_step: Callable[[str], None],
    *,
    replace: bool = False,
    may_lack: Collection[str] = (),
) -> Kernel:
    """Build the source `spelled` with these patches and fragments of configuration; give the kernel a name.

    A kernel that was built from identical sources is not built again. Another kernel of that name is replaced
    (`replace`), or is a UserError. `may_lack`: options that the fragments set, and the kernel need not have.
    """
    arch = known_arch(arch)
    target = architecture(arch)
    options = configuration.config_options(arch, fragments)
    compiler = check_tools(arch)
    original = source.find(spelled, on_step)
    tree = source.patched(original, patches)
    version = source.kernel_version(original)
    name = name or "+".join([version, *(file.stem for file in (*patches, *fragments))])
    store.check_name(name)
    recipe = _recipe(original, patches, tree, options, compiler)
    if here := _already(name, arch, recipe, replace):
        return here
    folder = cache_folder("builds") / f"{original.family}@{arch}"
    folder.mkdir(exist_ok=True)
    waiting = "waiting for another bigiron that is building from this source"
    with locked(folder, lambda: on_step(waiting)) as lock:
        on_step(f"updating the source files in {folder}")
        source.check_out(tree, original, folder / "source")
        make = _Make(folder, target, lock)
        make.configure(options, may_lack)
        on_step(f"compiling Linux {version} for {arch}; the log is {make.log}")
        built = make.image()
        variables.read(make.vmlinux)
        with store.writing(on_step) as staging:
            if here := _already(name, arch, recipe, replace):
                return here
            kept = staging / "image"
            if built.name == "vmlinux":
                strip: list[str | Path] = [f"{target.tools}objcopy", "--strip-debug", built, kept]
                subprocesses.run(strip, f"{built} cannot be stripped of its debug information")
            else:
                shutil.copyfile(built, kept)
            facts = image.read(kept, str(built))
            return store.keep(
                kept,
                name,
                facts,
                original.package_version,
                recipe,
                replace=replace,
                compiled_from=make.compiled_from(),
            )


def check_tools(arch: str) -> str:
    """The compiler and its version, for instance "gcc 12.2.0"; UserError with all tools that are missing."""
    target = architecture(arch)
    tools = _TOOLS | {target.compiler: target.compiler_packages[0]}
    missing = {one: package for one, package in tools.items() if shutil.which(one) is None}
    if missing:
        advice = distribution.install(*missing.values())
        raise BuildHostError(f"no {', '.join(missing)} on PATH to build a kernel with: {advice}")
    asked = [target.compiler, "-dumpfullversion"]
    version = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    return f"{target.compiler} {version}"


def _recipe(
    original: KernelSource, patches: Sequence[Path], tree: str, options: Sequence[ConfigOption], compiler: str
) -> str:
    """The kernel's sources. The tree's id covers the patches' content."""
    config = hashlib.sha256(configuration.text(options).encode()).hexdigest()
    patched = f" with {', '.join(patch.name for patch in patches)}" if patches else ""
    return f"{original.description}{patched}: tree {tree[:12]}, configuration {config[:12]}, {compiler}"


def _already(name: str, arch: str, recipe: str, replace: bool) -> Kernel | None:
    here = store.lookup(name, arch)
    if here and here.source != recipe:
        if replace:
            return None
        raise UserError(
            f"{name!r} is another kernel already ({here.source}): "
            f"choose another name with --name, or delete {here.image.parent}"
        )
    return here


class _Make:
    """The kernel's own make, in a build folder: `source` is what is compiled, `objects` what it makes."""

    def __init__(self, folder: Path, target: Architecture, lock: int) -> None:
        self.log, self._lock, self._target = folder / "log", lock, target
        self._source, self._objects = folder / "source", folder / "objects"
        self._objects.mkdir(exist_ok=True)
        cached = "ccache " if shutil.which("ccache") else ""
        self._command = [
            "make",
            "-C",
            str(self._source),
            f"O={self._objects}",
            f"-j{len(os.sched_getaffinity(0))}",
            f"ARCH={target.kernel_arch}",
            f"CROSS_COMPILE={target.tools}",
            f"CC={cached}{target.compiler}",
            f"HOSTCC={cached}gcc",
            f"PAHOLE={_pahole_of_one_thread(folder)}",
            "LOCALVERSION=",
        ]
        caching = {"CCACHE_DIR": str(cache_folder("ccache")), "CCACHE_BASEDIR": str(folder)}
        self._environment = _fit_for_make(os.environ) | _REPRODUCIBLE | caching

    def configure(self, options: Sequence[ConfigOption], may_lack: Collection[str]) -> None:
        """Set the requested options and no others; UserError if the kernel drops one."""
        fragment = self._objects / "options.config"
        fragment.write_text(configuration.text(options), encoding="utf-8")
        self._run("w", f"KCONFIG_ALLCONFIG={fragment}", "allnoconfig")
        configuration.check(options, self._objects / ".config", self._source, may_lack)

    def image(self) -> Path:
        """Compile what is not compiled yet. QEMU boots an x86 kernel's ELF file only if it has PVH."""
        config = (self._objects / ".config").read_text(encoding="utf-8")
        if self._target.kernel_arch == "x86" and "CONFIG_PVH=y\n" not in config:  # before 5.0
            self._run("a", "bzImage")
            return self._objects / "arch" / "x86" / "boot" / "bzImage"
        if self._target.kernel_arch == "arm64":
            self._run("a", "Image")
            return self._objects / "arch" / "arm64" / "boot" / "Image"
        self._run("a", "vmlinux")
        return self.vmlinux

    @property
    def vmlinux(self) -> Path:
        """The kernel as it is linked, with its debugging information."""
        return self._objects / "vmlinux"

    def compiled_from(self) -> set[str]:
        """The files of the source that compilers read for this kernel."""
        return compiled_files.compiled_from(self._source, self._objects, self.vmlinux)

    def _run(self, mode: str, *goal: str) -> None:
        with self.log.open(mode) as log:
            # A compiler that goes on would write its object after the next build has written the source.
            status = run_with_all_it_starts([*self._command, *goal], log, self._environment, self._lock)
        if status:
            said = self.log.read_text(encoding="utf-8", errors="replace")
            if why := _why_not_here(said):
                raise BuildHostError(f"this host cannot build the kernel: {why} (the log is {self.log})")
            raise SourceBuildError(f"the kernel does not build: {_first_error(said)} (the log is {self.log})")


def _pahole_of_one_thread(folder: Path) -> Path:
    """A pahole that ignores -j: with several threads the size of .BTF, and what lies behind it, is chance."""
    script = folder / "pahole"
    script.write_text(_PAHOLE, encoding="utf-8")
    script.chmod(0o755)
    return script


def _fit_for_make(environment: Mapping[str, str]) -> dict[str, str]:
    """Without what would reach into the kernel's make or change its language: it lets no LC_ALL through."""
    theirs = re.compile(r"(KBUILD|KCONFIG|MAKE|CCACHE|MFLAGS|INSTALL|LANG|LC_).*")
    return {name: value for name, value in environment.items() if not theirs.fullmatch(name)}


def _why_not_here(log: str) -> str:
    r"""The part of make's output that is the host's fault; empty if the source is to blame.

    >>> _why_not_here("/bin/sh: 1: bison: not found\nmake: *** [a.tab.c] Error 127\n")
    '/bin/sh: 1: bison: not found'
    >>> _why_not_here("cc1: out of memory allocating 65536 bytes after a total of 9 bytes\n")
    'out of memory allocating'
    >>> _why_not_here("gcc: fatal error: Killed signal terminated program cc1\nmake: *** [a.o] Error 1\n")
    'fatal error: Killed signal terminated program cc1'
    >>> _why_not_here("make[2]: *** [Makefile:250: a.o] Terminated\n")
    'make[2]: *** [Makefile:250: a.o] Terminated'
    >>> _why_not_here('a.c:7:2: error: x\n    7 | x = "Terminated"\nmake: *** [a.o] Error 1\n')
    ''
    >>> _why_not_here("/bin/sh: 1: pahole: not found\na.c:7:2: error: x\nmake: *** [a.o] Error 1\n")
    ''
    """
    found = _OF_THE_HOST.search(log) or (_NO_SUCH_PROGRAM.search(log) if "Error 127" in log else None)
    return found[0].strip() if found else ""


def _first_error(log: str) -> str:
    r"""The first error in make's output, which goes on after it.

    >>> _first_error("  CC a.o\n../source/a.c:7:2: error: expected ';'\nmake: *** [a.o] Error 1\n")
    "a.c:7:2: error: expected ';'"
    """
    found = _ERROR.search(log) or _STOP.search(log)
    line = found[0] if found else subprocesses.last_line(log, "make printed nothing")
    return line.strip().replace("../source/", "")
