"""Names of kernels by a distribution's release: `24.04`, `43`, or one of its kernels, `24.04-6.8.0-31.31`."""

from collections.abc import Sequence
from dataclasses import dataclass

from bigiron.kernels.archives.archive import Package, matches
from bigiron.kernels.kernel import Kernel


@dataclass(frozen=True)
class Numbered:
    """A kernel of a distribution's release.

    >>> Numbered.parse("24.04"), Numbered.parse("43-6.17.1-300.fc43")
    (Numbered(number='24.04', version=''), Numbered(number='43', version='6.17.1-300.fc43'))
    """

    number: str
    version: str  # a series, an exact version, or a release as `uname -r` prints it; "" if not given

    @classmethod
    def parse(cls, wanted: str) -> "Numbered":
        number, _, version = wanted.partition("-")
        return cls(number, version)

    def fitting(self, packages: Sequence[Package], default: str = "") -> list[Package]:
        """The packages that fit, those of a default series where no version is given."""
        version = self.version or default
        return [package for package in packages if not version or matches(version, package)]


def is_exactly(wanted: str, kernel: Kernel) -> bool:
    """Whether the exact version of a kernel, or its release, is wanted.

    >>> from pathlib import Path
    >>> newest = Kernel("fedora/43", "6.17.1-300.fc43.x86_64", "6.17.1-300.fc43", "x86_64", Path(), "", "")
    >>> [is_exactly(one, newest) for one in ("43-6.17.1-300.fc43", "42-6.17.1-300.fc43", "43-6.17")]
    [True, False, False]
    """
    asked, here = Numbered.parse(wanted), Numbered.parse(kernel.name.partition("/")[2])
    return asked.number == here.number and asked.version in (kernel.version, kernel.release)


def exact_name(name: str, release: str, version: str, arch: str) -> str:
    """The name by which any machine fetches exactly one kernel.

    >>> exact_name("ubuntu/24.04", "6.8.0-31-generic", "6.8.0-31.31", "x86_64")
    'ubuntu/24.04-6.8.0-31.31'
    """
    distribution, _, wanted = name.partition("/")
    return f"{distribution}/{Numbered.parse(wanted).number}-{version}"
