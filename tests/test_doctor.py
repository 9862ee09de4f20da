"""doctor: the tools of this very machine, a machine without any, and tools that do not do their work."""

import doctest
import encodings.ascii  # noqa: F401  # the unprivileged child may not be able to read it
import multiprocessing
import os
import platform
import re
from importlib.metadata import version
from pathlib import Path

import pytest
from conftest import bigiron as command

import bigiron.machines.vm.vm  # noqa: F401  # the same
from bigiron import doctor
from bigiron.architectures import AARCH64, X86_64
from bigiron.doctor import Check, can_run
from bigiron.machines.vm import qemu
from bigiron.report import doctor as bug_report
from bigiron.util import host_memory

NAMES = [
    "QEMU for x86_64", "QEMU plugins", "gcc", "static C library", "memory", "CPUs", "apt", "Debian's keys",
    "KVM", "QEMU for aarch64", "cross compiler for aarch64", "QEMU for ppc64le", "cross compiler for ppc64le",
    "kernels from source", "kernels from source for aarch64", "kernels from source for ppc64le",
    "root file systems", "root file systems for aarch64", "root file systems for ppc64le",
    "BPF compiler, libbpf", "BPF", "perf",
]  # fmt: skip


def examine() -> dict[str, Check]:
    checks = {check.name: check for check in doctor.examine()}
    assert list(checks) == NAMES
    for check in checks.values():
        assert check.found and bool(check.advice) == (check.state != "ok"), check
        assert "\n" not in check.found + check.advice, check
    return checks


@pytest.fixture
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """For what is tried with tools that do not do their work."""
    monkeypatch.setenv("BIGIRON_CACHE", str(tmp_path / "cache"))


def fake(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def test_the_examples() -> None:
    assert doctest.testmod(doctor).failed == 0


def test_this_machine() -> None:
    checks = examine()
    assert can_run(list(checks.values()))  # what makes these tests run makes the main job run
    missing = {name for name, check in checks.items() if check.state == "missing"}
    assert missing <= {"KVM", "BPF", "perf"}, checks  # `setup.sh test` installs what a package has
    assert checks["static C library"].found.endswith("/libc.a")
    assert checks["CPUs"].found.startswith(f"{len(os.sched_getaffinity(0))};")


def test_a_report_for_a_bug_has_versions_and_nothing_private(tmp_path: Path) -> None:
    # A QEMU and a mirror of the user's own, whose names a report must not have.
    fake(tmp_path, "qemu-system-x86_64", "echo QEMU emulator version 7.2.1")
    own = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}", "USER": "ann", "LOGNAME": "ann", "HOME": str(tmp_path),
        "BIGIRON_CACHE": str(tmp_path / "cache"), "BIGIRON_DEBIAN_MIRROR": "http://mirror.ann.example/debian",
    }  # fmt: skip
    answer = command("doctor", "--report", **own)
    assert answer.status == 0, answer
    assert answer.out.startswith(f"bigiron {version('bigiron')}, Python {platform.python_version()}\n")
    assert (
        "limited  QEMU for x86_64: …/qemu-system-x86_64 is QEMU 7.2.1, and versions before 10" in answer.out
    )
    assert re.search(r"^ok +apt: …$", answer.out, re.MULTILINE)
    for private in (str(tmp_path), str(Path.home()), "ann", platform.node(), "://"):
        assert not re.search(rf"(?<![\w-]){re.escape(private)}(?![\w-])", answer.out), private
    for name in NAMES:
        assert re.search(rf"^(ok|missing|limited) +{name}: ", answer.out, re.MULTILINE), name


def test_more_cpus_fit_than_were_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    for gib, cpus in ((1, "30 CPUs"), (24, "2373 CPUs (1024 are the most that were tried with success)")):
        monkeypatch.setattr(host_memory, "host_mib", lambda gib=gib: gib << 10)
        monkeypatch.setattr(host_memory, "physical_mib", lambda gib=gib: gib << 10)
        assert doctor._memory().found == f"{gib:.1f} GiB: virtual machines of up to {cpus}"


@pytest.mark.parametrize(
    ("own", "file", "limit"),
    [
        ("0::/kubepods/pod1/c\n", "kubepods/memory.max", "67108864"),
        ("0::/../other\n", "memory.max", "67108864"),
        ("5:cpu,cpuacct:/\n4:memory:/docker/c\n0::/\n", "memory/memory.limit_in_bytes", "67108864"),
        ("0::/kubepods/pod1/c\n", "kubepods/memory.max", "max"),
        ("4:memory:/\n", "memory/memory.limit_in_bytes", "9223372036854771712"),
    ],
)
def test_the_memory_of_a_container_is_its_limit(tmp_path: Path, own: str, file: str, limit: str) -> None:
    (tmp_path / "own").write_text(own)
    place = tmp_path / "cgroup" / file
    place.parent.mkdir(parents=True)
    place.write_text(f"{limit}\n")
    expected = 64 if limit == "67108864" else host_memory.physical_mib()
    assert host_memory.host_mib(tmp_path / "own", tmp_path / "cgroup") == expected


def test_the_limit_of_a_container_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_memory, "host_mib", lambda: 4 << 10)
    monkeypatch.setattr(host_memory, "physical_mib", lambda: 64 << 10)
    assert doctor._memory().found.startswith("4.0 GiB, the limit of its control group (64.0 GiB without): ")


