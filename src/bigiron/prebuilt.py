"""Programs that a wheel brings compiled, for machines without a compiler; tools/wheel.py makes them.

A program is found by its key, a hash of the sources in this package and of how they are compiled: where one
of them was changed, the compiler is used. A checkout has no such programs.
"""

import hashlib
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import msgspec

from bigiron.errors import UserError
from bigiron.util.cache_dir import cache_folder, made_whole

FOLDER = Path(__file__).with_name("compiled")
"""`index.json`, archives of programs, and the recorder as it is loaded; as a wheel has it."""
INDEX = "index.json"


@dataclass(frozen=True)
class Index:
    """What the folder holds."""

    made_with: tuple[str, ...] = ()  # compilers, C libraries and the plugin interface, one line each
    programs: Mapping[str, str] = field(default_factory=dict)  # by key: the archive, or "" of a plain file
    system_calls: Mapping[str, dict[str, int]] = field(default_factory=dict)  # by architecture, by name


def key(name: str, arch: str, *parts: str) -> str:
    """The key of a program for an architecture, the same on every host: 32 hexadecimal digits."""
    return hashlib.sha256("\0".join((name, arch, *parts)).encode()).hexdigest()[:32]


def holds(wanted: str) -> bool:
    """Whether the program with this key came with the package."""
    return wanted in index().programs


def find(name: str, wanted: str) -> Path | None:
    """The program with this key, unpacked into the cache; None if it did not come with the package.

    UserError if it should have, and its archive is damaged.
    """
    if not holds(wanted):
        return None
    archive = index().programs[wanted]
    if not archive:
        return FOLDER / wanted / name
    final = cache_folder("compiled") / wanted
    if not final.is_dir():
        with made_whole(final) as folder:
            folder.mkdir()
            _unpack(FOLDER / archive, f"{wanted}/{name}", folder / name)
    return final / name


def index() -> Index:
    """What came with the package: nothing in a checkout."""
    return read(FOLDER / INDEX)


@cache
def read(file: Path) -> Index:
    """An index; an empty one if there is no such file."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=Index)
    except FileNotFoundError:
        return Index()
    except (OSError, msgspec.DecodeError) as error:
        raise UserError(f"{file} cannot be read: {error}; install bigiron again") from None


def _unpack(archive: Path, member: str, to: Path) -> None:
    try:
        with tarfile.open(archive, "r|xz") as files:
            found = next((one for one in files if one.name == member), None)
            content = files.extractfile(found) if found else None
            if content is None:
                raise UserError(f"{archive} has no {member}: install bigiron again")
            to.write_bytes(content.read())
    except (OSError, EOFError, tarfile.TarError) as error:
        raise UserError(f"{archive} cannot be unpacked: {error}; install bigiron again") from None
    to.chmod(0o755)
