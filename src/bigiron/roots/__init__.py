"""Root file systems: made of Debian's packages, a folder, an archive or an OCI image; kept by content.

>>> from bigiron import roots
>>> roots.resolve("debian:trixie+stress-ng").size_bytes  # doctest: +SKIP
301215744
"""

import hashlib
import os
import re
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from bigiron.architectures import architecture, known_arch
from bigiron.errors import UserError
from bigiron.roots import archive, image, local_folder, packages, programs, store
from bigiron.roots.root import Root
from bigiron.roots.spec import Packages, parse
from bigiron.roots.store import RootRecord, hold, records, root_of
from bigiron.roots.tree import Tree, text
from bigiron.util.cache_dir import cache_folder
from bigiron.util.numbers import size

__all__ = ["Root", "RootRecord", "drop", "hold", "records", "resolve", "root_of"]

_Say = Callable[[str], None]


def _silent(_step: str) -> None:
    pass


def resolve(spec: str, arch: str = "x86_64", on_step: _Say = _silent, *, again: bool = False) -> Root:
    """The root that a user asks for: the one in the cache, else one made now.

    `debian:SUITE[+PACKAGE...]`, a folder, a tar archive, or a container's image: an OCI layout, or an archive
    of one. A folder or an archive that has changed is read again. `again`: packages are installed again, as
    the archive has newer ones.
    """
    arch = known_arch(arch)
    wanted = parse(spec)
    source = "packages" if isinstance(wanted, Packages) else _state(wanted)
    if not again and (here := store.lookup(str(wanted), arch, source)):
        return here
    with store.writing(on_step) as (staging, inherited), ExitStack() as stack:
        if not again and (here := store.lookup(str(wanted), arch, source)):  # while waiting for the lock
            return here
        tree = Tree(str(wanted))
        if isinstance(wanted, Packages):
            made = staging / "packages.tar"
            packages.make_archive(wanted.suite, wanted.packages, arch, made, inherited, on_step)
            archive.read(made, arch, tree, staging, stack)
            packages.tidy(tree)
        else:
            _read(wanted, arch, tree, staging, stack)
        programs.check(tree, architecture(arch))
        _name_localhost(tree)
        if (temporary := tree.find(["tmp"])) and temporary.children:
            on_step("programs do not see the files of its /tmp: the guest mounts its own there")
        on_step(f"making the image of {size(tree.size_bytes())}")
        image.write(tree, staging / "image", inherited)
        installed = programs.debian_packages(tree)
        return store.keep(staging / "image", str(wanted), arch, source, time.time(), installed)


def drop(name: str | None) -> list[RootRecord]:
    """Remove the root of that name, or whose image's checksum starts so; None: all. Returns the removed."""
    if name is None:
        return store.drop(lambda _record: True)
    names = {name, str(parse(name)) if name.startswith("debian:") else str(Path(name).expanduser().resolve())}
    by_digest = re.fullmatch(r"[0-9a-f]{8,64}", name)
    dropped = store.drop(
        lambda record: record.name in names or bool(by_digest and record.sha256.startswith(name))
    )
    if not dropped:
        raise UserError(f"no root {name!r}: `bigiron root list` has their names")
    return dropped


def _name_localhost(tree: Tree) -> None:
    """Say what localhost is. `docker export` writes an empty /etc/hosts, filled as a container starts."""
    hosts = tree.find(["etc", "hosts"])
    if tree.find(["etc"]) and (hosts is None or (hosts.is_file and not hosts.size)):
        tree.put(["etc", "hosts"], text("127.0.0.1 localhost\n::1 localhost\n"))


def _read(path: Path, arch: str, tree: Tree, staging: Path, stack: ExitStack) -> None:
    if not path.is_dir():
        archive.read(path, arch, tree, staging, stack)
    elif archive.is_layout(path):
        archive.read_layout(path, arch, tree, staging, stack)
    else:
        local_folder.read(path, tree)


def _state(path: Path) -> str:
    """A checksum of what a file or a folder is now, by all that changes when it is written."""
    state = hashlib.sha256()
    if path.is_dir():
        if cache_folder("roots").resolve().is_relative_to(path):
            raise UserError(
                f"{path} has the cache of roots in it ({cache_folder('roots')}): give another folder"
            )
        for name, here in local_folder.walk(path, str(path)):
            state.update(f"{name}\0{_stamp(here)}\n".encode(errors="surrogateescape"))
    else:
        state.update(_stamp(path.stat()).encode())
    return state.hexdigest()


def _stamp(here: os.stat_result) -> str:
    return f"{here.st_ino} {here.st_mode} {here.st_size} {here.st_mtime_ns} {here.st_ctime_ns}"
