"""One root file system that a virtual machine can have."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Root:
    """A read-only image in the cache. The image is what counts: its checksum is the root's identity.

    ```
    Root(name='debian:trixie+stress-ng', arch='x86_64', sha256='…',
         image=PosixPath('~/.cache/bigiron/roots/….squashfs'), size_bytes=187654144, file_system='squashfs')
    ```
    """

    name: str  # what the user types: debian:trixie+stress-ng, ./image.tar
    arch: str  # of bigiron.architectures
    sha256: str  # of the image
    image: Path
    size_bytes: int  # of the image
    file_system: str  # the image's: the guest's module that mounts it
