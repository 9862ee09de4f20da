"""Distributions whose kernels are fetched by name: a module each.

Each has its own way of signing, and each package that `download` returns was verified. The rest they share:
bigiron.kernels.archives.archive.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from bigiron.kernels.archives import debian, fedora, ubuntu
from bigiron.kernels.archives.archive import Package
from bigiron.kernels.kernel import Kernel


class DistributionArchive(Protocol):
    """What a module here offers."""

    TITLE: str

    def download(
        self, wanted: str, arch: str, to: Path, on_step: Callable[[str], None]
    ) -> tuple[Path, Package, str]:
        """Download the package that holds a kernel, named without the distribution, into a folder.

        Returns the file, the package, and the suite or repository it is in.
        """

    def download_modules(self, kernel: Kernel, to: Path) -> list[Path]:
        """Download the packages that hold a kernel's modules; [] if the kernel is another distribution's."""

    def is_exactly(self, wanted: str, kernel: Kernel) -> bool:
        """Whether a name without the distribution means exactly this kernel of the distribution's."""

    def exact_name(self, name: str, release: str, version: str, arch: str) -> str:
        """The name by which any machine fetches exactly the kernel that has this name here."""


DISTRIBUTIONS: Mapping[str, DistributionArchive] = {"debian": debian, "ubuntu": ubuntu, "fedora": fedora}
"""By the first part of their kernels' names."""


def of(name: str) -> DistributionArchive | None:
    """The distribution that a kernel is fetched from by its name; None of other names.

    >>> of("debian/6.12").TITLE, of("6.12"), of("centos/9")
    ('Debian', None, None)
    """
    distribution, slash, _ = name.partition("/")
    return DISTRIBUTIONS.get(distribution) if slash else None
