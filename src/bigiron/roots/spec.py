"""What a user may ask for as a root."""

import re
from dataclasses import dataclass
from pathlib import Path

from bigiron.errors import UserError

DEBIAN = "debian:"
_SUITE = re.compile(r"[a-z][a-z0-9.-]{0,63}")
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]{1,127}")  # Debian policy, 5.6.7
_BETWEEN = re.compile(r"(?<!\+)\+(?!\+)|(?<=\+\+)\+(?!\+)|,")
_FORMS = "debian:SUITE+PACKAGE..., a folder, a tar archive, or an OCI layout"


@dataclass(frozen=True)
class Packages:
    """A suite of Debian's, and packages in addition to those that each Debian has.

    >>> str(Packages("trixie", ("redis", "stress-ng")))
    'debian:trixie+redis+stress-ng'
    """

    suite: str
    packages: tuple[str, ...]

    def __str__(self) -> str:
        return DEBIAN + "+".join((self.suite, *self.packages))


def parse(spec: str) -> Packages | Path:
    """Read what a user asks for. The order of packages has no meaning.

    >>> parse("debian:trixie+stress-ng+redis")
    Packages(suite='trixie', packages=('redis', 'stress-ng'))
    >>> parse("debian:sid+g+++libstdc++6+make").packages
    ('g++', 'libstdc++6', 'make')
    """
    if spec == "host":
        raise UserError(
            "the root `host` is not supported yet: use debian:SUITE+PACKAGE..., or a folder of this machine"
        )
    if not spec.startswith(DEBIAN):
        return _existing(spec)
    suite, *packages = _BETWEEN.split(spec.removeprefix(DEBIAN))
    if not _SUITE.fullmatch(suite):
        raise UserError(f"{spec!r} names no suite of Debian: use debian:trixie, or debian:trixie+PACKAGE")
    for package in packages:
        if not _PACKAGE.fullmatch(package):
            raise UserError(
                f"{package!r} in {spec!r} cannot be a package's name: use debian:trixie+PACKAGE+PACKAGE"
            )
    return Packages(suite, tuple(sorted(set(packages))))


def _existing(spec: str) -> Path:
    path = Path(spec).expanduser()
    try:
        path.stat()
    except OSError as error:
        raise UserError(f"no root {spec!r} ({error.strerror}): give {_FORMS}") from None
    except ValueError:
        raise UserError(f"no root {spec!r}: give {_FORMS}") from None
    if not path.is_dir() and not path.is_file():
        raise UserError(f"{spec} is neither a folder nor a file: give {_FORMS}")
    return path.resolve()
