"""One kernel that bigiron can boot."""

from dataclasses import dataclass
from pathlib import Path


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
    arch: str  # of bigiron.architectures
    image: Path  # x86_64: a bzImage or an ELF vmlinux; ppc64le: an ELF vmlinux; aarch64: an Image
    sha256: str  # of the image
    source: str  # where it came from: the suite and package, or the path added
