"""A root of Debian's packages, made by mmdebstrap in namespaces of its own.

apt verifies each index with Debian's keyring, and each package by the checksum in a verified index. The
scripts of packages run as root of a user namespace, which has no rights over the machine; however bigiron
ends, all of these processes end too. Programs of another architecture run in QEMU's user emulation, which
only that namespace knows.
"""

import os
import platform
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bigiron.architectures import Architecture, architecture
from bigiron.errors import UserError
from bigiron.kernels.archives import debian
from bigiron.kernels.archives.apt import network_settings
from bigiron.roots import tree
from bigiron.roots.tree import Tree
from bigiron.util import distribution
from bigiron.util.cache_dir import OTHER_PLACE
from bigiron.util.english import join_and
from bigiron.util.parent_death import dying_with
from bigiron.util.threads import StoppedError, is_stopped

_LEFT_OUT = ("doc", "info", "locale", "man")  # of /usr/share
_WRITTEN_S = "1577836800"  # 2020-01-01: no file is newer, so that the same packages give the same image
_WITHOUT_UPDATES = ("sid", "unstable", "experimental")
_LONGEST_S = 3 * 3600
_LOOK_S = 0.1
_LONGEST_COMPLAINT = 300

_WAIT = 'read -r go && exec "$@"'
"""Root of a user namespace has its rights only in programs executed after its numbers were mapped.

Executing the first of them makes the kernel forget whose end should end it: that is to be said afterwards.
"""

_INSIDE = """emulator=$1 format=$2
shift 2
if [ -n "$emulator" ]; then
    mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc 2>/dev/null &&
        printf %s "$format" >/proc/sys/fs/binfmt_misc/register
fi
exec "$@"
"""


def make_archive(
    suite: str,
    packages: Sequence[str],
    arch: str,
    to: Path,
    inherited: int,
    on_step: Callable[[str], None],
) -> None:
    """Make a tar archive of a root with some packages, and what they need."""
    what = f"debian:{suite} for {arch}"
    suites = [suite] if suite in _WITHOUT_UPDATES else [suite, f"{suite}-updates", f"{suite}-security"]
    program = mmdebstrap()
    what_else = f" with {join_and(packages)}" if packages else ""
    on_step(f"installing Debian's {suite}{what_else}: a minute or more")
    while True:
        said = _run(program, suites, packages, architecture(arch), to, inherited)
        if said is None:
            return
        unread = [one for one in suites[1:] if re.search(rf"/dists/{one}/| {one} (In)?Release'", said)]
        if not unread:
            raise _failed(what, suite, said)
        on_step(f"Debian's lists of {' and '.join(unread)} cannot be read now: going on without them")
        suites = [one for one in suites if one not in unread]


def tidy(root: Tree) -> None:
    """Take out what mmdebstrap left of this machine: its user, its name, its network and its mirrors."""
    root.put([], tree.folder())
    for path in ("etc/resolv.conf", "etc/apt", "var/log/bootstrap.log"):
        root.remove(path.split("/"))
    root.put(["etc", "hostname"], tree.text("bigiron\n"))


def mmdebstrap() -> str:
    """The program, or UserError."""
    tool = shutil.which("mmdebstrap")
    if tool is None:
        advice = distribution.install("mmdebstrap")
        raise UserError(f"no mmdebstrap on PATH, which makes roots of packages: {advice}")
    return tool


def _run(
    program: str,
    suites: Sequence[str],
    packages: Sequence[str],
    target: Architecture,
    to: Path,
    inherited: int,
) -> str | None:
    """Run it; what it complained about, None if it made the archive."""
    configuration, log = to.with_name("apt.conf"), to.with_name("log")
    configuration.write_text(
        'Acquire::By-Hash "force";\nAcquire::Retries "3";\n' + network_settings(), encoding="utf-8"
    )
    command = [
        program,
        "--mode=root",
        "--format=tar",
        "--variant=essential",
        "--skip=check/qemu,chroot/mount/sys",
        f"--architectures={target.debian}",
        f"--aptopt={configuration}",
        "--dpkgopt=force-unsafe-io",
        *(f"--dpkgopt=path-exclude=/usr/share/{folder}/*" for folder in _LEFT_OUT),
        *([f"--include={','.join(packages)}"] if packages else []),
        suites[0],
        str(to),
        *_sources(suites),
    ]
    environment = {
        "PATH": os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin",
        "HOME": "/root",
        "LC_ALL": "C.UTF-8",
        "TMPDIR": str(to.parent),
        "SOURCE_DATE_EPOCH": _WRITTEN_S,
        **{name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")},
    }
    status = _run_inside(command, target, environment, log, inherited)
    if status == 0:
        return None
    return log.read_text(encoding="utf-8", errors="replace") or f"E: mmdebstrap: status {status}"


def _sources(suites: Sequence[str]) -> list[str]:
    debian.check_keyring()
    main, security = debian.mirrors()
    uris = {one: security if one.endswith("-security") else main for one in suites}
    return [f"deb [signed-by={debian.KEYRING}] {uri} {one} main" for one, uri in uris.items() if uri]


def _run_inside(
    command: Sequence[str], target: Architecture, environment: dict[str, str], log: Path, inherited: int
) -> int:
    """Run a command as root of namespaces of its own, which all end with it, and it with this process."""
    processes = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    inside = [*dying_with(os.getpid()), *processes, "sh", "-c", _INSIDE, "sh", *_emulation(target), *command]
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [*namespaces(), "sh", "-c", _WAIT, "sh", *inside],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            pass_fds=(inherited,),
            start_new_session=True,
        ) as process,
    ):
        try:
            if os.geteuid() == 0:
                _map_all_numbers(process)
            process.communicate(b"go\n", timeout=_LOOK_S)
        except subprocess.TimeoutExpired:
            _wait(process)
        finally:
            process.kill()
    return process.returncode


