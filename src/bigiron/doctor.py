"""What this machine has of all that bigiron uses, and how to get what is missing."""

import ctypes
import errno
import os
import platform
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from bigiron import compile, libbpf
from bigiron.architectures import X86_64, Architecture, architectures
from bigiron.errors import UserError
from bigiron.kernels import builder
from bigiron.kernels.archives import debian
from bigiron.machines.real import cpu_quota, real
from bigiron.machines.vm.qemu import find_qemu, how_to_get
from bigiron.roots import image, packages
from bigiron.util import distribution, host_memory, subprocesses

CheckState = Literal["ok", "missing", "limited"]

_DEMO_CPUS = 8
_BTF = Path("/sys/kernel/btf/vmlinux")
_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")


@dataclass(frozen=True)
class Check:
    """The result of looking for one thing.

    ```
    Check(name='QEMU for ppc64le', state='missing', found='no qemu-system-ppc64 on PATH',
          advice='apt-get install -t bookworm-backports qemu-system-ppc')
    ```
    """

    name: str
    state: CheckState
    found: str
    advice: str = ""  # what to do; "" if there is nothing to do


def examine() -> list[Check]:
    """Look for everything that bigiron uses, first what recording conflicts needs.

    Takes some seconds, and half a minute where /dev/kvm exists but boots no kernel.
    """
    others = [one for one in architectures() if one is not X86_64]
    return [
        _qemu(X86_64),
        _plugins(),
        _own_workloads_only(_compiler("gcc", "gcc", "gcc")),
        _own_workloads_only(_static_library(X86_64)),
        _memory(),
        _cpus(),
        _apt(),
        _keyring(),
        _kvm(),
        *(check(one) for one in others for check in (_qemu, _static_library)),
        *map(_kernel_builds, (X86_64, *others)),
        *map(_roots, (X86_64, *others)),
        _bpf_programs(X86_64),
        _bpf(),
        _perf(),
    ]


def lacking(target: Architecture, *, builds_kernels: bool, loads_bpf: bool) -> list[Check]:
    """What virtual machines of an architecture need and this machine lacks."""
    compiled = compile.comes_compiled() and not loads_bpf
    gcc = [] if target.is_native or compiled else [_compiler("gcc", "gcc", "gcc")]
    library = [] if target is X86_64 and compiled else [_static_library(target)]
    builds = [_kernel_builds(target)] if builds_kernels else []
    bpf = [_bpf_programs(target)] if loads_bpf else []
    checks = [_qemu(target), *gcc, *library, *builds, *bpf]
    return [check for check in checks if check.state != "ok"]


def how_to_get_all(target: Architecture, lacks: Sequence[Check]) -> str:
    """The command that installs what is missing; in a checkout, its own setup."""
    if (Path(__file__).parents[2] / "setup.sh").exists():
        return "make setup" if target is X86_64 else f"make setup-{target.name}"
    return "; ".join(dict.fromkeys(check.advice for check in lacks))


def can_run(checks: list[Check]) -> bool:
    """Whether conflicts of x86_64 kernels can be recorded in virtual machines.

    >>> can_run([Check("gcc", "missing", "no gcc on PATH")])
    False
    """
    state = {check.name: check.state for check in checks}
    emulates = all(state.get(name) == "ok" for name in ("QEMU for x86_64", "QEMU plugins"))
    compilers = ("gcc", _row_of_compiler(X86_64))
    return emulates and all(state.get(name, "missing") != "missing" for name in compilers)


def _qemu(target: Architecture) -> Check:
    name, binary = f"QEMU for {target.name}", target.qemu
    qemu = find_qemu(binary)
    if qemu is None:
        return Check(name, "missing", f"no {binary} on PATH", how_to_get(binary))
    if qemu.fault:
        return Check(name, "limited", f"{qemu.path} {qemu.fault}", how_to_get(binary, found=qemu))
    return Check(name, "ok", f"{qemu.version}, {qemu.path}")


def _static_library(target: Architecture) -> Check:
    """The static C library of the guest agent's compiler; a cross compiler is checked together with it."""
    compiler, library = target.compiler_packages
    needed = (library,) if target.is_native else (compiler, library)
    return _compiler(_row_of_compiler(target), target.compiler, *needed, static=True)


def _row_of_compiler(target: Architecture) -> str:
    return "static C library" if target.is_native else f"cross compiler for {target.name}"


