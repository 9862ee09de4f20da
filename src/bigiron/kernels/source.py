"""Kernel sources: each becomes a tree in one git repository of bigiron's own.

The user's tree is only read. A tree's id is the source's identity, patches are applied to an index in that
repository, and a checkout writes the files that differ and no others, so that make compiles no others.
"""

import contextlib
import hashlib
import lzma
import os
import re
import shlex
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from bigiron.errors import UserError
from bigiron.kernels import deb, store
from bigiron.kernels.archives import debian
from bigiron.util.cache_dir import cache_folder, locked

_DEBIAN = "debian/"
_ACCEPTED = "give a kernel source tree, TREE@REF for a git ref in it, or debian/6.1"
_NO_SOURCE_PATH = re.compile(r'[\0\n"\\]|(^|/)(\.{0,2}|\.git)(/|$)', re.IGNORECASE)
_GIT = ("git", "-c", "core.compression=1", "-c", "core.autocrlf=false", "-c", "gc.auto=0")


@dataclass(frozen=True)
class KernelSource:
    """A kernel's source as a tree of git objects.

    ```
    KernelSource(family='debian-6.1', description='Debian bookworm-security, linux-source-6.1 6.1.192-2',
                 package_version='6.1.192-2', tree='28a8bbb2cf19b0901ee04442626a2cd538f7245e', objects=None)
    ```
    """

    family: str  # sources of one family are built in one folder, one after the other
    description: str
    package_version: str  # "" if it comes from no package
    tree: str  # its id
    objects: Path | None  # the user's repository's, where the tree is made of those


def find(spelled: str, on_step: Callable[[str], None]) -> KernelSource:
    """The source that the user means: debian/SERIES, debian/VERSION, TREE, or TREE@REF."""
    folder, at, ref = spelled.rpartition("@")
    if spelled.startswith(_DEBIAN):
        store.check_name(spelled.removeprefix(_DEBIAN))
        with _alone(on_step):
            return _from_debian(spelled.removeprefix(_DEBIAN), on_step)
    if Path(spelled).is_dir():
        if not (Path(spelled) / "Kconfig").is_file():
            raise _no_source(str(Path(spelled).resolve()))
        with _alone(on_step):
            return _from_folder(Path(spelled).resolve(), on_step)
    if at and Path(folder).is_dir():
        source = _from_ref(Path(folder).resolve(), ref)
        with _alone(on_step):  # which makes the repository
            return source
    raise UserError(f"there is no source {spelled}: {_ACCEPTED}")


@contextlib.contextmanager
def _alone(on_step: Callable[[str], None]) -> Iterator[None]:
    """While no other bigiron writes to the repository, which is made if it is missing."""
    waiting = "waiting for another bigiron that is reading a source"
    with locked(cache_folder("sources"), lambda: on_step(waiting)):
        if not _repository().exists():
            _git("init", "--quiet", "--bare")
        yield


def patched(source: KernelSource, patches: Sequence[Path]) -> str:
    """The id of the source's tree with the patches applied in turn; UserError for one that does not apply."""
    with tempfile.TemporaryDirectory() as folder:
        index = Path(folder) / "index"
        _git("read-tree", source.tree, objects=source.objects, index=index)
        for patch in patches:
            if not patch.is_file():
                raise UserError(f"there is no patch {patch}")
            apply = ("apply", "--cached", "--whitespace=nowarn", str(patch.resolve()))
            done = _run(*apply, objects=source.objects, index=index)
            if done.returncode:
                raise UserError(
                    f"{patch} does not apply to {source.description}: {_why_not_applied(done.stderr)}"
                )
        return _git("write-tree", objects=source.objects, index=index).strip()


def diff(one: str, other: str, source: KernelSource, *options: str) -> str:
    """The differences between two trees of the source, with these options of git."""
    command = (
        "diff-tree",
        "-r",
        "-p",
        "--no-renames",
        "--no-ext-diff",
        "--no-textconv",
        one,
        other,
        *options,
    )
    return _git(*command, objects=source.objects)


def check_out(tree: str, source: KernelSource, to: Path) -> None:
    """Make the folder `to` hold this tree of the source; a file that it holds already is not touched."""
    to.mkdir(exist_ok=True)
    index = to.with_name(to.name + ".index")  # git's note of what the folder holds
    _git("read-tree", "--reset", "-u", tree, objects=source.objects, index=index, work_tree=to)


def kernel_version(source: KernelSource) -> str:
    """The version in the source's Makefile: 6.1.192."""
    makefile = _git("show", f"{source.tree}:Makefile", objects=source.objects)
    parts = dict(
        re.findall(r"^(VERSION|PATCHLEVEL|SUBLEVEL|EXTRAVERSION) *= *(\S*)$", makefile, re.MULTILINE)
    )
    try:
        return "{VERSION}.{PATCHLEVEL}.{SUBLEVEL}{EXTRAVERSION}".format(**parts)
    except KeyError:
        raise UserError(f"{source.description}: its Makefile gives no kernel version") from None


