"""The kernels of a question: a base, and on it the commits of a git tree, or patches from mails."""

from __future__ import annotations

import hashlib
import re
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from functools import cached_property
from pathlib import Path

from bigiron.errors import UserError
from bigiron.kernels import Kernel, commits, source
from bigiron.kernels.source import commit_id, of_tree
from bigiron.patch.options import defined
from bigiron.study.spec import slug
from bigiron.util.cache_dir import write_whole
from bigiron.util.sanitize import sanitize

MOST_STEPS = 200  # that are built one after the other
_SUBJECT = 40  # characters of a patch's subject in the name of its file
_HEADERS = re.compile(rb"(?:[A-Za-z][\w-]*:.*\n(?:[ \t].*\n)*)+")  # of a mail that is in no mbox


@dataclass(frozen=True)
class Step:
    """A commit or a patch; its kernel has all that comes before it, too."""

    id: str  # the commit's id, or a hash of the patches up to this one
    subject: str
    commit: str  # what is built, with the patches on it
    patches: tuple[Path, ...] = ()

    @property
    def short(self) -> str:
        """Its id as people write it."""
        return self.id[:12]

    @property
    def title(self) -> str:
        """Its id and subject."""
        return f'{self.short} ("{self.subject}")'


@dataclass(frozen=True)
class PatchSeries:
    """A base and the steps on it, oldest first."""

    tree: Path
    base: Step
    steps: tuple[Step, ...]

    @property
    def topic(self) -> Step:
        """The last step."""
        return self.steps[-1]

    def files(self, before: Step, after: Step) -> list[str]:
        """The files of the source that differ, with their paths; empty where that is not known."""
        if after.patches:
            new = after.patches[len(before.patches) :]
            return sorted({name for patch in new for name in _named_in(patch.read_text(errors="replace"))})
        return commits.differing(self.tree, before.commit, after.commit)

    def diff(self, before: Step, after: Step, *options: str) -> str:
        """How the source differs, with these options of git."""
        sources = [source.find(f"{self.tree}@{one.commit}", lambda _step: None) for one in (before, after)]
        was, now = source.patched(sources[0], before.patches), source.patched(sources[1], after.patches)
        return source.diff(was, now, sources[0], *options)

    @cached_property
    def options(self) -> set[str]:
        """The options of the configuration that not all its kernels have, as it defines or removes them."""
        return defined(self.diff(self.base, self.topic, "-U0", "--", "*Kconfig*"))


def of_range(tree: Path, text: str) -> PatchSeries:
    """The commits of BASE..TOPIC; UserError where there are none, or where the tree has other changes."""
    tree = commits.git_tree(tree, "")
    first, _, last = text.partition("..")
    if not first or last.startswith("."):
        raise UserError(f"{text}: give BASE..TOPIC, for instance v6.12..my-topic")
    base, topic = commit_id(tree, first), commit_id(tree, last or "HEAD")
    if commits.is_ancestor(tree, topic, base):
        raise UserError(f"{text}: there is no commit in this range: give the base first, then the topic")
    if not commits.is_ancestor(tree, base, topic):
        fork = of_tree(tree, "merge-base", base, topic).stdout.strip()
        raise UserError(
            f"{text}: {first} is not an ancestor of {last or 'HEAD'}, so more than the commits between them "
            f"differs: {f'give {fork[:12]}, where they part, as the base' if fork else 'rebase the topic'}"
        )
    _refuse_dirty(tree, topic, last or "HEAD")
    between = of_tree(tree, "rev-list", "--first-parent", "--reverse", topic, f"^{base}").stdout.split()
    first_step, *steps = _steps(tree, [base, *between])
    return PatchSeries(tree, first_step, tuple(steps))


def check_each(found: PatchSeries, text: str) -> None:
    """UserError where the commits of a range are too many, or do not follow its base one by one."""
    if len(found.steps) > MOST_STEPS:
        raise UserError(f"--each: {text} has {len(found.steps)} commits: at most {MOST_STEPS}")
    first = found.steps[0]
    parent = commit_id(found.tree, f"{first.id}^")
    if parent != found.base.id:
        raise UserError(
            f"--each: the first commit of {text}, {first.short}, is not on the base but on {parent[:12]}, "
            f"and the base was merged later: give {parent[:12]} as the base, or leave out --each"
        )


def of_file(tree: Path, file: Path, base: str, output: Path | None) -> tuple[PatchSeries, Path]:
    """The patches of a patch, an mbox or a quilt series on a base, and the base's folder, which keeps them.

    UserError where the file cannot be read or has no patch, or where a patch does not apply.
    """
    tree = commits.git_tree(tree, "")
    below = commit_id(tree, base or "HEAD")
    _refuse_dirty(tree, below, base or "HEAD")
    try:
        found = _of_series(file) if file.name == "series" else _of_mails(file.read_bytes())
    except OSError as error:
        raise UserError(f"{error.filename or file} cannot be read: {error.strerror}") from None
    if not found:
        raise UserError(
            f"{file} has no patch: give what `git format-patch --stdout` writes, or a series file"
        )
    if len(found) > MOST_STEPS:
        raise UserError(f"{file} has {len(found)} patches: at most {MOST_STEPS}")
    output = output or Path(f"patch-{below[:12]}")
    folder = output / "patches"
    folder.mkdir(parents=True, exist_ok=True)
    digest, kept, steps = hashlib.sha256(below.encode()), list[Path](), list[Step]()
    for number, (subject, content) in enumerate(found, 1):
        digest.update(content)
        name = f"{digest.hexdigest()[:12]}-{number:04}-{slug(subject)[:_SUBJECT]}"
        kept.append(folder / f"{name}.patch")
        write_whole(kept[-1], content)
        steps.append(Step(digest.hexdigest(), sanitize(subject), below, tuple(kept)))
    # Now, because building the base takes long.
    source.patched(source.find(f"{tree}@{below}", lambda _step: None), kept)
    return PatchSeries(tree, _steps(tree, [below])[0], tuple(steps)), output


