"""A git tree of many commits on a Debian kernel's source, one of which is a culprit.

What `bigiron bisect --linux` is tried on (docs/validation/regressions/bisection.md). The culprit makes open()
write a counter that all CPUs share, or is a patch. The others are harmless: documentation, other
architectures, drivers that are not compiled, comments, functions that nothing calls; some come in by merges,
and three that follow each other do not build. The last commit is the branch `main`, the first the tag `good`.

    python benchmarks/regressions/commits.py TREE                         # 256 commits on Debian's 6.1
    python benchmarks/regressions/commits.py TREE --source debian/6.12 --patch tests/corpus/statistics.patch
    python benchmarks/regressions/commits.py TREE --number 128 --place 0  # there is no culprit
"""

import argparse
import random
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bigiron.kernels import source
from bigiron.util.cache_dir import cache_folder

COMPILED = ["fs/namei.c", "fs/dcache.c", "fs/inode.c", "mm/filemap.c", "mm/mmap.c", "kernel/fork.c",
            "kernel/exit.c", "lib/radix-tree.c", "fs/pipe.c", "ipc/sem.c", "net/socket.c"]  # fmt: skip
NOT_COMPILED = ["drivers/scsi/scsi.c", "drivers/gpu/drm/drm_file.c", "fs/f2fs/file.c", "sound/core/init.c",
                "net/sctp/socket.c", "drivers/usb/core/hub.c"]  # fmt: skip
ELSEWHERE = ["arch/arm64/kernel/setup.c", "arch/s390/kernel/setup.c", "arch/riscv/kernel/smp.c"]
DOCUMENTS = ["Documentation/admin-guide/cgroup-v2.rst", "Documentation/filesystems/proc.rst", "MAINTAINERS"]
KINDS = [("documentation", DOCUMENTS, 35), ("elsewhere", ELSEWHERE, 20), ("not compiled", NOT_COMPILED, 20),
         ("comment", COMPILED, 15), ("code", COMPILED, 10)]  # fmt: skip
CULPRIT = "fs/file_table.c"
FUNCTION = "struct file *alloc_empty_file(int flags, const struct cred *cred)\n{\n"
VARIABLES = "\tstatic long old_max;\n\tstruct file *f;\n"
UNBUILDABLE = 3


class Tree:
    """The files that commits change, as they are after the last one."""

    def __init__(self, tree: str) -> None:
        self.tree, self.files = tree, dict[str, str]()

    def read(self, path: str) -> str:
        """A file's text."""
        if path not in self.files:
            shown = ["git", "-C", str(cache_folder("sources") / "git"), "show", f"{self.tree}:{path}"]
            self.files[path] = subprocess.run(shown, check=True, capture_output=True, text=True).stdout
        return self.files[path]

    def apply(self, patch: Path) -> list[str]:
        """Change what a patch changes; its files."""
        shown = ["git", "apply", "--numstat", str(patch.absolute())]
        listed = subprocess.run(shown, check=True, capture_output=True, text=True).stdout
        paths = [line.split("\t")[2] for line in listed.splitlines()]
        with tempfile.TemporaryDirectory() as folder:
            for path in paths:
                Path(folder, path).parent.mkdir(parents=True, exist_ok=True)
                Path(folder, path).write_text(self.read(path), encoding="utf-8")
            subprocess.run(["git", "apply", str(patch.absolute())], cwd=folder, check=True)
            for path in paths:
                self.files[path] = Path(folder, path).read_text(encoding="utf-8")
        return paths


def change(tree: Tree, number: int, kind: str, path: str) -> str:
    """What a commit makes of a file."""
    text = tree.read(path)
    match kind:
        case "documentation":
            return f"{text}\n.. {number}\n" if path.endswith(".rst") else f"{text}\n"
        case "code":
            function = f"int harmless_{number}(void)"
            return f"{text}\n{function};\n{function}\n{{\n\treturn {number};\n}}\n"
        case "culprit":
            before = FUNCTION + VARIABLES
            assert before in text
            counter = "static atomic_long_t files_opened;\n\n"
            return text.replace(before, f"{counter}{before}\n\tatomic_long_inc(&files_opened);\n")
        case "broken":
            return f"{text}\n#error broken\n"
        case "fixed":
            return text.replace("\n#error broken\n", "")
    return f"{text}\n/* {number} */\n"


