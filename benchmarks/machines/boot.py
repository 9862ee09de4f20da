"""How soon user code runs: bigiron's boot against virtme-ng's.

Same QEMU, kernel image, CPUs, memory and accelerator; the rest is as each of the two has it. They boot in
turn, so that both meet the same machine. Times are by this machine's clock, from QEMU's start to

    first program   the kernel starts the initramfs's program: bigiron's agent, which is also its last; the
                    shell with which virtme-ng loads modules and mounts this machine's files
    init            the init that stays starts: virtme-ng's is a program on those files
    command         the first word of what the user asked to run
    cpu time        of QEMU until then: the same as command on an idle machine, and less blurred on a busy one

virtme-ng's come from its kernel's log. bigiron's three are all the agent's first word, a little late for the
first two; the workload is part of the agent.
"""

import os
import pty
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
import venv
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from bigiron import compile, workloads
from bigiron.architectures import X86_64
from bigiron.kernels.archives import debian
from bigiron.machines.vm import vm
from bigiron.machines.vm.qemu import require_qemu
from bigiron.machines.vm.topology import Topology
from bigiron.util.cache_dir import cache_folder
from bigiron.util.parent_death import dying_with

SERIES = "6.1"
CPUS = 8
ROUNDS = 7
DEADLINE_S = 120
ACCELERATOR = "tcg,thread=single"

VIRTME_NG = "virtme-ng==1.42"
# virtme-ng leaves these to the machine; Debian 12 has no virtiofsd. They run with their own libraries.
PACKAGES = {
    "virtiofsd": "gives virtme-ng's guest this machine's files, as Debian's cloud kernels have no 9p",
    "kmod": "finds the kernel's modules for it",
    "busybox-static": "is its initramfs",
}
LIBRARIES = ["libc6", "libcap-ng0", "libgcc-s1", "libkmod2", "liblzma5", "libseccomp2"]
LIBRARIES += ["libssl3t64", "libzstd1"]
PROGRAMS = {"virtiofsd": "libexec/virtiofsd", "modprobe": "bin/kmod", "depmod": "bin/kmod"}
# The second serial port is free of whatever virtme-ng does with the console.
SCRIPT = (
    "echo word >/dev/ttyS1; echo word >/dev/kmsg; "
    r"dmesg | grep -E '\] (Run /init|virtme-ng-init: |word$)' >/dev/ttyS1; echo end >/dev/ttyS1"
)


@dataclass(frozen=True)
class Boot:
    """Seconds from QEMU's start to each of the moments above, and of QEMU's CPU time."""

    first_program: float
    init: float
    command: float
    cpu_time: float


@dataclass(frozen=True)
class Peer:
    """virtme-ng, ready to run."""

    vng: Path
    path: str  # PATH with what it needs
    kernel: Path
    release: str
    version: str


def set_up() -> Peer:
    """Install virtme-ng and what it needs into the cache, once."""
    home = cache_folder("benchmarks")
    vng = home / VIRTME_NG / "bin" / "vng"
    if not vng.exists():
        print(f"installing {VIRTME_NG} by pip into {home}: the peer that bigiron's boot is measured against")
        venv.create(home / VIRTME_NG, clear=True, with_pip=True)
        check([home / VIRTME_NG / "bin" / "pip", "install", "--quiet", VIRTME_NG])
    tools = home / "tools"
    if not tools.exists():
        reasons = "; ".join(f"{package} {why}" for package, why in PACKAGES.items())
        print(f"downloading Debian packages, and their libraries, into {home}: {reasons}")
        download_tools(tools)
    kernels = home / f"debian-{SERIES}"
    if not kernels.exists():
        print(f"downloading Debian's kernel {SERIES} into {home}: virtme-ng needs its modules too")
        download_kernel(kernels)
    (kernel,) = kernels.glob("*/boot/vmlinuz-*")
    path = [vng.parent, tools / "wrapped", tools / "usr/bin", os.environ["PATH"]]
    return Peer(
        vng=vng,
        path=os.pathsep.join(map(str, path)),
        kernel=kernel,
        release=kernel.name.removeprefix("vmlinuz-"),
        version=kernel.parent.parent.name,
    )


def download_tools(to: Path) -> None:
    """Unpack Debian's packages, and scripts that start their programs with the libraries beside them."""
    apt = debian.apt("x86_64")
    apt.update(print)
    with tempfile.TemporaryDirectory(dir=to.parent) as folder:
        tools = Path(folder) / "tools"
        for file in apt.download([*PACKAGES, *LIBRARIES], Path(folder)):
            check(["dpkg-deb", "--extract", file, tools])
        (tools / "wrapped").mkdir()
        for name, program in PROGRAMS.items():
            libraries = "$usr/lib/x86_64-linux-gnu"
            loader = f'"{libraries}/ld-linux-x86-64.so.2" --library-path "{libraries}" --argv0 {name}'
            script = tools / "wrapped" / name
            script.write_text(f'#!/bin/sh\nusr=${{0%/*}}/../usr\nexec {loader} "$usr/{program}" "$@"\n')
            script.chmod(0o755)
        tools.rename(to)


