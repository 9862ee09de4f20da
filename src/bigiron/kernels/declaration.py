"""A struct's declaration in a source tree: where each member is declared, and its text with members moved.

Only what the text makes plain is changed. A member that a macro declares, or under another condition than the
place where it is to go, is a UserError: what the compiler makes of it the text does not say.
"""

from __future__ import annotations

import difflib
import os
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path

from bigiron.errors import UserError

_FIRST = "include"  # where most structs are declared
_NOT_COMPILED = {"Documentation", "tools", "samples", "scripts", "usr", ".git"}
_LARGEST = 8 << 20  # bytes of a file
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_DIRECTIVE = re.compile(r"\s*#\s*(\w+)")
_MACRO = re.compile(r"(\w+)\s*\((?!\s*\*)")
_ATTRIBUTE = re.compile(
    r"\b(?:__attribute__\s*\(\(.*?\)\)|__\w+\s*\([^()]*\)|____cacheline\w*"
    r"|__(?:packed|read_mostly|(?:no_)?randomize_layout)\b)"
)
_POINTER_TO_FUNCTION = re.compile(r"\(\s*\*+\s*(?:\w+\s+)*(\w+)\s*(?:\[[^]]*\]\s*)?\)\s*\(")


@dataclass(frozen=True)
class DeclaredMember:
    """What one declaration in a struct declares. Lines are counted from 0."""

    names: tuple[str, ...]  # all of an anonymous struct or union
    lead: int  # the first line, with the comment that is about this member alone
    first: int
    last: int  # with the rest of a comment that begins on that line
    end: tuple[int, int]  # the line and column of its semicolon
    conditions: tuple[int, ...]  # the lines of the #ifs that it is in
    why_not: str  # why its text cannot be changed; empty: it can
    is_macro: bool = False  # whether a macro declares it, and may declare more than its arguments
    members: tuple[DeclaredMember, ...] = ()  # of an anonymous struct

    def all(self) -> Iterator[DeclaredMember]:
        """It, or instead of an anonymous struct the members in it."""
        for one in self.members:
            yield from one.all()
        if not self.members:
            yield self


@dataclass(frozen=True)
class Declaration:
    """A struct in a file."""

    struct: str
    path: str  # in the tree
    lines: tuple[str, ...]  # of the file
    members: tuple[DeclaredMember, ...]
    end: tuple[int, int]  # the line and column of the struct's semicolon

    def _path(self, name: str) -> list[DeclaredMember]:
        """The anonymous structs that a name is in, the outermost first, and the member that declares it."""
        found: list[DeclaredMember] = []
        members = self.members
        while one := next((one for one in members if name in one.names), None):
            found.append(one)
            members = one.members
        if not found:
            raise UserError(f"{self.path} declares no {name} in struct {self.struct}")
        return found

    def _plain(self, member: DeclaredMember, name: str) -> DeclaredMember:
        """The member that has a name. UserError unless its text can be changed."""
        if member.why_not:
            raise UserError(f"{self.path}:{member.first + 1}: {name} {member.why_not}")
        return member

    def moved(self, name: str, where: str, anchor: str) -> Declaration:
        """With a member `after` or `before` another one, or the anonymous struct that only that one is in."""
        paths = self._path(name), self._path(anchor)
        apart = (pair for pair in zip(*paths, strict=False) if pair[0] is not pair[1])
        pair = next(apart, (paths[0][-1], paths[1][-1]))
        one, other = (self._plain(*each) for each in zip(pair, (name, anchor), strict=True))
        if one.conditions != other.conditions:
            inner, called = max((one, name), (other, anchor), key=lambda item: len(item[0].conditions))
            condition = " ".join(self.lines[inner.conditions[-1]].split())
            raise UserError(f"{self.path}:{inner.first + 1}: {called} is declared under {condition} only")
        to = other.last + 1 if where == "after" else other.lead
        text, rest = self.lines[one.lead : one.last + 1], self.lines[one.last + 1 :]
        if to > one.last:
            text, rest = self.lines[one.last + 1 : to] + text, self.lines[to:]
            return parsed(self.struct, self.path, self.lines[: one.lead] + text + rest)
        return parsed(self.struct, self.path, self.lines[:to] + text + self.lines[to : one.lead] + rest)

    def aligned(self, name: str, bytes: int) -> Declaration:
        """With a member at a multiple of so many bytes; without a name the struct itself."""
        row, column = self._plain(self._path(name)[-1], name).end if name else self.end
        line = self.lines[row]
        text = f"{line[:column].rstrip()} __aligned({bytes}){line[column:]}"
        return parsed(self.struct, self.path, (*self.lines[:row], text, *self.lines[row + 1 :]))

    def diff(self, after: Declaration) -> str:
        """What `git apply` takes."""
        names = f"a/{self.path}", f"b/{self.path}"
        return "".join(difflib.unified_diff(self.lines, after.lines, *names))