def commits(
    tree: Tree, number: int, place: int, patch: Path | None, chance: random.Random
) -> Iterator[tuple[str, list[str]]]:
    """Kind and paths of each, oldest first; `tree` has their texts."""
    broken = min(number - 8, number // 3)
    kinds, weights = [kind for kind in KINDS], [weight for *_, weight in KINDS]
    for one in range(1, number + 1):
        name, paths, _ = chance.choices(kinds, weights)[0]
        kind, path = name, chance.choice(paths)
        if one == place:
            kind, path = "culprit", CULPRIT
        elif one == broken:
            kind, path = "broken", "fs/open.c"
        elif broken < one < broken + UNBUILDABLE:
            kind, path = "comment", "fs/namei.c"
        elif one == broken + UNBUILDABLE:
            kind, path = "fixed", "fs/open.c"
        if kind == "culprit" and patch:
            yield kind, tree.apply(patch)
        else:
            tree.files[path] = change(tree, one, kind, path)
            yield kind, [path]


def stream(tree: Tree, number: int, place: int, patch: Path | None) -> Iterator[bytes]:
    """All commits for git fast-import. Every sixteenth is a merge of a branch of four."""
    chance = random.Random(number)
    yield _commit(1, "first", [], f"M 040000 {tree.tree} \n".encode()) + b"reset refs/tags/good\nfrom :1\n\n"
    for one, (kind, paths) in enumerate(commits(tree, number, place, patch, chance), 2):
        files = b"".join(_file(path, tree.read(path).encode()) for path in paths)
        parents = [one - 1, one - 5] if one % 16 == 0 and one > 16 else [one - 1]
        yield _commit(one, f"{paths[0].rpartition('/')[2]}: {kind} {one - 1}", parents, files)


def _file(path: str, content: bytes) -> bytes:
    return b"M 100644 inline %b\ndata %d\n%b\n" % (path.encode(), len(content), content)


def _commit(number: int, subject: str, parents: list[int], changes: bytes) -> bytes:
    title = subject.encode()
    head = b"commit refs/heads/main\nmark :%d\ncommitter me <me@here> %d +0000\n" % (number, number)
    of = b"".join(b"%b :%d\n" % (b"merge" if place else b"from", one) for place, one in enumerate(parents))
    return head + b"data %d\n%b\n" % (len(title), title) + of + changes + b"\n"


def main() -> None:
    """Make the tree."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tree", type=Path, metavar="TREE", help="the folder to make")
    parser.add_argument("--source", default="debian/6.1", help="the kernel it begins with")
    parser.add_argument("--number", type=int, default=256, help="how many commits")
    parser.add_argument(
        "--place", type=int, help="which of them is the culprit; 0: none; five eighths of the way"
    )
    parser.add_argument("--patch", type=Path, help="the culprit; a counter in open() unless given")
    given = parser.parse_args()
    place = given.number * 5 // 8 if given.place is None else given.place
    debian_s = source.find(given.source, print)
    folder = given.tree
    git = ["git", "-C", str(folder)]
    folder.mkdir(parents=True)
    subprocess.run([*git, "init", "--quiet", "--initial-branch", "main"], check=True)
    objects = cache_folder("sources") / "git/objects"
    (folder / ".git/objects/info/alternates").write_text(f"{objects}\n")
    done = b"".join(stream(Tree(debian_s.tree), given.number, place, given.patch))
    subprocess.run([*git, "fast-import", "--quiet"], input=done, check=True)
    subprocess.run([*git, "reset", "--quiet", "main"], check=True)
    found = subprocess.run(
        [*git, "log", "--oneline", "--grep", "culprit"], check=True, capture_output=True, text=True
    )
    print(found.stdout or "no culprit\n", end="")


if __name__ == "__main__":
    main()