def _from_debian(wanted: str, on_step: Callable[[str], None]) -> KernelSource:
    """Debian's package linux-source; what is here is not fetched again."""
    ref = f"refs/debian/{wanted.replace('~', '%7E')}"  # a version may have a tilde, a ref must not
    if _run("rev-parse", "--verify", "--quiet", ref).returncode:
        with tempfile.TemporaryDirectory(dir=cache_folder("sources")) as folder:
            file, package, suite = debian.download_source(wanted, Path(folder), on_step)
            archive = Path(folder) / "source.tar.xz"
            deb.extract_source(file, archive)
            on_step(f"unpacking {package.name} {package.version}")
            _import(archive, ref, f"Debian {suite}, {package.name} {package.version}")
    description, tree = _git("log", "-1", "--format=%s%n%T", ref).splitlines()
    return KernelSource(f"debian-{wanted}", description, description.split()[-1], tree, None)


def _import(archive: Path, ref: str, description: str) -> None:
    """A tar archive becomes a commit, never files: no path in it can lead anywhere."""
    with (
        tempfile.TemporaryFile() as stderr,
        subprocess.Popen(
            [*_GIT, "fast-import", "--quiet", "--done", "--depth=0"],
            stdin=subprocess.PIPE,
            stderr=stderr,
            env=_environment(),
        ) as git,
    ):
        to = cast(IO[bytes], git.stdin)
        with contextlib.suppress(BrokenPipeError), to:
            text = description.encode()
            to.write(
                b"commit %b\ncommitter bigiron <> 0 +0000\ndata %d\n%b\n" % (ref.encode(), len(text), text)
            )
            _write_files(archive, to)
            to.write(b"done\n")
        if git.wait():
            stderr.seek(0)
            said = stderr.read().decode(errors="replace")
            raise UserError(f"{description} could not be unpacked: {_first_line(said)}")


def _write_files(archive: Path, to: IO[bytes]) -> None:
    """The files below the archive's one folder, in the language of git fast-import."""
    try:
        with lzma.open(archive) as unpacked, tarfile.open(fileobj=unpacked, mode="r|") as tar:
            for member in tar:
                path = member.name.removeprefix("./").partition("/")[2]
                if member.isdir():
                    continue
                if _NO_SOURCE_PATH.search(path) or not (member.isreg() or member.issym()):
                    raise UserError(
                        f"the archive holds {member.name!r}, which does not belong to a kernel source"
                    )
                target = os.fsencode(member.linkname)
                mode = b"120000" if member.issym() else b"100755" if member.mode & 0o100 else b"100644"
                size = len(target) if member.issym() else member.size
                to.write(b"M %b inline %b\ndata %d\n" % (mode, os.fsencode(path), size))
                if member.issym():
                    to.write(target)
                else:
                    shutil.copyfileobj(cast(IO[bytes], tar.extractfile(member)), to, 1 << 20)
                to.write(b"\n")
            unpacked.read()  # to its end: tarfile takes an archive that is cut short for a whole one
    except (tarfile.TarError, lzma.LZMAError, EOFError) as error:
        raise UserError(f"the archive is incomplete: {error}") from None


def _from_folder(folder: Path, on_step: Callable[[str], None]) -> KernelSource:
    """A tree as it is now: in a git repository without what git ignores, else with everything."""
    objects = _objects(folder)
    if not objects and ((folder / ".config").exists() or (folder / "include/config").exists()):
        raise UserError(f"{folder} has been built in place: run make mrproper in it first")
    on_step(f"reading {folder}")
    index = cache_folder("sources") / f"{_family(folder)}.index"
    if objects and not index.exists():
        _git("read-tree", _object_id(folder, "HEAD^{tree}"), objects=objects, index=index)
    everything = [] if objects else ["--force"]
    _git("add", "--all", *everything, ".", objects=objects, index=index, work_tree=folder)
    tree = _git("write-tree", objects=objects, index=index).strip()
    return KernelSource(_family(folder), str(folder), "", tree, objects)


def _from_ref(folder: Path, ref: str) -> KernelSource:
    objects = _objects(folder)
    if not objects:
        raise UserError(f"{folder} is not a git repository, so it has no {ref!r}")
    tree = _object_id(folder, f"{ref}^{{tree}}")
    if "Kconfig" not in of_tree(folder, "ls-tree", "--name-only", tree).stdout.splitlines():
        raise _no_source(f"{folder}@{ref}")
    _check_is_whole(folder, tree, ref)
    return KernelSource(_family(folder), f"{folder}@{ref}", "", tree, objects)


def _no_source(named: str) -> UserError:
    return UserError(f"{named} is not a kernel source tree (it has no Kconfig): {_ACCEPTED}")


def _family(folder: Path) -> str:
    name = re.sub(r"[^A-Za-z0-9._+-]", "-", folder.name)
    return f"{name}-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:8]}"