def find(tree: Path, struct: str, kernel_arch: str) -> Declaration:
    """The declaration of a struct. UserError unless there is one, and only one, for that architecture."""
    if not (tree / _FIRST).is_dir():
        raise UserError(f"--source {tree}: it is not a kernel's source: it has no folder {_FIRST}")
    start = re.compile(_start(struct).encode(), re.MULTILINE)
    for files in (_files(tree / _FIRST), _other_files(tree, kernel_arch)):
        found = [(file, content) for file in files if start.search(content := _read(file))]
        if len(found) > 1 or (found and len(start.findall(found[0][1])) > 1):
            where = " and ".join(file.relative_to(tree).as_posix() for file, _ in found[:2])
            raise UserError(f"--source {tree}: struct {struct} is declared more than once, in {where}")
        for file, content in found:
            lines = re.findall(r"[^\n]*\n|[^\n]+", content.decode(errors="replace"))
            return parsed(struct, file.relative_to(tree).as_posix(), lines)
    raise UserError(f"--source {tree}: no file declares struct {struct}")


def parsed(struct: str, path: str, lines: Sequence[str]) -> Declaration:
    """The declaration in a file's lines, which have their ends. UserError where its text has none."""
    text = _Text(lines)
    start = re.search(_start(struct), text.bare, re.MULTILINE)
    statements = text.statements(start.end()) if start else []
    if not start or not statements:
        raise UserError(f"{path}: the end of struct {struct} cannot be found in its text")
    return Declaration(
        struct, path, tuple(lines), text.members(start.end(), statements), text.place(statements[-1][1])
    )


def _start(struct: str) -> str:
    return rf"^(?:typedef[ \t]+)?struct[ \t]+{re.escape(struct)}\s*\{{"


def _files(folder: Path) -> Iterator[Path]:
    for where, folders, names in os.walk(folder):
        folders.sort()
        yield from (Path(where, name) for name in sorted(names) if name.endswith((".h", ".c")))


def _other_files(tree: Path, kernel_arch: str) -> Iterator[Path]:
    """Files that are compiled for an architecture, without those of `_FIRST`."""
    for folder in sorted(one for one in tree.iterdir() if one.is_dir() and not one.is_symlink()):
        if folder.name not in {_FIRST, *_NOT_COMPILED}:
            yield from _files(folder / kernel_arch if folder.name == "arch" else folder)


def _read(file: Path) -> bytes:
    """A file of the tree; nothing of what is no plain file, or too large for a source."""
    try:
        is_plain = file.is_file() and not file.is_symlink() and file.stat().st_size <= _LARGEST
        return file.read_bytes() if is_plain else b""
    except OSError:
        return b""


