"""The kernel modules that file systems and disks need, from the kernel's own package, in loading order.

A package has no modules.dep, because depmod writes it on installation. So the dependencies are read from the
modules, as depmod does: `depends`, and the `pre` entries of `softdep`, by name or alias (modinfo(8)). What is
built into the kernel has entries of `softdep` too, in modules.builtin.modinfo: without crc32c_intel, ext4's
checksums take seven in ten of the instructions of an fallocate().

Invariant: a folder under its final name is complete and never changes; it is made under a temporary name and
renamed.
"""

import hashlib
import io
import re
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import msgspec

from bigiron.errors import UserError
from bigiron.kernels import archives, deb, package
from bigiron.kernels.archives import debian
from bigiron.kernels.kernel import Kernel
from bigiron.util import compression, decode, lazy
from bigiron.util.cache_dir import STAGING, cache_folder, made_whole

if TYPE_CHECKING:
    from bigiron.kernels import elf
else:
    elf = lazy.LazyModule("bigiron.kernels.elf")

ROOTS = ("brd", "ext4", "xfs", "btrfs", "f2fs", "virtio_pci", "virtio_blk", "erofs", "squashfs", "overlay")
"""The modules that are taken from a package, with their dependencies."""

_ASKED = hashlib.sha256(" ".join((*ROOTS, "softdep")).encode()).hexdigest()[:8]
"""What is asked of a package: another bigiron may have asked for less."""
_MODULE = re.compile(
    r"(\./)?(usr/)?lib/modules/[^/]+/kernel/(fs|lib|crypto|arch/[^/]+/(crypto|lib)|drivers/(block|virtio))/.+\.ko(\.[a-z]+)?"
)
_BUILT_IN = re.compile(r"(\./)?(usr/)?lib/modules/[^/]+/modules\.builtin(\.modinfo)?")
_OF_BUILT_IN = re.compile(rb"(?:\A|\0)([^\0.]+)\.([^\0]*)")
_SUFFIXES = (".ko", ".xz", ".gz", ".zst")


@dataclass(frozen=True)
class KernelModule:
    """A module to load. One that is not `required` may fail to load: it needs a CPU feature."""

    file: Path
    required: bool

    @property
    def name(self) -> str:
        """As the kernel knows it."""
        return self.file.stem


@dataclass(frozen=True)
class Info:
    """What the section .modinfo of a module says."""

    depends: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    """Its softdeps: modules, by name or alias, that are better loaded before it."""
    aliases: tuple[str, ...] = ()


class _ModulesRecord(msgspec.Struct, forbid_unknown_fields=True):
    """modules.json."""

    orders: dict[str, list[tuple[str, bool]]]
    """For each of ROOTS: the modules to load, and whether each is required."""


def needed(kernel: Kernel, root: str) -> list[KernelModule] | None:
    """The modules to load for one of ROOTS, if it is built in its softdeps; None if the package is unknown.

    Raises UserError if the kernel does not have it.
    """
    folder = cache_folder("modules") / f"{kernel.sha256}-{_ASKED}"
    if not (folder / "modules.json").exists() and not _fetch(kernel, folder):
        return None
    try:
        record = decode.from_json((folder / "modules.json").read_bytes(), _ModulesRecord)
    except msgspec.DecodeError as error:
        raise UserError(f"{folder} is damaged ({error}): delete that folder") from None
    if root not in record.orders:
        raise _missing(kernel, root)
    return [KernelModule(folder / f"{name}.ko", required) for name, required in record.orders[root]]


def _missing(kernel: Kernel, root: str) -> UserError:
    fetched = kernel.name.startswith("debian/")
    more = debian.more_modules(kernel.name, kernel.release, kernel.arch) if fetched else ""
    advice = f"; {more} has more modules" if more else ""
    return UserError(
        f"{kernel.name} has no {root}: it is not built in, and {kernel.source} has no such module{advice}"
    )


def order(root: str, infos: Mapping[str, Info]) -> list[tuple[str, bool]]:
    """The modules to load for a module, each after its dependencies, and whether each is required.

    >>> infos = {"btrfs": Info(("raid6_pq", "xor"), ("crc32c",)), "raid6_pq": Info(), "xor": Info(),
    ...          "crc32c_intel": Info((), (), ("crc32c",))}
    >>> order("btrfs", infos)
    [('crc32c_intel', False), ('raid6_pq', True), ('xor', True), ('btrfs', True)]
    """
    found: dict[str, bool] = {}
    by_alias: dict[str, list[str]] = {}
    for name, info in infos.items():
        for alias in info.aliases:
            by_alias.setdefault(_normal(alias), []).append(name)

    def visit(name: str, required: bool, above: tuple[str, ...]) -> None:
        if name in above or name not in infos:  # an absent module is built in
            return
        for soft in infos[name].before:
            for one in [soft] if soft in infos else by_alias.get(soft, []):
                visit(one, False, (*above, name))
        for hard in infos[name].depends:
            visit(hard, required, (*above, name))
        found[name] = found.get(name, False) or required

    visit(root, True, ())
    return list(found.items())


