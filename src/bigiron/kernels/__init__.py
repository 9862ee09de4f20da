"""Kernels: fetched from Debian, added from a file, found by name.

>>> from bigiron import kernels
>>> kernels.find("debian/6.1").release  # doctest: +SKIP
'6.1.0-56-cloud-amd64'
"""

import shutil
from collections.abc import Callable
from pathlib import Path

from bigiron.errors import UserError
from bigiron.kernels import deb, debian, image, store
from bigiron.kernels.kernel import Kernel, known_arch

__all__ = ["Kernel", "add", "fetch", "find", "installed"]

_DEBIAN = "debian/"


def _silent(_step: str) -> None:
    pass


def fetch(name: str, arch: str = "x86_64", on_step: Callable[[str], None] = _silent) -> Kernel:
    """The kernel `debian/SERIES` or `debian/VERSION`; what is in the cache is not fetched again."""
    arch = known_arch(arch)
    wanted = name.removeprefix(_DEBIAN)
    if not name.startswith(_DEBIAN):
        raise UserError(f"{name!r} is not a kernel to fetch: use debian/6.1 or debian/6.1.192-2")
    store.check_name(wanted)
    if here := store.lookup(name, arch):
        return here
    with store.writing(on_step) as staging:
        if here := store.lookup(name, arch):  # while waiting for the lock
            return here
        package_file, package, suite = debian.download(wanted, arch, staging, on_step)
        file = staging / "image"
        deb.extract_image(package_file, file)
        facts = image.read(file, f"the image in {package.name}")
        if (facts.release, facts.arch) != (package.release, arch):
            raise UserError(f"{package.name} holds a kernel {facts.release} for {facts.arch}: not what it says")
        return store.keep(file, name, facts, package.version, f"Debian {suite}, {package.name} {package.version}")


def add(path: Path, name: str | None = None) -> Kernel:
    """Put a copy of a bzImage, a vmlinux, a .deb's image or a built tree's image into the cache.

    Without a name it is called by its release.
    """
    if name is not None:
        store.check_name(name)
    path = _image_of_tree(path) if path.is_dir() else path
    if not path.is_file():
        raise UserError(f"{path} is not a file: give a bzImage, an ELF vmlinux, a .deb or a built tree")
    with store.writing(_silent) as staging:
        file, version = staging / "image", ""
        if path.suffix == ".deb":
            version = deb.read_control(path).version
            deb.extract_image(path, file)
        else:
            shutil.copyfile(path, file)
        facts = image.read(file, str(path))
        digest = store.sha256_of(file)
        chosen = name or facts.release
        here = store.lookup(chosen, facts.arch)
        if here and here.sha256 != digest and name is None:
            chosen = f"{facts.release}-{digest[:8]}"
            here = store.lookup(chosen, facts.arch)
        if here and here.sha256 != digest:
            raise UserError(f"{chosen!r} is another kernel already: choose another name, or delete {here.image.parent}")
        return here or store.keep(file, chosen, facts, version or facts.version, str(path.resolve()))


def find(name: str, arch: str = "x86_64") -> Kernel:
    """The kernel of that name in the cache; else fetched if it is `debian/…`, added if it is a file or tree."""
    arch = known_arch(arch)
    if name.startswith(_DEBIAN):
        return fetch(name, arch)
    if here := store.lookup(name, arch):
        return here
    if Path(name).exists():
        return add(Path(name))
    there = [f"{kernel.name} ({kernel.arch})" for kernel in installed()]
    raise UserError(
        f"there is no kernel {name!r} for {arch}: use {', '.join(there) if there else 'debian/6.1'}, "
        "fetch one (bigiron kernel fetch debian/6.12), or give a path"
    )


def installed() -> list[Kernel]:
    """All kernels in the cache, sorted by name."""
    return store.everything()


def _image_of_tree(tree: Path) -> Path:
    for candidate in (tree / "arch/x86/boot/bzImage", tree / "vmlinux"):
        if candidate.is_file():
            return candidate
    raise UserError(f"{tree} is not a built kernel tree: it has no arch/x86/boot/bzImage and no vmlinux; run make")