class _Text:
    """A file's text, also without comments (`code`) and without directives (`bare`), as long as it is."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        text = "".join(lines)
        self._ends = list(accumulate(map(len, lines)))
        self._comments = [(self.row(one.start()), self.row(one.end() - 1)) for one in _COMMENT.finditer(text)]
        code = _COMMENT.sub(lambda found: _blank(found[0]), text)
        self._code = [code[end - len(line) : end] for line, end in zip(lines, self._ends, strict=True)]
        self._conditions = list(_conditions(self._code))
        self.bare = "".join(_blank(line) if _DIRECTIVE.match(line) else line for line in self._code)

    def row(self, offset: int) -> int:
        """The line of a character."""
        return bisect_right(self._ends, offset)

    def place(self, offset: int) -> tuple[int, int]:
        """The line and column of a character."""
        row = self.row(offset)
        return row, offset - (self._ends[row] - len(self._lines[row]))

    def statements(self, at: int) -> list[tuple[int, int]]:
        """Where each statement of a block begins and has its semicolon; last that of the block's own end.

        Empty if the block does not end.
        """
        found: list[tuple[int, int]] = []
        depth, begin = 0, -1
        for offset in range(at, len(self.bare)):
            sign = self.bare[offset]
            if begin < 0 and not sign.isspace():
                begin = offset
            depth += (sign in "({[") - (sign in ")}]")
            if depth < 0:
                end = self.bare.find(";", offset)
                return [*found, (offset, end)] if end >= 0 else []
            if sign == ";" and not depth:
                found.append((begin, offset))
                begin = -1
        return []

    def members(self, at: int, statements: Sequence[tuple[int, int]]) -> tuple[DeclaredMember, ...]:
        """The members of a block that begins there, and has these statements."""
        found: list[DeclaredMember] = []
        before = self.row(at - 1)
        for one, (following, _) in pairwise(statements):
            found.append(self._member(*one, before, self.row(following)))
            before = found[-1].last
        return tuple(found)

    def _member(self, begin: int, stop: int, before: int, following: int) -> DeclaredMember:
        """A statement as a member, between the lines of the one before and of the following one."""
        first, end = self.row(begin), self.row(stop)
        last = max([end, *(to for at, to in self._comments if at == end and self._is_blank(to))])
        lead = first
        while lead - 1 > before and self._is_blank(lead - 1) and self._lines[lead - 1].strip():
            lead -= 1
        text, behind = self.bare[begin:stop], self._code[last + 1].strip()
        names = _names(text)
        why_not = "shares a line with another declaration" if first <= before or end >= following else ""
        if self._conditions[first] != self._conditions[end]:
            why_not = "has another declaration under another condition"
        inside = begin + text.find("{") + 1 if _is_anonymous_struct(text) else 0
        return DeclaredMember(
            tuple(names),
            first if behind and behind[0] not in "#}" else lead,
            first,
            last,
            self.place(stop),
            self._conditions[first],
            why_not or _why_not(text, names),
            bool(_MACRO.match(text)),
            self.members(inside, self.statements(inside)) if inside else (),
        )

    def _is_blank(self, row: int) -> bool:
        """Whether a line has nothing, or only a comment."""
        return not self._code[row].strip()


def _why_not(text: str, names: Sequence[str]) -> str:
    """Why a declaration is not plain; empty if it is."""
    if macro := _MACRO.match(text):
        return f"is declared by the macro {macro[1]}"
    if lone := re.match(r"(?!struct|union|enum)(\w+)[ \t]*\n", text):
        return f"follows the macro {lone[1]}"
    if "{" not in text and len(names) != 1:
        return f"is declared together with others: {', '.join(names)}"
    return "is a bit field" if re.search(r":\s*\w+\s*$", text) else ""


def _conditions(code: Sequence[str]) -> Iterator[tuple[int, ...]]:
    """Of each line: the lines of the #ifs, #elses and #elifs that it is in."""
    found: list[int] = []
    for number, line in enumerate(code):
        what = directive[1] if (directive := _DIRECTIVE.match(line)) else ""
        if what in ("else", "elif", "endif") and found:
            found.pop()
        if what in ("if", "ifdef", "ifndef", "else", "elif"):
            found.append(number)
        yield tuple(found)


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def _names(declaration: str) -> list[str]:
    r"""What a declaration without its semicolon declares.

    >>> _names("char name[32] __aligned(8)"), _names("int (*fn)(int a, int b)"), _names("int a, b:4")
    (['name'], ['fn'], ['a', 'b'])
    >>> _names("union {\n\tint a;\n\tstruct { int b, c; };\n}"), _names("union { int a; } u")
    (['a', 'b', 'c'], ['u'])
    """
    if _MACRO.match(declaration):
        return re.findall(r"\w+", declaration.partition("(")[2])
    head, inside, tail = _block(declaration)
    if inside and not tail:
        return [name for one in _split(inside, ";") for name in _names(one.strip())]
    text = f"{head} {tail}"
    if function := _POINTER_TO_FUNCTION.search(text):
        return [function[1]]
    found = (re.findall(r"\w+", re.sub(r"\[[^]]*\]|:.*", " ", one)) for one in _split(text, ","))
    return [words[-1] for words in found if words]


def _is_anonymous_struct(declaration: str) -> bool:
    r"""Whether a declaration without its semicolon is that of a struct without a name.

    >>> [_is_anonymous_struct(f"struct {{ int a; }} {end}") for end in ("__randomize_layout", "inner")]
    [True, False]
    """
    head, inside, tail = _block(declaration)
    return head.split() == ["struct"] and bool(inside) and not tail


def _block(declaration: str) -> tuple[str, str, str]:
    """What is before a declaration's braces, in them and after them, without attributes out of them."""
    head, brace, rest = declaration.partition("{")
    inside, _, tail = rest.rpartition("}") if brace else ("", "", "")
    return _ATTRIBUTE.sub("", head), inside, _ATTRIBUTE.sub("", tail).strip()


def _split(text: str, at: str) -> list[str]:
    """The parts between signs that are in no brackets."""
    parts, depth = [""], 0
    for sign in text:
        depth += (sign in "({[") - (sign in ")}]")
        if sign == at and not depth:
            parts.append("")
        else:
            parts[-1] += sign
    return [part for part in parts if part.strip()]
