"""The commits between two of a user's git tree: their graph, what each changes, and which of it can matter.

The tree is only read.
"""

import hashlib
import re
import subprocess
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from bigiron.architectures import architecture
from bigiron.errors import UserError
from bigiron.kernels.builder import build
from bigiron.kernels.kernel import Kernel
from bigiron.kernels.source import bytes_of_tree, commit_id, is_repository, of_tree
from bigiron.util.sanitize import sanitize

_NEVER_BUILT = ("Documentation/", "LICENSES/", "samples/", "tools/testing/", "tools/perf/")
_NO_CODE = ("MAINTAINERS", "CREDITS", "COPYING", "README", ".mailmap", ".gitignore", ".clang-format")
_CODE = (".c", ".h", ".S", ".rs", ".dts", ".dtsi")
_BUILD_S_OWN = ("scripts/", "tools/", "usr/", "certs/")
"""Whose code is compiled for the build itself, by other means, too."""


@dataclass(frozen=True)
class _Changed:
    path: str
    is_in_both: bool  # no file that comes or goes

    def matters(self, arch: str, compiled: Collection[str] | None) -> bool:
        """Whether an image can depend on it: a new header may hide another, as asm/ does asm-generic/.

        >>> new, known = "arch/x86/include/asm/xor.h", {"include/asm-generic/xor.h"}
        >>> [_Changed(new, is_in_both).matters("x86_64", known) for is_in_both in (True, False)]
        [False, True]
        """
        may_hide = not self.is_in_both and re.match(r"(include|arch/\w+/include)/", self.path)
        return matters(self.path, arch, compiled) or bool(may_hide and matters(self.path, arch, None))


@dataclass(frozen=True)
class Commits:
    """The commits after `good` up to `bad`, oldest first."""

    tree: Path
    good: str
    bad: str
    bases: tuple[str, ...]  # where the two part, if good is no ancestor of bad
    parents: Mapping[str, tuple[str, ...]]
    subjects: Mapping[str, str]  # of these, of good and of the bases
    changes: Mapping[str, tuple[frozenset[_Changed], ...]]  # in which each differs from each parent

    def title(self, commit: str) -> str:
        """The commit as people write it."""
        subject = self.subjects.get(commit) or subjects(self.tree, [commit])[commit]
        return f'{commit[:12]} ("{subject}")'

    def cannot_matter(self, commit: str, arch: str, compiled: Collection[str] | None) -> bool:
        """Whether it is as one of its parents in all that an image is made of.

        `compiled`: the files that were compiled for images like it; None where that is not known.
        """
        of_parents = self.changes.get(commit, ())
        return any(not any(one.matters(arch, compiled) for one in changed) for changed in of_parents)

    def same_image(self, one: str, other: str, arch: str, compiled: Collection[str] | None) -> bool:
        """Whether two commits make the same image: `compiled` is what that of `one` was compiled from."""
        return not any(file.matters(arch, compiled) for file in _differing(self.tree, one, other))

    def revert(self, commit: str) -> bytes:
        """The patch that reverts a commit; for a merge, all that it brought."""
        parent = (f"{commit}^1",) if self.parents[commit] else ()
        options = ("-p", "-R", "--binary", "--full-index", "--no-ext-diff", "--root", "--no-commit-id")
        return _checked(self.tree, bytes_of_tree(self.tree, "diff-tree", *options, *parent, commit)).stdout


def between(tree: Path, good: str, bad: str) -> Commits:
    """The commits of a git tree that may have changed what is at `good` to what is at `bad`."""
    tree = git_tree(tree)
    good, bad = _commit(tree, "--good", good), _commit(tree, "--bad", bad)
    if good == bad:
        raise UserError(f"--good and --bad are the same commit, {good[:12]}")
    if is_ancestor(tree, bad, good):
        raise UserError(
            f"--bad {bad[:12]} comes before --good {good[:12]}: exchange them (changes may be improvements)"
        )
    bases = of_tree(tree, "merge-base", "--all", good, bad).stdout.split()
    if not bases:
        raise UserError(f"--good {good[:12]} and --bad {bad[:12]} have no common ancestor")
    parents = {
        commit: tuple(its)
        for commit, *its in map(
            str.split,
            _git(tree, "rev-list", "--parents", "--topo-order", "--reverse", bad, f"^{good}").splitlines(),
        )
    }
    bases = [base for base in bases if base != good]
    return Commits(
        tree,
        good,
        bad,
        tuple(bases),
        parents,
        subjects(tree, [*parents, good, *bases]),
        _changes(tree, list(parents)),
    )


def build_commit(
    tree: Path,
    commit: str,
    fragments: Sequence[Path],
    arch: str,
    on_step: Callable[[str], None],
    patches: Sequence[Path] = (),
    called: str = "",
    may_lack: Collection[str] = (),
) -> Kernel:
    """A commit's kernel: `g0123456789ab`, and what `called` says of its configuration and of patches."""
    name = name_of_commit(commit, called)
    spelled = f"{tree}@{commit}"
    return build(spelled, patches, fragments, arch, name, on_step, replace=True, may_lack=may_lack)


def name_of_commit(commit: str, called: str) -> str:
    """What a commit's kernel is called.

    >>> name_of_commit("0123456789abcdef", "-without-fedcba987654")
    'g0123456789ab-without-fedcba987654'
    """
    return f"g{commit[:12]}{called}"


