"""Finding a workload: a built-in one by its name, or a user's own C file."""

import difflib
import hashlib
import re
from dataclasses import dataclass, replace
from pathlib import Path

from bigiron.errors import UserError

_BUILT_IN = Path(__file__).parent
_COMMENT_OR_STRING = re.compile(r'//[^\n]*|/\*.*?\*/|("(?:\\.|[^"\\\n])*")', re.DOTALL)
_SENTENCE = r'\b{}\s*(?:\[\s*\]\s*)?=\s*((?:"(?:\\.|[^"\\\n])*"\s*)+)'
_DESCRIPTION = re.compile(_SENTENCE.format("testcase_description"))
_DIFFERS = re.compile(_SENTENCE.format("testcase_differs"))
_INCLUDED = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*"([\w.-]+)"', re.MULTILINE)
_ROUNDS = re.compile(r"\btestcase_operations\b")
_DIRECT = re.compile(r"\bO_DIRECT\b")
_TESTCASE = re.compile(r"\btestcase\s*\(")


@dataclass(frozen=True)
class Workload:
    """A C file with will-it-scale's interface.

    `sha256` says which text of it was measured, with that of the files beside it that it includes.
    """

    name: str
    description: str
    source: Path
    sha256: str
    has_rounds: bool = False
    """Whether its operations are few and long, done by one task: those that take CPUs offline or online."""
    opens_direct: bool = False
    """Whether it opens files with O_DIRECT, which tmpfs refuses before Linux 6.6."""
    differs: str = ""
    """In what it differs from the benchmark that it is named after; empty: in nothing that matters."""


def builtin() -> list[Workload]:
    """All built-in workloads, by name.

    >>> [workload.name for workload in builtin()][:4]
    ['access1', 'access2', 'brk1', 'brk2']
    """
    return sorted(map(_built_in, _sources()), key=lambda workload: (workload.name.count("/"), workload.name))


def unbounded() -> list[Workload]:
    """The built-in workloads that run until they are stopped, by name."""
    return [workload for workload in builtin() if not workload.has_rounds]


def names() -> set[str]:
    """Of the built-in workloads."""
    return {_name(source) for source in _sources()}


def _sources() -> tuple[Path, ...]:
    return (*_BUILT_IN.glob("*.c"), *_BUILT_IN.glob("*/*.c"))


def _built_in(source: Path) -> Workload:
    return replace(from_file(source), name=_name(source))


def _name(source: Path) -> str:
    """The file's name; in a suite, the folder and the file: `fxmark/DWAL`."""
    return str(source.relative_to(_BUILT_IN).with_suffix(""))


def find(name: str) -> Workload:
    """The built-in workload called `name`.

    >>> find("dup1").description
    "dup and close a descriptor of the task's own file"
    >>> find("page_fault5")
    Traceback (most recent call last):
    bigiron.errors.UserError: no workload 'page_fault5'; did you mean page_fault2, page_fault3, page_fault4?
    """
    if name in (sources := {_name(source): source for source in _sources()}):
        return _built_in(sources[name])
    if name.endswith(".c"):
        raise UserError(f"no workload {name!r}; for a C file of your own use --workload-file {name}")
    close = ", ".join(_close_to(name))
    advice = f"did you mean {close}?" if close else "`bigiron workload list` shows them all"
    raise UserError(f"no workload {name!r}; {advice}")


def _close_to(name: str) -> list[str]:
    """Names that may have been meant: similar ones, and tests of that name in a suite."""
    of_this_form = [known for known in names() if ("/" in known) == ("/" in name)]
    in_suites = [known for known in names() if known.endswith(f"/{name}")]
    return sorted(difflib.get_close_matches(name, of_this_form)) + sorted(in_suites)


def from_file(path: Path) -> Workload:
    """The workload in a C file, any of will-it-scale's `tests/*.c` for instance, named as the file is.

    The description is empty where `testcase_description` is not set to a string literal; so is what differs,
    where `testcase_differs` is not.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read workload file {path}: {error.strerror}") from error
    if b"\0" in content:
        raise UserError(f"workload file {path} is not text; give the C source, not what was compiled from it")
    included = _included(path.parent, content)
    code = b"\n".join([content, *(of for file, of in included.items() if file.suffix == ".c")])
    # Old sources may hold an author's name in Latin-1: that is the compiler's business.
    text = _COMMENT_OR_STRING.sub(lambda match: match[1] or " ", code.decode(errors="replace"))
    if not _TESTCASE.search(text):
        raise UserError(
            f"workload file {path} defines no testcase(); "
            "it needs: void testcase(unsigned long long *iterations, unsigned long nr)"
        )
    return Workload(
        name=path.stem,
        description=_literal(_DESCRIPTION, text),
        source=path.resolve(),
        sha256=hashlib.sha256(b"".join([content, *included.values()])).hexdigest(),
        has_rounds=bool(_ROUNDS.search(text)),
        opens_direct=bool(_DIRECT.search(text)),
        differs=_literal(_DIFFERS, text),
    )


def _literal(assigned: re.Pattern[str], code: str) -> str:
    """The string literals that are assigned, as one; empty: there are none."""
    literals = assigned.search(code)
    joined = "".join(re.findall(r'"((?:\\.|[^"\\])*)"', literals[1])) if literals else ""
    return re.sub(r"\\(.)", r"\1", joined)


def _included(folder: Path, content: bytes) -> dict[Path, bytes]:
    """The files beside it that it includes, directly or indirectly."""
    found: dict[Path, bytes] = {}
    to_read = [content]
    while to_read:
        for name in _INCLUDED.findall(to_read.pop()):
            file = folder / name.decode()
            if file not in found and file.is_file():
                found[file] = file.read_bytes()
                to_read.append(found[file])
    return found