def build(
    series: PatchSeries, step: Step, fragments: Sequence[Path], on_step: Callable[[str], None]
) -> Kernel:
    """The kernel of a step, built unless it is there; UserError where it does not build."""
    called = commits.configured_by(fragments)
    if step.patches:
        called = f"-with-{step.short}{called}"
    may_lack = series.options if fragments else ()
    return commits.build_commit(
        series.tree, step.commit, fragments, "x86_64", on_step, step.patches, called, may_lack
    )


def _refuse_dirty(tree: Path, commit: str, called: str) -> None:
    """UserError if what is built is checked out with changes, which would not be built."""
    if of_tree(tree, "rev-parse", "HEAD").stdout.strip() != commit:
        return
    if changed := of_tree(tree, "status", "--porcelain", "--untracked-files=no").stdout.splitlines():
        raise UserError(
            f"{tree} has uncommitted changes ({changed[0][3:]}), which are not in {called}: "
            "commit or stash them"
        )


def _steps(tree: Path, ids: Sequence[str]) -> list[Step]:
    subjects = commits.subjects(tree, ids)
    return [Step(one, subjects[one], one) for one in ids]


def _of_series(file: Path) -> list[tuple[str, bytes]]:
    """The patches that a quilt series names, which lie beside it."""
    found = []
    for line in file.read_text(errors="replace").splitlines():
        name, *options = line.partition("#")[0].split() or [""]
        if set(options) - {"-p1"}:
            raise UserError(f"{file}: {name} has {' '.join(options)}, but patches are applied with -p1 only")
        if name:
            found.append((name, (file.parent / name).read_bytes()))
    return found


def _of_mails(content: bytes) -> list[tuple[str, bytes]]:
    """The subject and the diff of each mail that has one, as git takes mails apart; or one plain diff."""
    if not _is_mail(content):
        return [(_subject(content), content)] if _named_in(content.decode(errors="replace")) else []
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder)
        (where / "mbox").write_bytes(content)
        _git(where, "mailsplit", "-b", f"-o{where}", str(where / "mbox"))  # -b: one mail alone, too
        mails = sorted(where.glob("[0-9]*"))
        found = [(mail, _of_mail(mail)) for mail in mails]
    # A cover letter may have lines after a `---`, too.
    return [(subject, patch) for _, (subject, patch) in found if _named_in(patch.decode(errors="replace"))]


def _is_mail(content: bytes) -> bool:
    r"""Whether it begins as an mbox or as a mail: the body of either may be encoded.

    >>> _is_mail(b"From: A <a@b.c>\nSubject: Count\n\n..."), _is_mail(b"Count.\n\nFrom the docs.\n")
    (True, False)
    """
    start = content.lstrip()
    headers = _HEADERS.match(start.replace(b"\r\n", b"\n"))
    named = {line.partition(b":")[0].lower() for line in headers[0].splitlines()} if headers else set()
    return start.startswith(b"From ") or {b"from", b"subject"} <= named


def _of_mail(mail: Path) -> tuple[str, bytes]:
    text, patch = mail.with_suffix(".text"), mail.with_suffix(".patch")
    # Mailers that encode a patch end its lines with \r\n.
    taken_apart = _git(mail.parent, "mailinfo", "--quoted-cr=strip", text, patch, stdin=mail.read_bytes())
    lines = taken_apart.decode(errors="replace").splitlines()
    subject = next((line[9:] for line in lines if line.startswith("Subject: ")), mail.name)
    return subject, patch.read_bytes()


def _git(folder: Path, *command: str | Path, stdin: bytes = b"") -> bytes:
    done = subprocess.run(["git", *command], cwd=folder, input=stdin, capture_output=True, check=False)
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["it printed nothing"]
        raise UserError(f"git {command[0]} cannot read the mails: {lines[0]}")
    return done.stdout


def _subject(content: bytes) -> str:
    """The subject of a mail, else the first line."""
    text = content.decode(errors="replace")
    if found := re.search(r"^Subject: (.*(?:\n[ \t].*)*)", text, re.MULTILINE):
        try:
            decoded = str(make_header(decode_header(found[1])))
        except (LookupError, ValueError, HeaderParseError):  # of an unknown encoding
            decoded = found[1]
        return re.sub(r"^\[[^]]*\]\s*", "", " ".join(decoded.split()))
    return text.strip().splitlines()[0][:72]


def _named_in(patch: str) -> set[str]:
    r"""The files of a diff.

    >>> _named_in("--- linux.orig/fs/open.c\n+++ linux/fs/open.c\n@@ -1 +1 @@\n")
    {'fs/open.c'}
    """
    of_git = re.findall(r"^diff --git a/(\S+) b/(\S+)", patch, re.MULTILINE)
    plain = re.findall(r"^--- ([^\t\r\n]+).*\n\+\+\+ ([^\t\r\n]+)", patch, re.MULTILINE)
    below = {name.partition("/")[2] for names in plain for name in names if name != "/dev/null"}
    return {name for names in of_git for name in names} | (below - {""})
