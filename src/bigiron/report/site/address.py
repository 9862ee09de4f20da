"""Permanent addresses: where the page of a workload, an object or a release is.

Invariant: an address depends on nothing but the kind and the name, whatever else a history holds, and no two
names of a kind have the same one, not even where capitals count as small letters. No name leaves its folder.
"""

import hashlib
import re

_PLAIN = re.compile(r"[a-z0-9_][a-z0-9._-]{0,79}")
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?")  # Windows has no files of these names
_DIGITS = 12


def stem(name: str) -> str:
    """A file's name for any name, without its ending: unchanged if possible, else unique by its hash.

    >>> stem("open1"), stem("debian/6.12"), stem("struct aa_label.count")
    ('open1', 'debian-6.12~f1d742473dda', 'struct-aa_label.count~c08edccc5968')
    """
    if _PLAIN.fullmatch(name) and not _RESERVED.fullmatch(name):
        return name
    readable = re.sub(r"[^a-z0-9._]+", "-", name.lower()).strip("-.")[:60]
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
    return f"{readable}~{digest}"


def workload(name: str) -> str:
    """The address of a workload's page, without its ending."""
    return f"workload/{stem(name)}"


def object(name: str) -> str:
    """The address of an object's page."""
    return f"object/{stem(name)}"


def release(name: str) -> str:
    """The address of a kernel's page."""
    return f"release/{stem(name)}"
