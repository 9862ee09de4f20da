"""Kernels: fetched from a distribution, built from source, added from a file, found by name.

>>> from bigiron import kernels
>>> kernels.find("debian/6.1").release  # doctest: +SKIP
'6.1.0-56-cloud-amd64'
"""

import shutil
from collections.abc import Callable
from pathlib import Path

from bigiron.architectures import known_arch
from bigiron.errors import UserError
from bigiron.kernels import archives, image, package, store, variables
from bigiron.kernels.builder import build
from bigiron.kernels.commits import build_commit
from bigiron.kernels.kernel import Kernel
from bigiron.kernels.modules import KernelModule
from bigiron.kernels.modules import needed as modules_for
from bigiron.kernels.release import release_order
from bigiron.kernels.source import commit_id, kernel_version, patched
from bigiron.kernels.source import find as find_source
from bigiron.kernels.store import compiled_from, sha256_of

__all__ = [
    "Kernel",
    "KernelModule",
    "add",
    "build",
    "compiled_from",
    "fetch",
    "find",
    "find_source",
    "installed",
    "is_revision",
    "keep",
    "kernel_version",
    "lacks",
    "modules_for",
    "patched",
    "release_order",
    "sha256_of",
    "shown",
]


def _silent(_step: str) -> None:
    pass


def fetch(name: str, arch: str = "x86_64", on_step: Callable[[str], None] = _silent) -> Kernel:
    """A distribution's kernel: `debian/6.1`, `debian/6.1.192-2`, `ubuntu/24.04`, `fedora/43`.

    What is in the cache is not fetched again.
    """
    arch = known_arch(arch)
    distribution, wanted = archives.of(name), name.partition("/")[2]
    if distribution is None:
        raise UserError(f"{name!r} is not a kernel to fetch: use debian/6.12, ubuntu/24.04 or fedora/43")
    store.check_name(wanted)
    if here := store.lookup(name, arch):
        return here
    with store.writing(on_step) as staging:
        if here := store.lookup(name, arch):  # while waiting for the lock
            return here
        if twin := _same_version(distribution, name, arch):
            shutil.copyfile(twin.image, staging / "image")
            facts = image.read(staging / "image", str(twin.image))
            return store.keep(staging / "image", name, facts, twin.version, twin.source)
        file, chosen, place = distribution.download(wanted, arch, staging, on_step)
        package.extract_image(file, staging / "image")
        image.unpack_zstd(staging / "image", f"the image in {chosen.name}")
        facts = image.read(staging / "image", f"the image in {chosen.name}")
        if (facts.release, facts.arch) != (chosen.release, arch):
            raise UserError(f"{chosen.name} holds another kernel: {facts.release} for {facts.arch}")
        source = f"{distribution.TITLE} {place}, {chosen.name} {chosen.version}"
        return store.keep(staging / "image", name, facts, chosen.version, source)


def _same_version(distribution: archives.DistributionArchive, name: str, arch: str) -> Kernel | None:
    """The kernel in the cache, under another of the distribution's names, that a name means exactly."""
    for here in installed():
        is_theirs = archives.of(here.name) is distribution and here.arch == arch
        if is_theirs and distribution.is_exactly(name.partition("/")[2], here):
            return store.lookup(here.name, arch)
    return None


def add(path: Path, name: str | None = None) -> Kernel:
    """Put a copy of a bzImage, an Image, a vmlinux, a package's image or a built tree's image into the cache.

    Without a name it is called by its release, and by its checksum too if that is another kernel's name.
    """
    if name is not None:
        store.check_name(name)
    if not _exists(path):
        raise UserError(f"there is no file {path}: give {image.ACCEPTED}")
    symbols_at = path / "vmlinux" if path.is_dir() else path
    path = _image_of_tree(path) if path.is_dir() else path
    if not path.is_file():
        raise UserError(f"{path} is not a file: give {image.ACCEPTED}")
    with store.writing(_silent) as staging:
        copy = staging / "image"
        version = _copy_image(path, copy)
        facts = image.read(copy, str(path))
        digest = store.sha256_of(copy)
        for chosen in [name] if name else [facts.release, f"{facts.release}-{digest[:8]}"]:
            store.check_name(chosen)
            here = store.lookup(chosen, facts.arch)
            if here is None:
                variables.read(symbols_at)
                return store.keep(copy, chosen, facts, version or facts.version, str(path.resolve()))
            if here.sha256 == digest:
                return here
    raise UserError(f"{chosen!r} is another kernel already: choose another name")


