"""Whatever the code, the tests and the benchmarks start is named in setup.sh, and so installed by it.

Read from the source: the first word of every command, and what is looked for on PATH.
"""

import ast
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from test_setup import ROOT

import bigiron

STARTERS = {
    *(f"subprocess.{name}" for name in ("run", "Popen", "check_output", "check_call", "call")),
    *(f"os.{name}" for name in ("execv", "execvp", "execve", "posix_spawn", "posix_spawnp", "system")),
    "shutil.which",
}

GCC = {"gcc", "powerpc64le-linux-gnu-gcc", "aarch64-linux-gnu-gcc", "x86_64-linux-gnu-gcc"}
QEMU = {"qemu-system-x86_64", "qemu-system-ppc64", "qemu-system-aarch64"}
MADE_HERE = "/"  # a file that the function was given: a fixture compiled it
OURS: set[str] = set()  # bigiron itself, a program that was just compiled, or the Python that runs it
STANDS_FOR = {
    # Which programs an expression can be where one is started: say it here for one that is not literal.
    "BIGIRON": OURS,
    "PROGRAM": {"sshd"},
    "_command()": {"sh", "ssh"},
    "_dpkg_deb()": {"dpkg-deb"},
    "_helper()": OURS,  # apt's own, beside its methods
    "_ours()": {"ssh"},
    "FRESH": {"fresh.sh"},
    "agent": OURS,
    "asked": OURS,
    "bigiron_itself()": {"setpriv", "sh"},
    "binary": QEMU | GCC,
    "command[0]": {"ssh"} | QEMU,
    "command": {"perf", "setup.sh"} | QEMU | GCC,
    "compiler": {"clang"} | GCC,
    "dying_with()": {"setpriv", "sh"},
    "namespaces()": {"unshare"},
    "kind.mkfs[0]": {"mkfs.ext4", "mkfs.xfs", "mkfs.btrfs", "mkfs.f2fs"},
    "one": {"make", "flex", "bison", "bc", "pahole"} | GCC,
    "path": QEMU | GCC | {"perf"},
    "pip": OURS,
    "program": OURS,
    "python": OURS,
    "ssh.program()": {"ssh"},
    "starts": OURS,
    "sys.executable": OURS,
    "target.compiler": GCC,
    "target.prefix": {""},  # before the name of a tool
    "tool": {"apt-get", "apt-cache", "apt-config", "clang", "flex", "bison", "bc", "pahole", "objdump"} | GCC,
}
NOT_INSTALLED = {
    # Looked for, and done without where it is not.
    "perf": "doctor says whether it counts; it belongs to the running kernel",
    "offcputime": "benchmarks/recorder/blocked.py compares with it",
    "strace": "benchmarks/counts/upstream_loops.py compares system calls with it",
}


def declared() -> set[str]:
    """Programs in setup.sh's table."""
    table = re.findall(
        r"^(?:program|qemu|emulator|rust|python) +(\S+) ", (ROOT / "setup.sh").read_text(), re.MULTILINE
    )
    assert len(table) > 20
    return set(table)


def programs_started(source: str) -> dict[int, set[str]]:
    r"""By line, the programs that it may start or look for.

    >>> programs_started("mount = ['mount', '-t', 'tmpfs', disk]\nsubprocess.run(mount)\nshutil.which('go')")
    {2: {'mount'}, 3: {'go'}}
    """
    tree = ast.parse(source)
    assigned: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.arg) and node.annotation and ast.unparse(node.annotation) == "Path":
            assigned.setdefault(node.arg, []).append(ast.Constant(MADE_HERE))
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            assigned.setdefault(node.targets[0].id, []).append(node.value)
    return {
        node.lineno: programs(node.args[0], assigned)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and node.args and ast.unparse(node.func) in STARTERS
    }


def programs(command: ast.expr, assigned: dict[str, list[ast.expr]]) -> set[str]:
    """What the first word of a command can be; a name stands for whatever literal the file assigns to it."""
    match command:
        case ast.Constant(value=str(word)):
            return {Path(word.split()[0]).name}
        case ast.JoinedStr(values=[ast.FormattedValue(value=first), ast.Constant(value=str(rest))]):
            return {word + rest for word in programs(first, assigned)}
        case ast.List(elts=[first, *_]) | ast.Tuple(elts=[first, *_]) | ast.JoinedStr(values=[first, *_]):
            return programs(first, assigned)
        case ast.Starred(value=first) | ast.BinOp(left=first):
            return programs(first, assigned)
        case ast.Call(args=[first, *_]) if ast.unparse(command.func) in ("str", "shutil.which"):
            return programs(first, assigned)
        case ast.Name(id=name):
            values = set[str]().union(*(programs(value, {}) for value in assigned.get(name, [])))
            if literal := {word for word in values if not word.startswith("`")}:
                return literal - {Path(MADE_HERE).name}
    name = f"{ast.unparse(command.func)}()" if isinstance(command, ast.Call) else ast.unparse(command)
    return STANDS_FOR.get(name, {f"`{name}` (say in STANDS_FOR which programs that can be)"})


@pytest.mark.slow
def test_what_is_started_is_installed() -> None:
    known = declared() | NOT_INSTALLED.keys() | {"setup.sh", "fresh.sh"}
    unknown = [
        f"{file.relative_to(ROOT)}:{line} starts {program}"
        for room in ("src", "tests", "benchmarks", "tools")
        for file in (ROOT / room).rglob("*.py")
        if any(starter in (text := file.read_text()) for starter in STARTERS)
        for line, found in programs_started(text).items()
        for program in found - known
    ]
    assert not unknown, "not in setup.sh's table:\n" + "\n".join(sorted(unknown))


def test_a_program_that_is_not_named_is_found() -> None:
    source = "command = ['rsync', '-a']\nsubprocess.run(command)\nsubprocess.Popen([strange])"
    assert programs_started(source) == {
        2: {"rsync"},
        3: {"`strange` (say in STANDS_FOR which programs that can be)"},
    }


def said_of_imports(script: str) -> str:
    """What a fresh Python says as it exits."""
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True)
    return done.stderr


def test_no_command_waits_for_what_only_some_need() -> None:
    script = (
        "import importlib, pkgutil, sys, bigiron.cli, bigiron.commands\n"
        "before = [name for name in sys.modules if name.startswith('bigiron.probes')]\n"
        "for one in pkgutil.walk_packages(bigiron.commands.__path__, 'bigiron.commands.'):\n"
        "    importlib.import_module(one.name)\n"
        "late = {'distributed', 'dask', 'numpy', 'polars', 'scipy'}\n"
        "sys.exit(repr(before + sorted(late & sys.modules.keys())))"
    )
    assert said_of_imports(script) == "[]\n"


def test_to_measure_loads_nothing_that_only_reports_or_other_machines_need() -> None:
    script = (
        "import sys, bigiron.cli, bigiron.commands.measurements.run\n"
        "late = {'bigiron.analysis.comparison.model', 'bigiron.analysis.statistics.growth',\n"
        "        'bigiron.analysis.probes.throughput', 'bigiron.machines.real.real', 'bigiron.readers',\n"
        "        'importlib.metadata'}\n"
        "sys.exit(repr(sorted(late & sys.modules.keys())))"
    )
    assert said_of_imports(script) == "[]\n"


def test_it_says_the_version_that_is_installed() -> None:
    assert bigiron.__version__ == version("bigiron")
