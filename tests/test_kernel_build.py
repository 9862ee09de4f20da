"""Kernels built from source: where sources come from, patches, configuration, and one real build."""

import doctest
import io
import re
import shutil
import subprocess
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import Answer, bigiron, measured

from bigiron import kernels
from bigiron.cases import cases
from bigiron.errors import UserError
from bigiron.kernels import builder, commits, configuration, source, store
from bigiron.kernels.configuration import ConfigOption
from bigiron.kernels.image import Facts
from bigiron.kernels.source import KernelSource
from bigiron.util.cache_dir import cache_folder, locked

BUILD_S = 1800  # a safety net
CASES = Path(__file__).resolve().parent.parent / "cases"


@pytest.fixture(scope="session")
def debian_source() -> KernelSource:
    """The kernel 6.1 with Debian's patches, from the user's cache or fetched into it."""
    return source.find("debian/6.1", lambda _step: None)


@pytest.fixture
def user_cache() -> Path:
    return cache_folder("sources").parent


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user_cache: Path) -> Path:
    monkeypatch.setenv("BIGIRON_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def tree(tmp_path: Path, empty_cache: Path) -> Path:
    """A git tree with the few files that make it a kernel's, and a commit tagged v1."""
    tree = tmp_path / "linux"
    (tree / "kernel").mkdir(parents=True)
    (tree / "Kconfig").write_text("mainmenu\n")
    (tree / "Makefile").write_text("VERSION = 6\nPATCHLEVEL = 1\nSUBLEVEL = 192\nEXTRAVERSION =\n")
    (tree / ".gitignore").write_text("*.o\n")
    (tree / "kernel/fork.c").write_text("".join(f"line {number}\n" for number in range(20)))
    (tree / "kernel/exit.c").write_text("exit\n")
    git(tree, "init", "--quiet")
    git(tree, "add", ".")
    git(tree, "-c", "user.name=me", "-c", "user.email=me@here", "commit", "--quiet", "-m", "first")
    git(tree, "tag", "v1")
    return tree


def git(folder: Path, *command: str) -> str:
    return subprocess.run(["git", "-C", folder, *command], check=True, capture_output=True, text=True).stdout


def find(spelled: str | Path) -> KernelSource:
    return source.find(str(spelled), lambda _step: None)


def contents(folder: Path) -> dict[str, str]:
    files = [file.relative_to(folder) for file in folder.rglob("*") if file.is_file()]
    return {str(file): (folder / file).read_text() for file in files if file.parts[0] != ".git"}


def checked_out(found: KernelSource, tree: str, folder: Path) -> dict[str, str]:
    source.check_out(tree, found, folder)
    return contents(folder)


def patch_of(tmp_path: Path, name: str, old: str, new: str, file: str = "kernel/fork.c") -> Path:
    """A patch of one line in the middle of fork.c."""
    patch = tmp_path / f"{name}.patch"
    before, after = "".join(f" line {n}\n" for n in (7, 8, 9)), "".join(f" line {n}\n" for n in (11, 12, 13))
    patch.write_text(f"Why.\n\n--- a/{file}\n+++ b/{file}\n@@ -8,7 +8,7 @@\n{before}-{old}\n+{new}\n{after}")
    return patch


def test_the_examples() -> None:
    for module in builder, configuration, source:
        assert doctest.testmod(module).failed == 0


# Sources


def unread(tree: Path) -> dict[Path, tuple[int, ...]]:
    """All of its files. Git renews the times of objects that are there already."""
    found = {file: file.stat() for file in tree.rglob("*")}
    objects = tree / ".git/objects"
    return {
        file: (
            *(stat.st_ino, stat.st_mode, stat.st_size),
            *((stat.st_mtime_ns, stat.st_ctime_ns) if objects not in file.parents else ()),
        )
        for file, stat in found.items()
    }


def test_a_revision_of_a_bare_mirror(tree: Path, tmp_path: Path) -> None:
    mirror = tmp_path / "linux.git"
    git(tmp_path, "clone", "--quiet", "--bare", str(tree), str(mirror))
    found = find(f"{mirror}@v1")
    assert (found.tree, found.objects) == (find(f"{tree}@v1").tree, mirror / "objects")
    assert "kernel/fork.c" in checked_out(found, found.tree, tmp_path / "checked-out")
    assert commits.git_tree(mirror) == mirror


def test_a_partial_clone_says_how_to_complete_it(tree: Path, tmp_path: Path) -> None:
    """CI clones so: what another commit has is fetched when git itself reads it."""
    git(tree, "config", "uploadpack.allowFilter", "true")
    (tree / "kernel/exit.c").write_text("changed\n")
    git(tree, "-c", "user.name=me", "-c", "user.email=me@here", "commit", "--quiet", "-a", "-m", "second")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", "--filter=blob:none", f"file://{tree}", str(clone))
    assert find(f"{clone}@HEAD").tree
    complete = f"git -C {clone} fetch --refetch --no-filter"
    with pytest.raises(UserError) as raised:
        find(f"{clone}@v1")
    assert str(raised.value) == f"{clone} is a partial clone that lacks files of v1: {complete}"
    git(clone, *complete.split()[3:])
    assert find(f"{clone}@v1").tree == find(f"{tree}@v1").tree


def test_a_tree_as_it_is_now(tree: Path, tmp_path: Path) -> None:
    (tree / "kernel/exit.c").write_text("changed\n")
    (tree / "kernel/new.c").write_text("new\n")
    (tree / "kernel/fork.o").write_text("built in place\n")
    (tree / ".config").write_text("CONFIG_SMP=y\n")
    (tree / ".gitignore").write_text("*.o\n.config\n")
    before = unread(tree)
    found = find(tree)
    assert unread(tree) == before
    theirs = contents(tree)
    del theirs["kernel/fork.o"], theirs[".config"]
    assert checked_out(found, found.tree, tmp_path / "out") == theirs
    assert found.description == str(tree)
    (tree / "kernel/exit.c").write_text("changed again\n")
    assert checked_out(found, find(tree).tree, tmp_path / "out")["kernel/exit.c"] == "changed again\n"


def test_a_ref(tree: Path, tmp_path: Path) -> None:
    (tree / "kernel/exit.c").write_text("changed\n")
    found = find(f"{tree}@v1")
    assert (found.tree, found.description) == (git(tree, "rev-parse", "v1^{tree}").strip(), f"{tree}@v1")
    assert checked_out(found, found.tree, tmp_path / "out")["kernel/exit.c"] == "exit\n"
    assert found.family == find(tree).family, "a tree and its refs are built in one folder"
    assert source.kernel_version(found) == "6.1.192"


def test_a_revision_as_a_kernel(tree: Path, tmp_path: Path) -> None:
    assert kernels.is_revision(f"{tree}@v1") and kernels.shown(f"{tree}@mm/next") == "linux@mm/next"
    assert not kernels.is_revision("debian/6.1") and kernels.shown("debian/6.1") == "debian/6.1"
    run = ("run", "getppid1", "--cpus", "2", "-o", tmp_path / "s", "--kernel")
    for revision, complaint in [
        (f"{tree}@v9", f"{tree} has no 'v9', says git: Needed a single revision"),
        (f"{tree}@", f"{tree} has no '', says git: Needed a single revision"),
        (f"{tmp_path}@v1", f"{tmp_path} has no 'v1', says git: not a git repository"),
        (f"{tmp_path}/none@v1", f"no kernel '{tmp_path}/none@v1' for x86_64"),
    ]:
        answer = bigiron(*run, revision)
        assert answer.status == 2 and answer.complaint.startswith(complaint), answer
    assert not (tmp_path / "s").exists()


def test_a_revision_that_was_built_is_not_built_again(tree: Path, empty_cache: Path) -> None:
    """Its recipe is what `kernel build` notes; the image here is no kernel that was compiled."""
    found, commit = find(f"{tree}@v1"), git(tree, "rev-parse", "v1").strip()
    spelled = replace(found, description=f"{tree}@{commit}")
    options = configuration.config_options("x86_64", [])
    recipe = builder._recipe(spelled, [], found.tree, options, builder.check_tools("x86_64"))
    with store.writing(pytest.fail) as staging:
        (staging / "image").write_bytes(b"image")
        facts = Facts("x86_64", "6.1.192", "", "vmlinuz")
        kept = store.keep(staging / "image", f"g{commit[:12]}", facts, "", recipe)
    assert kernels.find(f"{tree}@v1") == kernels.find(f"{tree}@{commit}") == kept


def test_a_tree_without_git(tree: Path, tmp_path: Path) -> None:
    shutil.rmtree(tree / ".git")
    (tree / "kernel/blob.o").write_text("a file that is part of the source\n")
    found = find(tree)
    assert checked_out(found, found.tree, tmp_path / "out") == contents(tree)
    (tree / ".config").touch()
    with pytest.raises(UserError, match=r"/linux has been built in place: run make mrproper in it first$"):
        find(tree)


@pytest.mark.parametrize(
    ("spelled", "complaint"),
    [
        (
            "{}/none",
            "there is no source {}/none: give a kernel source tree, TREE@REF for a git ref in it, or",
        ),
        ("{}/linux@v9", "{}/linux has no 'v9', says git: Needed a single revision"),
        ("{}/linux@--help", "{}/linux has no '--help', says git: "),
        ("{}@v1", "{} is not a git repository, so it has no 'v1'"),
        ("{}/linux/kernel", "{}/linux/kernel is not a kernel source tree (it has no Kconfig): give a"),
        ("debian/../6.1", "'../6.1' cannot name a kernel: "),
    ],
)
def test_no_source(tree: Path, tmp_path: Path, spelled: str, complaint: str) -> None:
    """It is refused at once, even while another bigiron reads a source."""
    with locked(cache_folder("sources"), pytest.fail):
        answer = bigiron("kernel", "build", spelled.format(tmp_path))
    assert answer.status == 2
    assert answer.complaint.startswith(complaint.format(tmp_path))


def archive_of(path: Path, *members: tuple[str, bytes, str]) -> Path:
    """A .tar.xz of members: name, type, link's target."""
    with tarfile.open(path, "w:xz") as tar:
        for name, kind, target in members:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, target
            info.size = len(name) if kind == tarfile.REGTYPE else 0
            tar.addfile(info, io.BytesIO(name.encode()) if info.size else None)
    return path


def imported(archive: Path) -> str:
    source._git("init", "--quiet", "--bare")
    source._import(archive, "refs/debian/9", "Debian's")
    return source._git("rev-parse", "refs/debian/9^{tree}").strip()


@pytest.mark.parametrize(
    "member",
    [
        ("linux/../../up", tarfile.REGTYPE, ""),
        ("/etc/../up", tarfile.REGTYPE, ""),
        ("linux/.git/hooks/post-checkout", tarfile.REGTYPE, ""),
        ("linux/a\nb", tarfile.REGTYPE, ""),
        ("linux/hard", tarfile.LNKTYPE, "/etc/passwd"),
        ("linux/node", tarfile.CHRTYPE, ""),
        ("alone", tarfile.REGTYPE, ""),
    ],
)
def test_a_hostile_archive(tmp_path: Path, empty_cache: Path, member: tuple[str, bytes, str]) -> None:
    archive = archive_of(tmp_path / "a.tar.xz", ("linux/Kconfig", tarfile.REGTYPE, ""), member)
    with pytest.raises(
        UserError, match=r"the archive holds .* which does not belong to a kernel source$|could not be unp"
    ):
        imported(archive)
    assert source._run("rev-parse", "--verify", "--quiet", "refs/debian/9").returncode


def test_no_file_is_written_through_a_link(tmp_path: Path, empty_cache: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    tree = imported(
        archive_of(
            tmp_path / "a.tar.xz",
            ("linux/link", tarfile.SYMTYPE, str(outside)),
            ("linux/link/evil", tarfile.REGTYPE, ""),
            ("linux/fine", tarfile.SYMTYPE, "../outside"),
        )
    )
    source.check_out(tree, KernelSource("f", "d", "", tree, None), tmp_path / "out")
    assert list(outside.iterdir()) == []
    assert (tmp_path / "out/fine").readlink() == Path("../outside")


def test_an_archive_cut_short(tmp_path: Path, empty_cache: Path) -> None:
    archive = archive_of(tmp_path / "a.tar.xz", *[(f"linux/{n}", tarfile.REGTYPE, "") for n in range(100)])
    archive.write_bytes(archive.read_bytes()[:-100])
    with pytest.raises(UserError, match=r"^the archive is incomplete: "):
        imported(archive)


# Patches


def test_only_files_that_differ_are_written(tree: Path, tmp_path: Path) -> None:
    found, out = find(tree), tmp_path / "out"
    one = patch_of(tmp_path, "one", "line 10", "line ten")
    two = patch_of(tmp_path, "two", "line ten", "line X")
    checked_out(found, found.tree, out)
    for patches, line in [([one], "line ten\n"), ([one, two], "line X\n"), ([], "line 10\n")]:
        before = {file: file.stat().st_mtime_ns for file in out.rglob("*.c")}
        texts = checked_out(found, source.patched(found, patches), out)
        assert texts["kernel/fork.c"].splitlines(keepends=True)[10] == line
        assert (out / "kernel/fork.c").stat().st_mtime_ns > before[out / "kernel/fork.c"]
        assert (out / "kernel/exit.c").stat().st_mtime_ns == before[out / "kernel/exit.c"]
    assert git(tree, "status", "--porcelain") == ""


def test_patches_that_do_not_apply(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "prose.patch").write_text("no patch\n")
    for patch, complaint in [
        (patch_of(tmp_path, "other", "line ten", "line X"), "kernel/fork.c, the hunk at line 8"),
        (patch_of(tmp_path, "absent", "line 10", "line X", "kernel/spoon.c"), "it has no kernel/spoon.c"),
        (patch_of(tmp_path, "up", "line 10", "line X", "../../up.c"), "it has no ../../up.c"),
        (tmp_path / "prose.patch", "No valid patches in input"),
    ]:
        answer = bigiron("kernel", "build", tree, "--patch", patch)
        assert answer.status == 2
        line = answer.err.splitlines()[-1]
        assert line.startswith(f"bigiron: {patch} does not apply to {tree}: {complaint}"), line
    answer = bigiron("kernel", "build", f"{tree}@v1", "--patch", tmp_path / "none")
    assert (answer.status, answer.complaint) == (2, f"there is no patch {tmp_path}/none")


OF_A_TREE = {  # of a kernel of which the user has the source
    case.folder.resolve() / "patches" / patch
    for case in cases()
    for build in case.builds
    if not build.source
    for patch in build.patches
}


def named_in(patch: Path) -> list[str]:
    """The files that a patch is of."""
    return [line[6:] for line in patch.read_text().splitlines() if line.startswith("+++ b/")]


@pytest.mark.parametrize("patch", sorted(OF_A_TREE), ids=lambda patch: patch.stem)
def test_the_patches_of_other_kernels_are_whole(patch: Path, tmp_path: Path) -> None:
    told = git(tmp_path, "apply", "--numstat", str(patch))
    assert [line.split("\t")[2] for line in told.splitlines()] == named_in(patch)


@pytest.mark.parametrize(
    "patch", sorted(set(CASES.glob("*/patches/*.patch")) - OF_A_TREE), ids=lambda patch: patch.stem
)
def test_the_cases_patches_apply(debian_source: KernelSource, patch: Path) -> None:
    changed = source.patched(debian_source, [patch])
    named = named_in(patch)
    differing = source._git("diff-tree", "-r", "--name-only", debian_source.tree, changed).split()
    assert sorted(named) == differing


# Configuration


@pytest.mark.parametrize(
    ("fragment", "complaint"),
    [
        ("CONFIG_SPOON=y", "{}: this kernel has no option CONFIG_SPOON"),
        (
            "# CONFIG_TRACING is not set\nCONFIG_IRQ_REMAP=y",
            "the kernel's configuration drops CONFIG_TRACING=n, CONFIG_IRQ_REMAP=y (more.config): a ",
        ),
        ("SMP=y", "{}:1: 'SMP=y' is not an option: use CONFIG_NAME=y or # CONFIG_NAME is not set"),
    ],
)
def test_options_that_cannot_be_had(
    debian_source: KernelSource, tmp_path: Path, fragment: str, complaint: str
) -> None:
    file = tmp_path / "more.config"
    file.write_text(fragment)
    answer = bigiron("kernel", "build", "debian/6.1", "--config", file)
    assert answer.status == 2
    assert answer.err.splitlines()[-1].startswith("bigiron: " + complaint.format(file))


def test_no_fragment(tree: Path, tmp_path: Path) -> None:
    answer = bigiron("kernel", "build", tree, "--config", tmp_path / "none")
    assert (answer.status, answer.complaint) == (
        2,
        f"{tmp_path}/none cannot be read: No such file or directory",
    )


def test_the_last_fragment_counts(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("CONFIG_NR_CPUS=8\n# CONFIG_NUMA is not set\n")
    (tmp_path / "b").write_text('CONFIG_NR_CPUS=16\nCONFIG_DEFAULT_HOSTNAME="b"\n')
    found = {
        option.name: option.value
        for option in configuration.config_options("ppc64le", [tmp_path / "a", tmp_path / "b"])
    }
    assert (found["NR_CPUS"], found["NUMA"], found["DEFAULT_HOSTNAME"]) == ("16", "n", '"b"')
    assert found["PPC_PSERIES"] == "y"


def test_of_a_choice_a_fragment_has_its_own(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("CONFIG_HZ_1000=y\n")
    (tmp_path / "b").write_text("# CONFIG_PREEMPT_LAZY is not set\n")
    found = {
        option.name for option in configuration.config_options("x86_64", [tmp_path / "a", tmp_path / "b"])
    }
    assert {"HZ_1000", "PREEMPT_VOLUNTARY"} <= found and "HZ_250" not in found


def test_a_whole_configuration_is_below_all_others_and_none_of_it_is_required(tmp_path: Path) -> None:
    whole, fragment = tmp_path / "config-6.9", tmp_path / "a"
    whole.write_text(
        "#\n# Automatically generated file; DO NOT EDIT.\n# Linux/x86_64 6.9.0 Kernel Configuration\n#\n"
        'CONFIG_CC_VERSION_TEXT="gcc-12"\nCONFIG_EXT4_FS=m\nCONFIG_SECURITY_APPARMOR=y\nCONFIG_AUDIT=y\n'
        "# CONFIG_DEBUG_INFO_BTF is not set\nCONFIG_HZ_1000=y\n# CONFIG_HZ_250 is not set\nCONFIG_PREEMPT=y\n"
        'CONFIG_LSM="lockdown,apparmor"\nCONFIG_INITRAMFS_SOURCE="/root"\nCONFIG_LOCALVERSION="$(shell x)"\n'
    )
    fragment.write_text("# CONFIG_AUDIT is not set\n")
    options = configuration.config_options("x86_64", [fragment, whole])
    found = {option.name: option.value for option in options}
    assert (found["SECURITY_APPARMOR"], found["AUDIT"], found["DEBUG_INFO_BTF"]) == ("y", "n", "y")
    assert (found["HZ_1000"], found["HZ_250"], found["PREEMPT"]) == ("y", "n", "y")
    assert found["LSM"] == '"lockdown,apparmor"'
    assert not {"EXT4_FS", "PREEMPT_VOLUNTARY", "LOCALVERSION", "INITRAMFS_SOURCE"} & found.keys()
    given = {**found, "AUDIT": "n"}
    del given["CC_VERSION_TEXT"]  # which the compiler here says otherwise
    (tmp_path / ".config").write_text("".join(f"CONFIG_{name}={value}\n" for name, value in given.items()))
    configuration.check(options, tmp_path / ".config", tmp_path)


def test_a_whole_configuration_of_another_architecture_is_refused(tmp_path: Path) -> None:
    whole = tmp_path / "config"
    whole.write_text("# Linux/powerpc 6.9.0 Kernel Configuration\nCONFIG_SMP=y\n")
    assert configuration.config_options("ppc64le", [whole])
    with pytest.raises(
        UserError, match=r"/config is the configuration of a powerpc kernel, and .* for x86_64$"
    ):
        configuration.config_options("x86_64", [whole])


def test_pages_of_another_size_are_refused_before_anything_is_compiled(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("CONFIG_ARM64_64K_PAGES=y\n")
    with pytest.raises(UserError, match=r"^kernels with pages of 64 KiB are not supported on aarch64 yet$"):
        configuration.config_options("aarch64", [tmp_path / "a"])


def test_an_option_that_only_one_of_two_kernels_has_is_no_error_of_the_other(tmp_path: Path) -> None:
    """A patch adds it, say; and where it is known it must hold."""
    (tmp_path / "Kconfig").write_text("config OLD\n")
    (tmp_path / ".config").write_text("CONFIG_SMP=y\n")
    old, new = (ConfigOption(name, "y", tmp_path / "f") for name in ("OLD", "NEW"))
    configuration.check([new], tmp_path / ".config", tmp_path, {"NEW"})
    with pytest.raises(UserError, match="no option CONFIG_NEW"):
        configuration.check([new], tmp_path / ".config", tmp_path, {"OLD"})
    with pytest.raises(UserError, match="drops CONFIG_OLD=y"):
        configuration.check([old, new], tmp_path / ".config", tmp_path, {"OLD", "NEW"})


def test_what_newer_kernels_have_instead(tmp_path: Path) -> None:
    """Lazy preemption took the place of voluntary: bigiron takes it, and who asked for the other is told."""
    (tmp_path / "Kconfig").write_text("config PREEMPT_VOLUNTARY\nconfig PREEMPT_LAZY\nconfig SPOON\n")
    (tmp_path / ".config").write_text("CONFIG_PREEMPT_LAZY=y\n")
    ours = next(
        option for option in configuration.config_options("x86_64", []) if option.name == "PREEMPT_VOLUNTARY"
    )
    configuration.check([ours], tmp_path / ".config", tmp_path)
    for theirs in ConfigOption(ours.name, "y", tmp_path / "f"), ConfigOption("SPOON", "y", ours.fragment):
        with pytest.raises(UserError, match=rf"drops CONFIG_{theirs.name}=y \({theirs.fragment.name}\)"):
            configuration.check([theirs], tmp_path / ".config", tmp_path)


# Building


def test_what_building_lacks(tree: Path, tmp_path: Path) -> None:
    answer = bigiron("kernel", "build", tree, "--arch", "riscv64")
    assert (answer.status, answer.complaint.split(":")[0]) == (2, "architecture 'riscv64' is not known")
    answer = bigiron("kernel", "build", tree, "--name", "a/b")
    assert answer.status == 2
    assert answer.err.splitlines()[-1].startswith("bigiron: 'a/b' cannot name a kernel: ")
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in "make", "flex", "bison", "bc", "gcc":
        (tools / tool).symlink_to(str(shutil.which(tool)))
    answer = bigiron("kernel", "build", tree, PATH=str(tools))
    assert (answer.status, answer.complaint) == (
        2, "no pahole on PATH to build a kernel with: apt-get install dwarves",
    )  # fmt: skip


def test_pahole_has_one_thread(tmp_path: Path) -> None:
    """With several, the size of .BTF differs from build to build, and with it all addresses behind it."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/pahole").write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
    (tmp_path / "bin/pahole").chmod(0o755)
    command = [builder._pahole_of_one_thread(tmp_path), "-J", "-j2", "--btf_gen_floats", "-j", "a file"]
    path = f"{tmp_path / 'bin'}:/usr/bin:/bin"
    said = subprocess.run(command, env={"PATH": path}, check=True, capture_output=True, text=True).stdout
    assert said == "-J|--btf_gen_floats|a file|"


def test_a_kernel_that_does_not_compile(debian_source: KernelSource, tmp_path: Path) -> None:
    bounds = source._git("show", f"{debian_source.tree}:kernel/bounds.c").splitlines()
    at = bounds.index("int main(void)") + 1
    patch = tmp_path / "broken.patch"
    patch.write_text(
        f"--- a/kernel/bounds.c\n+++ b/kernel/bounds.c\n@@ -{at},3 +{at},4 @@\n"
        f" {bounds[at - 1]}\n {bounds[at]}\n+\tspoon;\n {bounds[at + 1]}\n"
    )
    answer = bigiron("kernel", "build", "debian/6.1", "--patch", patch)
    log = cache_folder("builds") / "debian-6.1@x86_64/log"
    assert answer.status == 2
    assert answer.err.splitlines()[-1] == (
        f"bigiron: the kernel does not build: kernel/bounds.c:{at + 2}:9: error: 'spoon' undeclared "
        f"(first use in this function) (the log is {log})"
    )
    assert "spoon" in log.read_text()


@pytest.mark.build
def test_a_real_kernel(
    debian_source: KernelSource, tmp_path: Path, user_cache: Path, empty_cache: Path
) -> None:
    """The smallest kernel, on an empty cache but for Debian's source; then again with a patch."""
    empty_cache.mkdir()
    (empty_cache / "sources").symlink_to(user_cache / "sources")
    (empty_cache / "ccache").symlink_to(user_cache / "ccache")
    smallest = ("--config", Path(__file__).with_name("smallest.config"))
    answer = built("debian/6.1", *smallest, "--name", "first")
    release = re.fullmatch(r"first: Linux (6\.1\.\d+)\n", answer.out)
    assert release, answer
    first = kernels.find("first")
    assert first.version.startswith(release[1])
    assert first.source.startswith(
        f"{debian_source.description}: tree {debian_source.tree[:12]}, configuration "
    )
    measured("getppid1", "--kernel", "first", "--cpus", "2", "--probe", "throughput", "-o", tmp_path / "s")

    # Nothing is compiled for the same again, and no other kernel takes its name.
    again = built("debian/6.1", *smallest, "--name", "first")
    assert (again.out, again.err) == (answer.out, "")
    patch = CASES / "hotplug-rcu/patches/idle-without-wait.patch"
    answer = bigiron("kernel", "build", "debian/6.1", *smallest, "--patch", patch, "--name", "first")
    assert answer.status == 2
    assert answer.complaint.startswith("'first' is another kernel already (Debian ")

    built("debian/6.1", *smallest, "--patch", patch, "--name", "second")
    log = (empty_cache / "builds/debian-6.1@x86_64/log").read_text()
    compiled = set(
        re.findall(r"^  CC +(?!init/|scripts/|\.|arch/x86/(?:boot|tools))(\S+)$", log, re.MULTILINE)
    )
    assert compiled == {"drivers/cpuidle/cpuidle.o"}
    assert kernels.find("second").sha256 != first.sha256

    # The same source makes the same kernel.
    built("debian/6.1", *smallest, "--name", "third")
    assert kernels.find("third").sha256 == first.sha256

    # Before 5.0 there is no PVH, by which QEMU boots an ELF file.
    (tmp_path / "as-before-5.0.config").write_text("# CONFIG_PVH is not set\n")
    built("debian/6.1", *smallest, "--config", tmp_path / "as-before-5.0.config", "--name", "older")
    assert kernels.find("older").image.name == "vmlinuz"
    measured("getppid1", "--kernel", "older", "--cpus", "2", "--probe", "throughput", "-o", tmp_path / "o")
    shutil.rmtree(empty_cache / "builds")  # gigabytes


def built(*arguments: str | Path) -> Answer:
    answer = bigiron("kernel", "build", *arguments, timeout_s=BUILD_S)
    assert answer.status == 0, answer
    return answer