@pytest.mark.parametrize("order", [("1204", "<not counted>"), ("<not counted>", "1204")])
def test_counters_of_a_processor_with_two_kinds_of_cores(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, order: tuple[str, str]
) -> None:
    """There is a line for each kind, and Python ran on one of them."""
    lines = (
        f"{n},,cpu_{kind}/instructions/,9,50.0,," for n, kind in zip(order, ("atom", "core"), strict=True)
    )
    fake(tmp_path, "perf", "".join(f"echo '{line}' >&2;" for line in lines))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert "no hardware counters" not in doctor._perf().found


def test_a_report_is_a_text() -> None:
    assert doctest.testmod(bug_report).failed == 0
    answer = command("doctor", "--report", "--format", "json")
    assert (answer.status, answer.complaint) == (2, "--report is a text: leave out --format")


@pytest.mark.usefixtures("own_cache")
def test_a_machine_without_tools(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    checks = examine()
    missing = {name for name, check in checks.items() if check.state == "missing"}
    assert missing >= {
        "QEMU for x86_64", "QEMU plugins", "gcc", "static C library", "apt", "QEMU for ppc64le",
        "cross compiler for ppc64le", "QEMU for aarch64", "cross compiler for aarch64", "kernels from source",
        "perf",
    }  # fmt: skip
    assert checks["gcc"].found == "no gcc on PATH"
    assert not can_run(list(checks.values()))


@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize(
    ("script", "states", "found"),
    [
        (
            "echo QEMU emulator version 7.2.1",
            ("limited", "ok"),
            "is QEMU 7.2.1, and versions before 10 crash",
        ),
        (
            "echo QEMU emulator version 11.2.0",
            ("limited", "ok"),
            "is QEMU 11.2.0, but the recorder needs",
        ),
        (
            '[ "$1" = --version ] && echo QEMU version 10.1',
            ("limited", "missing"),
            "built without plugin support",
        ),
        ("exit 1", ("limited", "missing"), "does not print its version"),
    ],
)
def test_a_qemu_that_will_not_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, states: tuple[str, str], found: str
) -> None:
    fake(tmp_path, "qemu-system-x86_64", script)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    checks = examine()
    assert (checks["QEMU for x86_64"].state, checks["QEMU plugins"].state) == states
    assert found in checks["QEMU for x86_64"].found
    assert not can_run(list(checks.values()))


@pytest.mark.parametrize(
    ("on_path", "in_wheel", "found"),
    [
        ("8.2.2", "10.0.13", "wheel"),
        ("10.0.2", "10.0.13", "path"),
        (None, "10.0.13", "wheel"),
        ("8.2.2", "12.0.0", "path"),
        (None, "12.0.0", "wheel"),
        ("8.2.2", None, "path"),
        (None, None, None),
    ],
)
def test_the_qemu_wheel_is_used_where_the_one_on_path_will_not_do(
    on_path: str | None,
    in_wheel: str | None,
    found: str | None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    package = tmp_path / "site/bigiron_qemu"
    folders = {"path": tmp_path / "programs", "wheel": package / "bin"}
    for folder, numbers in zip(folders.values(), (on_path, in_wheel), strict=True):
        folder.mkdir(parents=True)
        if numbers:
            fake(folder, "qemu-system-x86_64", f"echo QEMU emulator version {numbers}")
    if in_wheel:
        (package / "__init__.py").write_text("raise AssertionError('it is not imported')\n")
        monkeypatch.syspath_prepend(package.parent)
    monkeypatch.setenv("PATH", str(folders["path"]))
    program = str(folders[found] / "qemu-system-x86_64") if found else "qemu-system-x86_64"
    assert qemu.program("qemu-system-x86_64") == program
    known = qemu.find_qemu("qemu-system-x86_64")
    assert (known and str(known.path)) == (program if found else None)


@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (
            "case $* in *-static*) echo cannot find -lc >&2; exit 1;; *--version) echo gcc 12;; esac",
            "cannot find -lc",
        ),
        ("case $* in *-static*) exit 1;; esac", "it printed nothing"),
    ],
)
def test_a_compiler_without_a_static_library(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, reason: str
) -> None:
    fake(tmp_path, "gcc", script)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    checks = {check.name: check for check in doctor.examine()}
    assert checks["gcc"].state == "ok"
    assert checks["static C library"].state == "missing"
    assert checks["static C library"].found == f"{tmp_path}/gcc cannot compile a program: {reason}"
    assert not can_run(list(checks.values()))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_user_without_rights() -> None:
    other_user = 65534
    with multiprocessing.get_context("fork").Pool(1, os.setuid, (other_user,)) as pool:
        checks = pool.apply(examine)
    assert checks["BPF"].state in ("limited", "missing")
    assert checks["perf"].state in ("limited", "missing")
    assert can_run(list(checks.values()))


def test_which_compilers_another_host_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own for itself, and one for x86_64."""
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert (AARCH64.compiler, AARCH64.compiler_packages) == ("gcc", ("gcc", "libc6-dev"))
    own, cross = "x86_64-linux-gnu-gcc", ("gcc-x86-64-linux-gnu", "libc6-dev-amd64-cross")
    assert (X86_64.compiler, X86_64.compiler_packages, X86_64.tools) == (own, cross, own.removesuffix("gcc"))
    lacks = {check.name for check in doctor.lacking(X86_64, builds_kernels=False, loads_bpf=False)}
    assert lacks <= {"QEMU for x86_64", "gcc", "cross compiler for x86_64"}
    checks = [Check(name, "ok", "") for name in NAMES if name != "static C library"]
    assert not can_run(checks) and can_run([*checks, Check("cross compiler for x86_64", "ok", "")])
