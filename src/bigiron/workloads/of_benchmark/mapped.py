"""What runs instead of the benchmark in a report: a built-in workload, or a program of Debian's."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from bigiron.errors import UserError

SUITE = "trixie"
"""The Debian suite whose packages run."""

INSTEAD = (
    "give the part of it that matters as a C file with will-it-scale's testcase(): --workload-file F.c, "
    "or a workload that does the same: --workload NAME (`bigiron workload list`)"
)
_FILE_SYSTEMS = {name: name for name in ("ext4", "xfs", "btrfs", "f2fs")} | {"tmpfs": "", "mem": "", "": ""}
_ON_TOP = ("fs1", "fs2")
"""Parameters that name a network file system: it is mounted from the other one on the same machine."""

_SIZE = re.compile(r"\d+[kKmMgG]?")


@dataclass(frozen=True)
class MappedProgram:
    """A program in a virtual machine, by the keys of study.toml, of which a part is recorded.

    The part begins at the line `begin_at`, or after `warm_up_s` seconds of the machine's clock, when the
    program has started and does the same again and again, and is `record_s` long: as many instructions as
    matter, however long one operation is. While a program is loaded from the disk, the clock skips the time;
    so what has no such line runs once for a moment before, as the last `ready` command, and is in memory.
    """

    packages: str
    """Debian's, with + between them."""
    command: str
    per: str = "system-call"
    service: tuple[str, ...] = ()
    ready: tuple[str, ...] = ()
    """Each succeeds when its service is ready. Those that have no service run one after the other."""
    ready_port: tuple[int, ...] = ()
    begin_at: str = ""
    warm_up_s: float = 0.1
    record_s: float = 0.01
    folder: str = "/tmp"
    user: str = ""
    """Empty: root."""

    @property
    def root(self) -> str:
        """Its root file system.

        >>> MappedProgram("fio", "fio").root
        'debian:trixie+fio'
        """
        return f"debian:{SUITE}+{self.packages}"


@dataclass(frozen=True)
class Mapped:
    """A built-in workload, a C file or a program; how its tasks run, and its file system ("": tmpfs)."""

    workload: str = ""
    mode: Literal["process", "thread"] = "process"
    fs: str = ""
    program: MappedProgram | None = None
    tasks: int | None = None
    """A number that the benchmark fixes, whatever the machine; None: the report's share of the CPUs."""
    differs: tuple[str, ...] = ()
    """In what it differs from the report, as phrases."""
    workload_file: str = ""
    replaces: bool = False
    """Whether it was given instead of the report's benchmark, whose figures are then of something else."""

    @property
    def called(self) -> str:
        """The workload's name, or the program's command."""
        return self.program.command if self.program else self.workload or self.workload_file


Parameters = Mapping[str, str]
"""Of a report, as the kernel test robot writes them."""

FamilyMapper = Callable[[Parameters, str], Mapped]
"""Maps the parameters and the metric of a report of one benchmark; UserError says why nothing fits."""


def mode_of(parameters: Parameters) -> Literal["process", "thread"]:
    """The kind of tasks that the parameter `mode` gives; processes by default."""
    return "thread" if parameters.get("mode", "process").startswith("thread") else "process"


def fs_of(parameters: Parameters) -> str | None:
    """The file system that the report names ("": tmpfs); None if no machine here has it.

    >>> fs_of({"fstype": "xfs"}), fs_of({"fs": "bcachefs"}), fs_of({"fs": "ext4", "fs2": "nfsv4"})
    ('xfs', None, None)
    """
    if any(parameters.get(key, "-") != "-" for key in _ON_TOP):
        return None
    return _FILE_SYSTEMS.get(parameters.get("fstype") or parameters.get("fs", ""))


def checked_fs(benchmark: str, parameters: Parameters) -> str:
    """The same; UserError if no machine here has it."""
    found = fs_of(parameters)
    if found is None:
        raise UserError(
            f"the report is of {benchmark} on {fs_named(parameters)}, which no machine here has (ext4, xfs, "
            f"btrfs, f2fs, tmpfs): {INSTEAD}"
        )
    return found


def fs_named(parameters: Parameters) -> str:
    """The file systems as the report names them.

    >>> fs_named({"fs": "xfs", "fs2": "nfsv4"})
    'xfs and nfsv4'
    """
    names = (parameters.get(key, "-") for key in ("fstype", "fs", *_ON_TOP))
    return " and ".join(name for name in names if name not in ("", "-"))


def without_fs(parameters: Parameters) -> Parameters:
    """The parameters as of a report that names no file system."""
    return {key: value for key, value in parameters.items() if key not in ("fstype", "fs", *_ON_TOP)}


def of_disk(parameters: Parameters) -> tuple[str, ...]:
    """In what the disk of a virtual machine differs from the report's: it is memory, or there is none.

    >>> of_disk({"disk": "1SSD", "fs": "xfs"}), of_disk({"disk": "1BRD_48G", "fs": "xfs"}), of_disk({})
    (('a disk in memory instead of 1SSD',), (), ())
    >>> of_disk({"disk": "2pmem", "fs": "ext4", "mount_option": "dax"})
    ('a disk in memory instead of 2pmem', 'no mount option dax')
    >>> of_disk({"disk": "1HDD"})
    ('tmpfs instead of 1HDD',)
    """
    disk = parameters.get("disk", "")
    here = "tmpfs" if fs_of(parameters) == "" else "a disk in memory"
    found = () if not disk or "BRD" in disk else (f"{here} instead of {disk}",)
    option = parameters.get("mount_option", "")
    return (
        *found,
        *(["no RAID"] if parameters.get("md") else []),
        *([f"no mount option {option}"] if option else []),
    )


def on_disk(benchmark: str, parameters: Parameters, program: MappedProgram, *differs: str) -> Mapped:
    """A program on the report's file system; `differs`: in what it differs, besides its disk."""
    return Mapped(
        fs=checked_fs(benchmark, parameters), program=program, differs=(*of_disk(parameters), *differs)
    )


def of_network(parameters: Parameters) -> tuple[str, ...]:
    """In what the network differs: it is loopback, and IPv4.

    >>> of_network({"cluster": "cs-localhost", "ip": "ipv6"}), of_network({"ip": "ipv4"})
    (('IPv4 instead of IPv6',), ())
    """
    cluster = parameters.get("cluster", "cs-localhost")
    found = () if "localhost" in cluster else (f"loopback instead of the network of {cluster}",)
    return (*found, *(["IPv4 instead of IPv6"] if parameters.get("ip") == "ipv6" else []))


def size(parameters: Parameters, key: str) -> str:
    """A size such as `4k` or `10K`; "" if the report gives none. UserError if it is something else.

    >>> size({"bs": "4k"}, "bs"), size({"msg_size": "1472b"}, "msg_size"), size({}, "bs")
    ('4k', '1472', '')
    """
    given = parameters.get(key, "").removesuffix("B").removesuffix("b")
    if given and not _SIZE.fullmatch(given):
        raise UserError(f"the report's {key} is {given!r}: a size such as 4k is expected")
    return given


def in_bytes(size: str) -> int:
    """What a size stands for.

    >>> in_bytes("8k") == in_bytes("8K") == in_bytes("8192"), in_bytes("1G")
    (True, 1073741824)
    """
    number = size.rstrip("kKmMgG")
    return int(number) << 10 * " kmg".index(size[len(number) :].lower() or " ")