def lacks(path: Path) -> list[str]:
    """What the kernel in a package that is no Debian package lacks, and what it is for; [] of other files."""
    return package.lacks(path) if package.is_package(path) and path.suffix != ".deb" else []


def find(name: str, arch: str = "x86_64", on_step: Callable[[str], None] = _silent) -> Kernel:
    """The kernel of that name in the cache; else fetched if it is a distribution's, added if it is a path.

    A revision of a git tree, `TREE@REF`, is built if that commit was not built before.
    """
    arch = known_arch(arch)
    if archives.of(name):
        return fetch(name, arch, on_step)
    if store.is_name(name) and (here := store.lookup(name, arch)):
        return here
    if _exists(Path(name)):
        kernel = add(Path(name))
        if kernel.arch != arch:
            raise UserError(f"{name} is a kernel for {kernel.arch}, not for {arch}")
        return kernel
    if is_revision(name):
        tree, _, ref = name.rpartition("@")
        return build_commit(Path(tree), commit_id(Path(tree), ref), [], arch, on_step)
    there = ", ".join(f"{kernel.name} ({kernel.arch})" for kernel in installed())
    raise UserError(
        f"no kernel {name!r} for {arch}{f', only {there}' if there else ' (none is installed yet)'}: "
        "fetch one (bigiron kernel fetch debian/6.12), or give a path"
    )


def is_revision(name: str) -> bool:
    """Whether a kernel is named by a revision of a git tree, `TREE@REF`, and so may have to be built."""
    tree, at, _ = name.rpartition("@")
    return bool(at) and Path(tree).is_dir() and not _exists(Path(name))


def shown(name: str) -> str:
    """What to call a kernel beside others: for a revision of a git tree, `FOLDER@REF` without the path."""
    tree, at, ref = name.rpartition("@")
    return f"{Path(tree).resolve().name}{at}{ref}" if is_revision(name) else name


def keep(path: Path, kernel: Kernel) -> Kernel:
    """Another machine's kernel, known by its content: the one that is here, else a copy of `path`.

    What this machine calls by the same name need not be the same.
    """
    for here in installed():
        if (here.sha256, here.arch) == (kernel.sha256, kernel.arch):
            return here
    name = f"sha256-{kernel.sha256}"
    with store.writing(_silent) as staging:
        if found := store.lookup(name, kernel.arch):  # while waiting for the lock
            return found
        _copy_image(path, staging / "image")
        facts = image.read(staging / "image", f"the image of {kernel.name}")
        if (facts.release, facts.arch) != (kernel.release, kernel.arch):
            raise UserError(f"{kernel.name} is another kernel: {facts.release} for {facts.arch}")
        return store.keep(staging / "image", name, facts, kernel.version, kernel.source)


def installed() -> list[Kernel]:
    """All kernels in the cache, sorted by name."""
    return store.list_kernels()


def _exists(path: Path) -> bool:
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None
    return True


def _image_of_tree(tree: Path) -> Path:
    names = ("arch/x86/boot/bzImage", "arch/arm64/boot/Image", "vmlinux")
    for candidate in (tree / name for name in names):
        if candidate.is_file():
            return candidate
    raise UserError(f"{tree} is not a built kernel tree (no {', no '.join(names)}): run make in it")


def _copy_image(path: Path, to: Path) -> str:
    """Copy the image, out of its package if it is in one; returns the package's version, else ""."""
    version = ""
    if package.is_package(path):
        version = package.read_version(path)
        package.extract_image(path, to)
    else:
        try:
            shutil.copyfile(path, to)
        except OSError as error:
            raise UserError(f"{path} cannot be copied into {to.parent.parent}: {error.strerror}") from None
    image.unpack_zstd(to, str(path))
    return version
