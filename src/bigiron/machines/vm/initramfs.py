"""An initramfs without root: the cpio "newc" format that the kernel unpacks at boot.

Format: the kernel's Documentation/driver-api/early-userspace/buffer-format.rst.
"""

import stat
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

_HEADER_BYTES = 256


@dataclass(frozen=True)
class Entry:
    """One file, folder or device of the archive."""

    path: str  # without a leading slash
    mode: int  # type and permissions, as in `stat`
    content: bytes = b""
    device: tuple[int, int] = (0, 0)  # major, minor


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def _record(entry: Entry, inode: int) -> bytes:
    name = entry.path.encode() + b"\0"
    links = 2 if stat.S_ISDIR(entry.mode) else 1
    fields = (inode, entry.mode, 0, 0, links, 0, len(entry.content), 0, 0, *entry.device, len(name), 0)
    header = b"070701" + b"".join(b"%08x" % field for field in fields)
    return _padded(header + name) + _padded(entry.content)


def archive(entries: list[Entry]) -> bytes:
    """The bytes of a cpio archive that holds `entries` in order."""
    records = [_record(entry, inode) for inode, entry in enumerate(entries, start=1)]
    return b"".join(records) + _record(Entry("TRAILER!!!", 0), 0)


def initramfs(
    boot: bytes,
    room_mib: int,
    *,
    symbols: bool,
    modules: Mapping[str, bytes] | None = None,
    root_disk: str = "",
) -> bytes:
    """What a virtual machine boots into (guest/boot/), and how much room it is to have for `handover()`.

    With `symbols` it hands those of the kernel to the recorder. It loads `modules`, in the order of their
    names, and mounts the root file system that `root_disk` describes, before it waits.
    """
    folders = [Entry(name, stat.S_IFDIR | 0o755) for name in ("dev", "proc", "sys", "tmp")]
    if modules:
        folders.append(Entry("modules", stat.S_IFDIR | 0o755))
    return archive(
        [
            *folders,
            Entry("dev/console", stat.S_IFCHR | 0o600, device=(5, 1)),
            Entry("init", stat.S_IFREG | 0o755, boot),
            Entry("room", stat.S_IFREG | 0o644, f"{room_mib}\n".encode()),
            *([Entry("symbols", stat.S_IFREG | 0o644)] if symbols else []),
            *([Entry("root-disk", stat.S_IFREG | 0o644, root_disk.encode())] if root_disk else []),
            *(Entry(f"modules/{name}", stat.S_IFREG | 0o644, file) for name, file in (modules or {}).items()),
        ]
    )


def handover(agent: bytes, job: str, files: Mapping[str, bytes] | None = None) -> bytes:
    """The archive that the VM is given: the agent as `/agent`, the job as `/job`, more files."""
    return archive(
        [
            Entry("agent", stat.S_IFREG | 0o755, agent),
            Entry("job", stat.S_IFREG | 0o644, job.encode()),
            *(Entry(name, stat.S_IFREG | 0o644, content) for name, content in (files or {}).items()),
        ]
    )


def with_go_header(content: bytes, seed: bytes) -> bytes:
    """Put the protocol's `go` line in front: length, checksum, a seed of 32 bytes.

    See docs/contributing/protocol.md.
    """
    line = f"go {len(content)} {zlib.crc32(content):08x} {seed.hex()}\n"
    return line.encode().ljust(_HEADER_BYTES, b"\0") + content
