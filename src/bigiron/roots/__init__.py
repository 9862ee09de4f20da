"""Root file systems: made of Debian's packages, a folder, an archive or an OCI image; kept by content.

>>> from bigiron import roots
>>> roots.resolve("debian:trixie+stress-ng").size_bytes  # doctest: +SKIP
187654144
"""

from collections.abc import Callable

from bigiron.architectures import known_arch
from bigiron.errors import UserError
from bigiron.roots.root import Root

__all__ = ["Root", "resolve"]


def _silent(_step: str) -> None:
    pass


def resolve(spec: str, arch: str = "x86_64", on_step: Callable[[str], None] = _silent) -> Root:
    """The root that a user asks for: the one in the cache, else one made now.

    `debian:SUITE[+PACKAGE...]`, a folder, a tar archive, or an OCI layout.
    """
    arch = known_arch(arch)
    raise UserError(f"the root {spec!r} for {arch} cannot be made yet")
