"""One kernel that bigiron can boot, and the two architectures it knows."""

from dataclasses import dataclass
from pathlib import Path

from bigiron.errors import UserError

_SPELLINGS = {
    "x86_64": "x86_64",
    "amd64": "x86_64",
    "ppc64le": "ppc64le",
    "ppc64el": "ppc64le",  # Debian's spelling
}


@dataclass(frozen=True)
class Kernel:
    """A kernel image in the cache; a name and an architecture mean one image for good.

    ```
    Kernel(name='debian/6.1', release='6.1.0-56-cloud-amd64', version='6.1.192-2', arch='x86_64',
           image=PosixPath('~/.cache/bigiron/kernels/debian@6.1@x86_64/vmlinuz'), sha256='…',
           source='Debian bookworm-security, linux-image-6.1.0-56-cloud-amd64 6.1.192-2')
    ```
    """

    name: str  # what the user types: debian/6.1, debian/6.1.192-2, or the name given to `add`
    release: str  # uname -r
    version: str  # the package's version; "" if unknown
    arch: str  # x86_64 or ppc64le
    image: Path  # x86_64: a bzImage or an ELF vmlinux; ppc64le: an ELF vmlinux
    sha256: str  # of the image
    source: str  # where it came from: the suite and package, or the path added


def known_arch(arch: str) -> str:
    """The kernel's own spelling of an architecture.

    >>> known_arch("ppc64el")
    'ppc64le'
    """
    try:
        return _SPELLINGS[arch]
    except KeyError:
        raise UserError(f"architecture {arch!r} is not known: use one of {', '.join(_SPELLINGS)}") from None