def configured_by(fragments: Sequence[Path]) -> str:
    """What to call kernels of this configuration, beside those of the same commits in another one."""
    options = b"".join(content for _, content in contents_of(fragments))
    return f"-{hashlib.sha256(options).hexdigest()[:8]}" if options else ""


def contents_of(fragments: Sequence[Path]) -> list[tuple[str, bytes]]:
    """Each fragment's name and content; UserError where one cannot be read."""
    try:
        return [(fragment.name, fragment.read_bytes()) for fragment in fragments]
    except OSError as error:
        raise UserError(f"{error.filename} cannot be read: {error.strerror}") from None


def ancestor_and_descendant(tree: Path, base: str, new: str) -> tuple[str, str]:
    """The ids of two commits of a git tree; UserError unless the first comes before the second."""
    tree = git_tree(tree)
    before, after = commit_id(tree, base), commit_id(tree, new)
    if not is_ancestor(tree, before, after):
        raise UserError(
            f"{base} is not an ancestor of {new} in {tree}, so the difference between them is "
            "not that of one commit: give its parent with --base"
        )
    return before, after


def number_of_commits(tree: Path, base: str, new: str) -> int:
    """How many commits there are after the first up to the second."""
    return int(_git(git_tree(tree), "rev-list", "--count", f"{base}..{new}"))


def matters(path: str, arch: str, compiled: Collection[str] | None) -> bool:
    """Whether an image can depend on a file of the source.

    >>> compiled = {"fs/open.c", "include/linux/fs.h"}
    >>> [matters(path, "x86_64", compiled) for path in ("fs/open.c", "fs/ntfs3/file.c", "fs/Kconfig")]
    [True, False, True]
    >>> [matters(path, "x86_64", None) for path in ("MAINTAINERS", "arch/arm64/mm/mmu.c", "fs/ntfs3/file.c")]
    [False, False, True]
    """
    if path.startswith(_NEVER_BUILT) or path in _NO_CODE or path.endswith((".rst", ".yaml")):
        return False
    other = re.match(r"arch/([^/]+)/", path)
    # Every architecture's Kconfig is read, and arch/um shares files with x86.
    if other and other[1] != architecture(arch).kernel_arch and PurePosixPath(path).suffix in _CODE:
        return compiled is not None and path in compiled
    if path.startswith(_BUILD_S_OWN) or PurePosixPath(path).suffix not in _CODE:
        return True
    return compiled is None or path in compiled


def git_tree(tree: Path, option: str = "--linux ") -> Path:
    """The tree's folder; UserError if it is no git repository. `option`: how it was given."""
    tree = tree.resolve()
    if not is_repository(tree):
        raise UserError(f"{option}{tree}: it is not a git repository: give a clone of the kernel's")
    return tree


def _commit(tree: Path, option: str, revision: str) -> str:
    try:
        return commit_id(tree, revision)
    except UserError as error:
        raise UserError(f"{option}: {error}") from None


def is_ancestor(tree: Path, one: str, other: str) -> bool:
    """Whether the first commit comes before the second, or is it."""
    return of_tree(tree, "merge-base", "--is-ancestor", one, other).returncode == 0


def differing(tree: Path, one: str, other: str) -> list[str]:
    """The files in which two commits differ."""
    return [file.path for file in _differing(tree, one, other)]


def _differing(tree: Path, one: str, other: str) -> list[_Changed]:
    words = iter(_git(tree, "diff-tree", "-r", "--no-renames", "--name-status", "-z", one, other).split("\0"))
    return [_Changed(path, status == "M") for status, path in zip(words, words, strict=False)]


def subjects(tree: Path, commits: Sequence[str]) -> dict[str, str]:
    """The subject of each commit."""
    asked = ["log", "--no-walk=unsorted", "--stdin", "--format=%H %s"]
    printed = _git(tree, *asked, stdin="\n".join(commits))
    lines = (line.partition(" ") for line in printed.split("\n"))
    return {commit: sanitize(subject) for commit, _, subject in lines if commit}


def _changes(tree: Path, commits: Sequence[str]) -> dict[str, tuple[frozenset[_Changed], ...]]:
    asked = ("diff-tree", "--stdin", "-r", "-m", "--root", "--no-renames", "--name-status", "--always", "-z")
    printed = _git(tree, *asked, stdin="".join(f"{commit}\n" for commit in commits))
    found: dict[str, list[set[_Changed]]] = {}
    known = set(commits)
    commit = ""
    words = iter(printed.split("\0"))
    for word in words:
        # A commit's line, once for each parent, ends with a newline or not, by git's version.
        line = word.strip("\n").partition(" ")[0]
        if line in known:
            commit = line
            found.setdefault(commit, []).append(set())
        elif word and commit:
            found[commit][-1].add(_Changed(next(words), word == "M"))
    return {commit: tuple(map(frozenset, of_parents)) for commit, of_parents in found.items()}


def _git(tree: Path, *command: str, stdin: str = "") -> str:
    done = _checked(tree, bytes_of_tree(tree, *command, stdin=stdin))
    # Not by subprocess, which takes a carriage return for a line's end.
    return done.stdout.decode(errors="replace")


def _checked(tree: Path, done: "subprocess.CompletedProcess[bytes]") -> "subprocess.CompletedProcess[bytes]":
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["it printed nothing"]
        raise UserError(f"{tree}: git {done.args[4]} failed: {lines[0].removeprefix('fatal: ')}")
    return done