def _map_all_numbers(process: "subprocess.Popen[bytes]") -> None:
    """Give a user namespace the owners that the machine has, once the process has made it."""
    ours = Path("/proc/self/ns/user").readlink()
    try:
        while process.poll() is None and Path(f"/proc/{process.pid}/ns/user").readlink() == ours:
            time.sleep(_LOOK_S / 10)
        for file in ("uid_map", "gid_map"):
            Path(f"/proc/{process.pid}/{file}").write_text("0 0 65536\n", encoding="ascii")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        pass  # it has ended, and said why


def _wait(process: "subprocess.Popen[bytes]") -> None:
    end = time.monotonic() + _LONGEST_S
    while process.poll() is None:
        if is_stopped():
            raise StoppedError
        if time.monotonic() > end:
            raise UserError(f"mmdebstrap did not end in {_LONGEST_S // 3600} hours: check the network")
        time.sleep(_LOOK_S)


def find_emulator(target: Architecture) -> str:
    """The program that runs those of another architecture, "" where none is needed; or UserError."""
    if platform.machine() == target.name:
        return ""
    names = (f"qemu-{target.name}-static", f"qemu-{target.name}")
    emulator = next(filter(None, map(shutil.which, names)), None)
    if emulator is None:
        raise UserError(
            f"no {names[0]} on PATH, which runs the scripts of packages for {target.name}: "
            + distribution.install("qemu-user-static")
        )
    return emulator


def namespaces() -> list[str]:
    """The command whose program is root of a user namespace, which has all numbers of users."""
    # Root maps them itself; for all others newuidmap does, as /etc/subuid allows.
    return ["unshare", "--user", *([] if os.geteuid() == 0 else ["--map-root-user", "--map-auto"])]


def _emulation(target: Architecture) -> tuple[str, str]:
    """The emulator, and how the kernel is told to use it."""
    emulator = find_emulator(target)
    if not emulator:
        return "", ""
    # Documentation/admin-guide/binfmt-misc.rst of the kernel: an ELF header up to the machine, and its mask.
    header = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00" + target.elf_machine.to_bytes(2, "little")
    mask = b"\xff" * 7 + b"\xfc" + b"\xff" * 8 + b"\xfe\xff\xff\xff"
    return emulator, f":bigiron:M::{_escaped(header)}:{_escaped(mask)}:{emulator}:OCF"


def _escaped(data: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in data)


def _failed(what: str, suite: str, said: str) -> UserError:
    """Why mmdebstrap failed, in a line."""
    found = re.search(r"E: (?:Unable to locate package (\S+)|Package '(\S+)' has no inst)", said)
    if found:
        return UserError(f"{what}: Debian's {suite} has no package {found[1] or found[2]}")
    if re.search(r"(does not have|no longer has) a Release file", said):
        return UserError(f"{what}: Debian's archive has no suite {suite}, or it cannot be reached")
    if "No space left on device" in said or "enough free space" in said:
        return UserError(f"{what}: the disk of the cache is full; {OTHER_PLACE}")
    if "Exec format error" in said:
        return UserError(
            f"{what}: this machine cannot run its programs: use Linux 6.7 or newer, or install binfmt-support"
        )
    if re.search(r"^unshare: .*not permitted", said, re.MULTILINE) and os.geteuid() == 0:
        return UserError(
            f"{what}: no user namespace may be made here: run it outside of the container or chroot"
        )
    if re.search(r"^unshare: |newuidmap", said, re.MULTILINE):
        first, advice = said.strip().splitlines()[0], distribution.install("uidmap")
        return UserError(f"{what}: {first}: {advice}, or run it as root")
    errors = [line for line in said.splitlines() if line.startswith("E: ")]
    return UserError(f"{what}: {(errors or said.strip().splitlines())[0][:_LONGEST_COMPLAINT]}")