def _plugins() -> Check:
    qemu = find_qemu("qemu-system-x86_64")
    if qemu and qemu.plugins:
        return Check("QEMU plugins", "ok", "built in")
    found = "not built in" if qemu else "no QEMU"
    return Check("QEMU plugins", "missing", found, how_to_get("qemu-system-x86_64", found=qemu))


def _compiler(name: str, binary: str, *needed: str, static: bool = False) -> Check:
    """A compiler is ok when it has compiled a program; being installed is not enough."""
    advice, flags = distribution.install(*needed), ["-static"] if static else []
    path = shutil.which(binary)
    if path is None:
        return Check(name, "missing", f"no {binary} on PATH", advice)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "probe.c"
        source.write_text('#include <stdio.h>\nint main(void) { return puts("") < 0; }\n', encoding="utf-8")
        done = _run_tool(path, *flags, compile.STORE_IN_LOOPS, str(source), "-o", f"{folder}/probe")
    if done.returncode:
        return Check(
            name, "missing", f"{path} cannot compile a program: {subprocesses.last_line(done.stderr)}", advice
        )
    if static:
        library = _run_tool(path, "-print-file-name=libc.a").stdout.strip()
        return Check(name, "ok", os.path.realpath(library))
    return Check(name, "ok", _run_tool(path, "--version").stdout.partition("\n")[0])


def _own_workloads_only(check: Check) -> Check:
    """The compiler's check, where this installation brought all that a built-in workload needs."""
    if check.state == "ok" or not compile.comes_compiled():
        return check
    found = f"{check.found}; needed for workload files: built-in workloads come compiled"
    return replace(check, state="limited", found=found)


def _memory() -> Check:
    from bigiron.machines.vm.topology import MOST_BOOTED
    from bigiron.machines.vm.vm import least_mib, memory_mib

    here, physical = host_memory.host_mib(), host_memory.physical_mib()
    cpus = max((n for n in range(1, X86_64.most_cpus + 1) if least_mib(memory_mib(n), n) <= here), default=0)
    limit = f", the limit of its control group ({physical / 1024:.1f} GiB without)" if here < physical else ""
    found = f"{here / 1024:.1f} GiB{limit}: virtual machines of up to {cpus} CPUs"
    if cpus > MOST_BOOTED:
        found += f" ({MOST_BOOTED} are the most that were tried with success)"
    if cpus < _DEMO_CPUS:
        return Check("memory", "limited", found, "use smaller virtual machines: --memory MIB")
    return Check("memory", "ok", found)


def _cpus() -> Check:
    cpus = len(os.sched_getaffinity(0))
    quota = 0.0
    with suppress(OSError):  # no shell
        quota = cpu_quota.parse(real.remote_output("", cpu_quota.SCRIPT, cpu_quota.OWN, cpu_quota.TOP))
    found = f"{cpus}; virtual machines can have more than that"
    if 0 < quota < cpus:
        advice = "for real machines: raise cpu.max of the control group"
        return Check("CPUs", "limited", f"{found}; a quota of {quota:g} CPUs throttles tasks here", advice)
    return Check("CPUs", "ok", found)


def _apt() -> Check:
    try:
        main, security = debian.mirrors()
    except UserError as error:
        return Check("apt", "missing", str(error), "without it: bigiron kernel add PATH")
    return Check("apt", "ok", " and ".join(filter(None, (main, security))))


def _keyring() -> Check:
    if debian.KEYRING.exists():
        return Check("Debian's keys", "ok", str(debian.KEYRING))
    advice = distribution.install("debian-archive-keyring")
    return Check("Debian's keys", "missing", f"no {debian.KEYRING}", advice)


def _kvm() -> Check:
    from bigiron.machines.vm import kvm

    trial = kvm.try_again()
    if trial.works:
        return Check("KVM", "ok", trial.why)
    state: CheckState = "limited" if kvm.DEVICE.exists() else "missing"
    return Check(
        "KVM",
        state,
        subprocesses.last_line(trial.why),
        "not needed: counts are recorded in software emulation",
    )


def _kernel_builds(target: Architecture) -> Check:
    name = "kernels from source" + ("" if target is X86_64 else f" for {target.name}")
    try:
        compiler = builder.check_tools(target.name)
    except UserError as error:
        what, _, advice = str(error).partition(": ")
        return Check(name, "missing", what, advice)
    keeps = (
        "ccache keeps compiled files"
        if shutil.which("ccache")
        else "no ccache: each build folder compiles everything again"
    )
    return Check(name, "ok", f"{compiler}; {keeps}")


