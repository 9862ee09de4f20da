"""What a root's files say of it: the architecture of its programs, and the packages that are installed."""

from bigiron.architectures import Architecture
from bigiron.errors import UserError
from bigiron.roots.tree import Node, Tree
from bigiron.util.english import join_and

_HEADER_BYTES = 20
_MOST_STATUS_BYTES = 64 << 20
_EXECUTABLE = 0o111
# ELF's e_machine, its class (64 bits: 2) and its byte order (little: 1)
_KNOWN = {
    (62, 2, 1): "x86_64",
    (3, 1, 1): "i386",
    (183, 2, 1): "aarch64",
    (40, 1, 1): "arm",
    (21, 2, 1): "ppc64le",
    (21, 2, 2): "ppc64",
    (22, 2, 2): "s390x",
    (243, 2, 1): "riscv64",
}


def check(tree: Tree, target: Architecture) -> None:
    """Raise UserError if no program of a root is for an architecture."""
    found: set[str] = set()
    for _, node in tree.walk():
        if node.is_file and node.mode & _EXECUTABLE and node.size >= _HEADER_BYTES:
            arch = _architecture(_start(node, _HEADER_BYTES))
            if arch == target.name:
                return
            found.update(filter(None, [arch]))
    if found:
        raise UserError(f"{tree.called} is a root for {join_and(sorted(found))}, not for {target.name}")
    raise UserError(f"{tree.called} is not a root file system: it has no program")


def debian_packages(tree: Tree) -> list[str]:
    """NAME VERSION of each package that is installed in a root of Debian's; [] in others."""
    status = tree.find(["var", "lib", "dpkg", "status"])
    if status is None or not status.is_file:
        return []
    installed = []
    for stanza in _start(status, _MOST_STATUS_BYTES).decode("utf-8", "replace").split("\n\n"):
        fields = dict(line.split(": ", 1) for line in stanza.splitlines() if ": " in line[:40])
        if fields.get("Status", "").endswith(" installed"):
            installed.append(f"{fields.get('Package')} {fields.get('Version')}")
    return sorted(installed)


def _start(node: Node, size: int) -> bytes:
    if node.content is None:
        return b""
    with node.content() as content:
        return content.read(size)


def _architecture(header: bytes) -> str:
    r"""What an ELF file is for; "" if it is none.

    >>> _architecture(b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\0\x3e\0")
    'x86_64'
    """
    if not header.startswith(b"\x7fELF"):
        return ""
    bits, order = header[4], header[5]
    machine = int.from_bytes(header[18:20], "little" if order == 1 else "big")
    return _KNOWN.get((machine, bits, order), f"ELF machine {machine}")