def read_info(module: bytes, called: str) -> Info:
    """Read a module's section .modinfo: strings KEY=VALUE, each followed by a NUL."""
    return _info(text.decode("ascii", "replace") for text in _section(module, called).split(b"\0"))


def read_built_in(content: bytes) -> dict[str, Info]:
    r"""What modules.builtin.modinfo says of those of ROOTS.

    >>> read_built_in(b"ext4.softdep=pre: crc32c\0ext4.license=GPL\0jbd2.license=GPL\0")["ext4"].before
    ('crc32c',)
    """
    by_module: dict[str, list[str]] = {}
    for entry in _OF_BUILT_IN.finditer(content):  # one after the other: a package may hold millions
        name, text = (part.decode("ascii", "replace") for part in entry.groups())
        if _normal(name) in ROOTS:
            by_module.setdefault(_normal(name), []).append(text)
    return {name: _info(texts) for name, texts in by_module.items()}


def _info(texts: Iterable[str]) -> Info:
    values = [text.partition("=")[::2] for text in texts]
    return Info(
        tuple(_normal(one) for key, value in values if key == "depends" for one in value.split(",") if one),
        tuple(_normal(one) for key, value in values if key == "softdep" for one in _before(value)),
        tuple(value for key, value in values if key == "alias"),
    )


def _before(softdep: str) -> list[str]:
    """The words after `pre:` in `pre: crc32c sha256 post: zstd`."""
    words, before, found = softdep.split(), False, list[str]()
    for word in words:
        if word.endswith(":"):
            before = word == "pre:"
        elif before:
            found.append(word)
    return found


def _normal(name: str) -> str:
    return name.replace("-", "_")


def _section(module: bytes, called: str) -> bytes:
    """The content of a module's section .modinfo."""
    try:
        with elf.reading(io.BytesIO(module)) as file:
            if section := file.get_section_by_name(".modinfo"):
                return section.data()
    except elf.DamagedElfError:
        pass
    raise UserError(f"{called} is not a kernel module: it has no section .modinfo")


def _fetch(kernel: Kernel, folder: Path) -> bool:
    """Copy the modules from the kernel's package into the cache; False where there is no package."""
    with tempfile.TemporaryDirectory(prefix=STAGING, dir=folder.parent) as downloads:
        packages = _packages(kernel, Path(downloads))
        if not packages:
            return False
        modules, built_in = _contents(packages)
        infos = {name: read_info(content, f"{name}.ko of {kernel.name}") for name, content in modules.items()}
        orders = {root: order(root, infos) for root in ROOTS if root in infos}
        orders |= {root: _before_built_in(root, built_in, infos) for root in ROOTS if root in built_in}
    with made_whole(folder) as made:
        made.mkdir()
        for name in {name for one in orders.values() for name, _ in one}:
            (made / f"{name}.ko").write_bytes(modules[name])
        (made / "modules.json").write_bytes(msgspec.json.encode(_ModulesRecord(orders)))
    return True


def _before_built_in(
    root: str, built_in: Mapping[str, Info], infos: Mapping[str, Info]
) -> list[tuple[str, bool]]:
    """The softdeps of a built-in module: none is required, as the kernel has it without them."""
    softdeps = Info(before=built_in[root].before)
    return [(name, False) for name, _ in order(root, {**infos, root: softdeps}) if name != root]


def _packages(kernel: Kernel, to: Path) -> list[Path]:
    """The packages that hold a kernel's modules: a distribution's, or the package that it was added from."""
    if package.is_package(Path(kernel.source)):
        if not Path(kernel.source).is_file():
            raise UserError(
                f"{kernel.name} was added from {kernel.source}, which no longer exists, nor do its modules"
            )
        return [Path(kernel.source)]
    try:
        for distribution in archives.DISTRIBUTIONS.values():
            if packages := distribution.download_modules(kernel, to):
                return packages
    except UserError as error:
        raise UserError(
            f"the modules of {kernel.name}: {error}; delete {kernel.image.parent} "
            "to fetch a newer kernel, whose modules the archive has"
        ) from None
    return []


def _contents(packages: Iterable[Path]) -> tuple[dict[str, bytes], dict[str, Info]]:
    """The modules in packages, and what is known of the built-in modules, by name."""
    modules: dict[str, bytes] = {}
    built_in: dict[str, Info] = {}
    known: dict[str, Info] = {}
    left = deb.FILES_LIMIT
    for file in packages:
        for path, content in package.files(file, re.compile(f"{_MODULE.pattern}|{_BUILT_IN.pattern}")):
            if path.endswith("modules.builtin"):
                built_in |= {
                    _normal(PurePosixPath(line).stem): Info()
                    for line in content.decode(errors="replace").splitlines()
                }
            elif path.endswith("modules.builtin.modinfo"):
                known |= read_built_in(content)
            elif path.endswith(_SUFFIXES):
                name = PurePosixPath(path).name.partition(".ko")[0]
                modules[_normal(name)] = compression.small(content, f"{path} of {file}")
                left -= len(modules[_normal(name)])
                deb.check_total(file, left)
    return modules, {name: known.get(name, info) for name, info in built_in.items()}