def _roots(target: Architecture) -> Check:
    """Root file systems are made of packages as root of a user namespace, which not every machine allows."""
    name = "root file systems" + ("" if target is X86_64 else f" for {target.name}")
    try:
        tools = [image.sqfstar(), packages.mmdebstrap(), packages.find_emulator(target)]
    except UserError as error:
        what, _, advice = str(error).partition(": ")
        return Check(name, "missing", what, advice)
    tried = _run_tool(*packages.namespaces(), "true")
    if tried.returncode:
        advice = distribution.install("uidmap") + ", allow user namespaces, or run as root"
        return Check(name, "limited", f"not of packages: {subprocesses.last_line(tried.stderr)}", advice)
    return Check(name, "ok", ", ".join(filter(None, tools)))


def _bpf_programs(target: Architecture) -> Check:
    """The BPF compiler and libbpf; libraries for other architectures are fetched when needed."""
    name = "BPF compiler, libbpf"
    try:
        linked = libbpf.flags(target) if target.is_native else ()
        program = compile.bpf("blocked")
    except UserError as error:
        what = str(error).partition(f": {distribution.here().command} ")[0]
        return Check(name, "missing", what, distribution.install("clang", *libbpf.PACKAGES))
    return Check(name, "ok", f"clang compiled {program.name}; {' '.join(linked)}")


def _bpf() -> Check:
    """Try to load a trivial tracing program: capabilities alone do not show whether that works."""
    failed = _load_bpf_program()
    if failed == errno.EPERM:
        advice = "run as root, or with CAP_BPF and CAP_PERFMON"
        return Check("BPF", "limited", "no permission to load a tracing program", advice)
    if failed:
        advice = "use a kernel built with CONFIG_BPF_SYSCALL and CONFIG_BPF_EVENTS"
        return Check("BPF", "missing", f"bpf(): {os.strerror(failed)}", advice)
    if not _BTF.exists():
        return Check("BPF", "missing", f"no {_BTF}", "use a kernel built with CONFIG_DEBUG_INFO_BTF")
    return Check("BPF", "ok", f"loads a tracing program; {_BTF}")


def _load_bpf_program() -> int:
    """bpf(BPF_PROG_LOAD) of `r0 = 0; exit` as BPF_PROG_TYPE_TRACEPOINT; errno, 0 if it was loaded."""
    number = {"x86_64": 321, "aarch64": 280, "ppc64le": 361}.get(platform.machine())
    if number is None:
        return errno.ENOSYS
    program = ctypes.create_string_buffer(struct.pack("=BBhiBBhi", 0xB7, 0, 0, 0, 0x95, 0, 0, 0))
    license_ = ctypes.create_string_buffer(b"GPL")
    attributes = struct.pack("=IIQQ", 5, 2, ctypes.addressof(program), ctypes.addressof(license_))
    loaded: int = ctypes.CDLL(None, use_errno=True).syscall(number, 5, attributes, len(attributes))
    if loaded < 0:
        return ctypes.get_errno()
    os.close(loaded)
    return 0


def _perf() -> Check:
    path = shutil.which("perf")
    if path is None:
        return Check("perf", "missing", "no perf on PATH", distribution.install("linux-perf"))
    done = _run_tool(path, "stat", "-x,", "-e", "instructions", "--", sys.executable, "-c", "pass")
    lines = [line.partition(",")[0] for line in done.stderr.splitlines()]  # one for each kind of core
    counted = next(filter(str.isdecimal, lines), subprocesses.last_line(done.stderr).partition(",")[0])
    paranoid = _PARANOID.read_text(encoding="ascii").strip() if _PARANOID.exists() else "unknown"
    setting = f"kernel.perf_event_paranoid is {paranoid}"
    if not counted.isdecimal():
        advice = "needed on real machines only; few virtual machines have such counters"
        return Check("perf", "limited", f"no hardware counters ({counted}); {setting}", advice)
    if os.geteuid() and paranoid not in ("-1", "0", "1"):
        advice = "run as root, or: sysctl kernel.perf_event_paranoid=1"
        return Check("perf", "limited", f"counts user code only; {setting}", advice)
    return Check("perf", "ok", f"hardware counters work; {setting}")


def _run_tool(*command: str) -> "subprocess.CompletedProcess[str]":
    """Run a tool; a tool that cannot start or does not end in time has failed."""
    try:
        return subprocesses.completed(command, timeout_s=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(command, 1, "", str(error))