def _check_is_whole(folder: Path, tree: str, ref: str) -> None:
    """UserError where a partial clone lacks files of the tree: only git itself would fetch them."""
    partial = r"^(extensions\.partialclone|remote\..*\.promisor)$"
    if of_tree(folder, "config", "--get-regexp", partial).returncode == 0:
        listed = of_tree(folder, "rev-list", "--objects", "--missing=print", tree)
        if any(line.startswith("?") for line in listed.stdout.splitlines()):
            fetch = f"git -C {shlex.quote(str(folder))} fetch --refetch --no-filter"
            raise UserError(f"{folder} is a partial clone that lacks files of {ref}: {fetch}")


def is_repository(folder: Path) -> bool:
    """Whether a folder is the top of a git repository, or a bare one such as a mirror."""
    is_bare = (folder / "HEAD").is_file() and (folder / "objects").is_dir()
    return is_bare or (folder / ".git").exists()


def _objects(folder: Path) -> Path | None:
    """Where the git repository in this folder keeps its objects; None if there is none."""
    if not is_repository(folder):
        return None
    return folder / _theirs(folder, "--git-path", "objects")


def _object_id(folder: Path, revision: str) -> str:
    """The id of a revision in the user's repository."""
    return _theirs(folder, "--verify", "--end-of-options", revision)


def _theirs(folder: Path, *question: str) -> str:
    done = of_tree(folder, "rev-parse", *question)
    if done.returncode:
        revision = re.sub(r"\^\{\w+\}$", "", question[-1])
        raise UserError(f"{folder} has no {revision!r}, says git: {_first_line(done.stderr)}")
    return done.stdout.strip()


def of_tree(folder: Path, *command: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
    """Git's output for the user's repository, which is only read."""
    done = bytes_of_tree(folder, *command, stdin=stdin)
    stdout, stderr = (said.decode(errors="replace") for said in (done.stdout, done.stderr))
    return subprocess.CompletedProcess(done.args, done.returncode, stdout, stderr)


def bytes_of_tree(folder: Path, *command: str, stdin: str = "") -> "subprocess.CompletedProcess[bytes]":
    """The same as it is, for what is no text: files have any encoding, and any line ends."""
    return subprocess.run(
        ["git", "--no-optional-locks", "-C", folder, *command],
        input=stdin.encode(),
        capture_output=True,
        check=False,
        env=_without_git_s_own(os.environ),
    )


def commit_id(folder: Path, revision: str) -> str:
    """The id of a commit in the user's repository; UserError where there is none."""
    return _object_id(folder, f"{revision}^{{commit}}")


def _git(
    *command: str, objects: Path | None = None, index: Path | None = None, work_tree: Path | None = None
) -> str:
    if index:
        # Left behind by a git that was killed: the caller holds the lock of the folder.
        index.with_name(index.name + ".lock").unlink(missing_ok=True)
    done = _run(*command, objects=objects, index=index, work_tree=work_tree)
    if done.returncode:
        raise UserError(f"git {command[0]} failed: {_first_line(done.stderr)}")
    return done.stdout


def _run(
    *command: str, objects: Path | None = None, index: Path | None = None, work_tree: Path | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run git on our repository, with the objects of the user's at hand."""
    more = {
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": objects,
        "GIT_INDEX_FILE": index,
        "GIT_WORK_TREE": work_tree,
    }
    return subprocess.run(
        [*_GIT, *command],
        cwd=work_tree,
        env=_environment() | {name: str(value) for name, value in more.items() if value},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )


def _repository() -> Path:
    return cache_folder("sources") / "git"


def _environment() -> dict[str, str]:
    return _without_git_s_own(os.environ) | {"GIT_DIR": str(_repository())}


def _without_git_s_own(environment: Mapping[str, str]) -> dict[str, str]:
    """Without what would send git to another repository, and with messages that can be read here."""
    kept = {name: value for name, value in environment.items() if not name.startswith("GIT_")}
    return kept | {"LC_ALL": "C"}


def _why_not_applied(stderr: str) -> str:
    r"""The file and hunk that git's message names.

    >>> _why_not_applied("error: patch failed: kernel/fork.c:446\nerror: kernel/fork.c: patch does …\n")
    'kernel/fork.c, the hunk at line 446'
    >>> _why_not_applied("error: kernel/spoon.c: does not exist in index\n")
    'it has no kernel/spoon.c'
    """
    if failed := re.search(r"^error: patch failed: (.+):(\d+)$", stderr, re.MULTILINE):
        return f"{failed[1]}, the hunk at line {failed[2]}"
    if absent := re.search(r"^error: (.+): does not exist in index$", stderr, re.MULTILINE):
        return f"it has no {absent[1]}"
    return _first_line(stderr)


def _first_line(stderr: str) -> str:
    lines = stderr.strip().splitlines() or ["it printed nothing"]
    return re.sub(r"^(error|fatal): ", "", lines[0])
