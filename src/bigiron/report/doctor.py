"""`bigiron doctor --report`: versions and what is missing, for a bug report, without what is private."""

import getpass
import platform
import re
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version

import bigiron
from bigiron.doctor import Check
from bigiron.util import distribution

_PACKAGES = ("msgspec", "numpy", "polars", "pyelftools", "rich", "scipy", "typer")
_URL = re.compile(r"\b\w+://\S+")
_PATH = re.compile(r"(?<![\w.~/-])/[^\s,;:'\"()]+")
_PUBLIC = ("/usr/", "/bin/", "/sbin/", "/lib/", "/sys/", "/proc/", "/dev/")
_HIDDEN = "…"
_SAYS_NOTHING = ("root", "localhost")


def as_text(checks: Iterable[Check]) -> str:
    """The report: one fact a line."""
    system = distribution.here().name
    lines = [
        f"bigiron {bigiron.__version__}, Python {platform.python_version()}",
        f"{system}, Linux {platform.release()}, {platform.machine()}",
        ", ".join(f"{package} {_version(package)}" for package in _PACKAGES),
        "",
        *(f"{check.state:8} {check.name}: {check.found}" for check in checks),
    ]
    return without_what_is_private("\n".join(lines), _names_of_this_machine()) + "\n"


def without_what_is_private(text: str, names: Iterable[str]) -> str:
    """A text without addresses, without folders that are not every machine's, and without some names.

    >>> print(without_what_is_private("gcc of /home/ann/bin/gcc, /usr/bin/gcc; http://box.corp/debian", []))
    gcc of …/gcc, /usr/bin/gcc; …
    >>> without_what_is_private("ann's laptop-7: annual", ["ann", "laptop-7"])
    "…'s …: annual"
    """
    text = _PATH.sub(lambda path: _without_folders(path[0]), _URL.sub(_HIDDEN, text))
    for name in filter(None, names):
        text = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", _HIDDEN, text)
    return text


def _without_folders(path: str) -> str:
    return path if path.startswith(_PUBLIC) else f"{_HIDDEN}/{path.rpartition('/')[2]}"


def _names_of_this_machine() -> list[str]:
    """The user's and the host's, longest first, as one may be part of another."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a number without a name
        user = ""
    host = platform.node()
    names = {user, host, host.partition(".")[0]} - set(_SAYS_NOTHING)
    return sorted(names, key=len, reverse=True)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "missing"