def download_kernel(to: Path) -> None:
    """Unpack the newest kernel of the series into a folder of its version."""
    with tempfile.TemporaryDirectory(dir=to.parent) as folder:
        file, package, _suite = debian.download(SERIES, "x86_64", Path(folder), print)
        kernels = Path(folder) / SERIES
        kernels.mkdir()
        check(["dpkg-deb", "--extract", file, kernels / package.version])
        kernels.rename(to)


def check(command: Sequence[str | Path]) -> None:
    """Run a command that must succeed."""
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)


def boot_bigiron(kernel: Path) -> Boot:
    """Seconds to the agent's first word."""
    machine = vm.VirtualMachine(
        architecture=X86_64,
        kernel=kernel,
        agent=compile.agent(workloads.find("getppid1"), X86_64.compiler),
        job=f"cpus {CPUS}\n",
        topology=Topology(cores=CPUS),
        memory_mib=vm.memory_mib(CPUS),
        deadline_s=DEADLINE_S,
    )
    assert machine.accelerator == ACCELERATOR
    cpu: list[float] = []

    def on_stage(_stage: str) -> None:
        cpu.append(cpu_seconds(Path("/proc/thread-self/children").read_text().strip()))

    word = vm.run(machine, threading.Event(), on_stage).seconds_to_agent
    return Boot(word, word, word, cpu[0])


def boot_virtme_ng(peer: Peer) -> Boot:
    """Seconds to its script's first word, and back from there by the guest's log to what went before."""
    with tempfile.TemporaryDirectory(prefix="bigiron-") as name, socket.socket(socket.AF_UNIX) as listener:
        folder = Path(name)
        qemu = folder / "qemu"
        qemu.write_text(f'#!/bin/sh\ndate "+%s.%N $$" >{folder}/start\nexec {X86_64.qemu} "$@"\n')
        qemu.chmod(0o755)
        listener.bind(str(folder / "port"))
        listener.listen()
        listener.settimeout(DEADLINE_S)
        port = f"-chardev socket,id=port,path={folder}/port -serial chardev:port"
        command: list[str | Path] = [peer.vng, "--run", peer.kernel, "--qemu", qemu, "--disable-kvm"]
        command += ["--cpus", f"{CPUS}", "--memory", f"{vm.memory_mib(CPUS)}M"]
        command += [f"--qemu-opts=-accel {ACCELERATOR} {port}", "--exec", SCRIPT]
        ours, theirs = pty.openpty()  # it wants a terminal
        process = subprocess.Popen(
            [*dying_with(os.getpid()), *command],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, "PATH": peer.path},
            start_new_session=True,
        )
        try:
            with listener.accept()[0] as connection:
                connection.settimeout(DEADLINE_S)
                said = connection.recv(64)
                started, qemu_pid = (folder / "start").read_text().split()
                word, cpu = time.time() - float(started), cpu_seconds(qemu_pid)
                while not said.endswith(b"end\r\n"):
                    said += connection.recv(1 << 16)
            process.wait(DEADLINE_S)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # QEMU and virtiofsd too, where it failed
            process.wait()
            os.close(ours)
            os.close(theirs)
    logged = re.findall(r"\[ *([\d.]+)\] (Run /init|virtme-ng-init|word)", said.decode())
    first = {what: float(seconds) for seconds, what in reversed(logged)}
    before = word - first["word"]
    return Boot(before + first["Run /init"], before + first["virtme-ng-init"], word, cpu)


def cpu_seconds(pid: str) -> float:
    """The CPU time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Print the medians and their ratios."""
    # With a core for each CPU, bigiron would use more than one thread.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    console, peer = Console(), set_up()
    console.print(
        f"Boot: Debian's {peer.release} ({peer.version}), {CPUS} CPUs, {vm.memory_mib(CPUS)} MiB, "
        f"QEMU {require_qemu(X86_64.qemu)} with {ACCELERATOR}; median of {ROUNDS}, in turn; "
        "seconds from QEMU's start"
    )
    console.print(
        f"vng --run vmlinuz --cpus {CPUS} --disable-kvm --exec 'echo word >/dev/ttyS1', {VIRTME_NG}"
    )
    boots = [(boot_bigiron(peer.kernel), boot_virtme_ng(peer)) for _ in range(ROUNDS)]
    table = Table("", "bigiron", "virtme-ng", "ratio (goal: at most 0.50)")
    for moment in (field.name for field in fields(Boot)):
        ours, theirs = (median(getattr(one, moment) for one in side) for side in zip(*boots, strict=True))
        table.add_row(moment.replace("_", " "), f"{ours:.2f} s", f"{theirs:.2f} s", f"{ours / theirs:.2f}")
    console.print(table)


if __name__ == "__main__":
    main()
