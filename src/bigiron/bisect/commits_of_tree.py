"""Candidates of a bisection: the commits of a git tree."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from bigiron import kernels
from bigiron.bisect.bisection import CandidateGraph, Measured
from bigiron.bisect.candidates import as_cannot_measure, checksums
from bigiron.kernels import Kernel
from bigiron.kernels.commits import Commits, build_commit, configured_by, name_of_commit
from bigiron.study.spec import Variant


class CommitsOfTree:
    """Commits of a git tree, whose kernels are built."""

    def __init__(
        self,
        commits: Commits,
        fragments: Sequence[Path],
        variant: Variant,
        arch: str,
        on_step: Callable[[str], None],
    ) -> None:
        """`variant`: the boot parameters and settings of all candidates."""
        self._commits, self._fragments, self._all = commits, fragments, variant
        self._arch, self._on_step = arch, on_step
        self._configured = configured_by(fragments)
        self.question: dict[str, Any] = {
            "linux": str(commits.tree),
            "good": commits.good,
            "bad": commits.bad,
            "config": checksums(fragments),
            "boot": variant.boot,
            "set": variant.set,
        }
        self.history = CandidateGraph(commits.parents)
        self.old, self.new, self.merge_bases = commits.good, commits.bad, commits.bases
        self._kernels: dict[str, Kernel] = {}
        self._files: dict[tuple[str, ...], frozenset[str] | None] = {}
        self._idle: dict[frozenset[str] | None, dict[str, bool]] = {}

    def variant(self, name: str) -> Variant:
        """The kernel of the commit, built."""
        return self._built(name)

    def build_command(self, name: str) -> list[str]:
        """The command that builds the kernel of the commit."""
        fragments = [f"--config={fragment}" for fragment in self._fragments]
        called = name_of_commit(name, self._configured)
        return [
            *("kernel", "build", f"{self._commits.tree}@{name}", "--arch", self._arch, "--name", called),
            *fragments,
        ]

    def image(self, variant: Variant) -> str:
        """The image's checksum."""
        return self._kernel(variant).sha256

    def idle(self, name: str, images: Sequence[Variant]) -> bool:
        """Whether it changes no file that the kernels of the given variants were compiled from."""
        compiled = self._compiled(images)
        known = self._idle.setdefault(compiled, {})
        if name not in known:
            known[name] = self._commits.cannot_matter(name, self._arch, compiled)
        return known[name]

    def same_as(self, name: str, others: Mapping[str, Variant | None]) -> str | None:
        """A commit that differs from it in no file of the image."""
        for other, variant in others.items():
            if self._commits.same_image(
                other, name, self._arch, self._compiled([variant] if variant else [])
            ):
                return other
        return None

    def title(self, name: str) -> str:
        """Its id and subject."""
        return self._commits.title(name)

    def reverted(self, name: str) -> Variant | str:
        """The kernel of the bad end without the commit, built."""
        if name == self.new:
            return "it is the last commit: without it, the tree is that of its parent"
        with tempfile.TemporaryDirectory() as folder:
            patch = Path(folder) / f"revert-{name[:12]}.patch"
            patch.write_bytes(self._commits.revert(name))
            return self._built(self.new, [patch], f"-without-{name[:12]}")

    def log(self, culprit: str, measured: Mapping[str, Measured]) -> str:
        """A log for `git bisect replay`."""
        return _git_log(self._commits, self.history, culprit, measured)

    def _built(self, commit: str, patches: Sequence[Path] = (), without: str = "") -> Variant:
        tree, called = self._commits.tree, f"{without}{self._configured}"
        with as_cannot_measure():
            kernel = build_commit(tree, commit, self._fragments, self._arch, self._on_step, patches, called)
        return msgspec.structs.replace(self._all, name=kernel.name, kernel=kernel.name)

    def _compiled(self, images: Sequence[Variant]) -> frozenset[str] | None:
        """All files that the variants were compiled from; None if they are unknown for one of them."""
        key = tuple(variant.kernel for variant in images)
        if key not in self._files:
            of_all = [kernels.compiled_from(self._kernel(variant)) for variant in images]
            known = [files for files in of_all if files is not None]
            whole = known and len(known) == len(of_all)
            self._files[key] = frozenset[str]().union(*known) if whole else None
        return self._files[key]

    def _kernel(self, variant: Variant) -> Kernel:
        """The kernel of a variant. Cached, because finding it verifies the checksum of its image."""
        name = variant.kernel
        if name not in self._kernels:
            self._kernels[name] = kernels.find(name, self._arch)
        return self._kernels[name]


def _git_log(
    commits: Commits, history: CandidateGraph, culprit: str, measured: Mapping[str, Measured]
) -> str:
    """The `git bisect log` of a search that ends at this culprit."""
    bit = history.mask([culprit])
    lines = ["git bisect start"]

    def mark(answer: str, commit: str) -> None:
        subject = commits.subjects.get(commit, "")
        lines.extend([f"# {answer}: [{commit}] {subject}", f"git bisect {answer} {commit}"])

    mark("bad", commits.bad)
    mark("good", commits.good)
    for commit, value in measured.items():
        if commit in (commits.bad, commits.good, culprit):
            continue
        if value is None:
            mark("skip", commit)
        else:
            mark("bad" if history.ancestors(commit) & bit else "good", commit)
    if culprit != commits.bad:
        mark("bad", culprit)
    lines.append(f"# first bad commit: [{culprit}] {commits.subjects[culprit]}")
    return "\n".join(lines) + "\n"
