"""Debian's kernels from an archive on loopback, also in the states that a mirror has while it is updated."""

import hashlib
import os
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from deb_archive import Archive, served

from bigiron import kernels, libbpf
from bigiron.architectures import architecture
from bigiron.errors import UserError
from bigiron.kernels import modules
from bigiron.kernels.archives import debian
from bigiron.kernels.archives.apt import Apt

FLAVOUR = "cloud-amd64"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BIGIRON_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def archive(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Archive]:
    (tmp_path / "archive").mkdir()
    with served(tmp_path / "archive", monkeypatch) as archive:
        yield archive


def image(release: str, version: str) -> bytes:
    """The head of a bzImage, which says all that is asked of one."""
    text = f"{release} (me@here) #1 SMP Debian {version}".encode()
    head = bytearray(4096)
    struct.pack_into("<B", head, 0x1F1, 1)  # sectors, besides the first
    struct.pack_into("<4sH", head, 0x202, b"HdrS", 0x20C)
    struct.pack_into("<H", head, 0x20E, 0x400 - 0x200)  # where the text is
    struct.pack_into("<H", head, 0x236, 1)  # 64 bits
    head[0x400 : 0x400 + len(text)] = text
    return bytes(head)


def kernel_package(archive: Archive, version: str) -> Path:
    """The package linux-image-9.9.N-cloud-amd64 of version 9.9.N-1; ext4 is built in."""
    release = f"{version.partition('-')[0]}-{FLAVOUR}"
    files = {
        f"boot/vmlinuz-{release}": image(release, version),
        f"lib/modules/{release}/modules.builtin": b"kernel/fs/ext4/ext4.ko\n",
    }
    return archive.package(f"linux-image-{release}", version, files)


def package_of(version: str) -> str:
    return f"linux-image-{version.partition('-')[0]}-{FLAVOUR}_{version}"


def have_been_read(cache: Path, seconds_ago: float, arch: str = "amd64") -> None:
    """The package lists that are in the cache become older."""
    folder, then = cache / "apt" / arch, time.time() - seconds_ago
    for file in (folder / "sources/debian.sources", *folder.glob("read-*")):
        os.utime(file, (then, then))


def others_size(archive: Archive, suite: str) -> None:
    """A list becomes that of the next update, as its Release file does not say yet."""
    archive.remove(f"{suite}/main/binary-{archive.arch}/by-hash")
    archive.files[archive.list_of(suite)] += b"more"


def steps_of(do: Callable[[Callable[[str], None]], object]) -> list[str]:
    steps: list[str] = []
    do(steps.append)
    return steps


def test_an_exact_version_into_an_empty_cache(archive: Archive, cache: Path) -> None:
    archive.publish("trixie", [kernel_package(archive, version) for version in ("9.9.1-1", "9.9.2-1")])
    steps: list[str] = []
    exact = kernels.fetch("debian/9.9.1-1", on_step=steps.append)
    assert (exact.name, exact.version, exact.release) == ("debian/9.9.1-1", "9.9.1-1", f"9.9.1-{FLAVOUR}")
    assert exact.source == f"Debian trixie, linux-image-9.9.1-{FLAVOUR} 9.9.1-1"
    assert steps == [
        "updating Debian's package lists for amd64",
        f"downloading linux-image-9.9.1-{FLAVOUR} 9.9.1-1 (0 MB)",
    ]
    files = {str(file.relative_to(cache)) for file in (cache / "kernels").rglob("*") if file.is_file()}
    folder = f"kernels/{exact.image.parent.name}"
    assert files == {f"{folder}/vmlinuz", f"{folder}/kernel.json", "kernels/.lock"}


@pytest.mark.parametrize("name", ["debian/8.8", "debian/9.9.1-2"])
def test_a_kernel_debian_does_not_have(archive: Archive, name: str) -> None:
    archive.publish("bookworm", [kernel_package(archive, version) for version in ("9.9.1-1", "9.10.3-1")])
    with pytest.raises(
        UserError,
        match=rf"^Debian has no kernel {name[7:]} for x86_64: it has debian/9\.9, debian/9\.10 \(suites .*"
        r"snapshot\.debian\.org \(bigiron kernel add FILE\.deb\)$",
    ):
        kernels.fetch(name)


def test_an_exact_version_that_is_here_under_another_name(archive: Archive) -> None:
    archive.publish("trixie", [kernel_package(archive, "9.9.1-1")])
    newest = kernels.fetch("debian/9.9")
    archive.files.clear()
    exact = kernels.fetch("debian/9.9.1-1", on_step=pytest.fail)
    assert (exact.name, exact.sha256, exact.source) == ("debian/9.9.1-1", newest.sha256, newest.source)


# An archive that is being updated


def test_a_list_is_asked_for_by_its_hash(archive: Archive) -> None:
    archive.publish("trixie", [kernel_package(archive, "9.9.1-1")])
    archive.files[archive.list_of("trixie")] += b"more"
    steps = steps_of(lambda step: kernels.fetch("debian/9.9", on_step=step))
    assert [step.split()[0] for step in steps] == ["updating", "downloading"]
    assert archive.list_of("trixie") not in archive.asked_for


def test_a_list_that_is_whole_again_at_the_second_try(archive: Archive) -> None:
    archive.publish("trixie", [kernel_package(archive, "9.9.1-1")])
    list_of = archive.list_of("trixie")
    archive.later[list_of] = archive.files[list_of]
    others_size(archive, "trixie")
    steps = steps_of(lambda step: kernels.fetch("debian/9.9", on_step=step))
    assert [step.split()[0] for step in steps] == ["updating", "Debian's", "downloading"]
    assert steps[1] == "Debian's archive is being updated: trying again in 0 s"


def test_the_last_good_list_is_used(archive: Archive, cache: Path) -> None:
    archive.publish("trixie", [kernel_package(archive, "9.9.1-1")])
    assert debian.apt("x86_64").update(lambda _step: None) == ""
    have_been_read(cache, 3.5 * 3600)
    archive.publish("trixie", [kernel_package(archive, "9.9.2-1")])
    others_size(archive, "trixie")
    steps = steps_of(lambda step: kernels.fetch("debian/9.9", on_step=step))
    (words,) = (step for step in steps if step.startswith("apt could not read all package lists: E: "))
    assert "File has unexpected size" in words
    assert words.endswith("; using the lists of trixie from 3 hours ago; there may be a newer kernel")
    assert kernels.find("debian/9.9").version == "9.9.1-1"


def test_a_suite_without_any_list(archive: Archive, cache: Path) -> None:
    archive.publish("trixie", [kernel_package(archive, "9.10.1-1")])
    archive.publish("bookworm", [kernel_package(archive, "9.9.1-1")])
    others_size(archive, "trixie")
    assert kernels.fetch("debian/9.9").version == "9.9.1-1"
    with pytest.raises(
        UserError,
        match=r"^debian/9\.10: apt could not read all package lists: E: .*; there is no list of trixie yet; "
        r"check the network, or name another mirror in BIGIRON_DEBIAN_MIRROR$",
    ):
        kernels.fetch("debian/9.10")


def test_an_update_that_was_interrupted_is_done_again(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    apt = debian.apt("x86_64")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Apt, "_try_to_update", interrupted)
        apt.update(lambda _step: None)
    assert steps_of(apt.update) == ["updating Debian's package lists for amd64"]
    assert steps_of(apt.update) == []


# What an archive lists and does not have


def test_the_version_before_one_that_is_gone(archive: Archive) -> None:
    archive.publish("bookworm-security", [kernel_package(archive, "9.9.1-1")])
    archive.publish("trixie", [kernel_package(archive, "9.9.2-1")])
    archive.remove(package_of("9.9.2-1"))
    steps: list[str] = []
    assert kernels.fetch("debian/9.9", on_step=steps.append).version == "9.9.1-1"
    assert "404" in steps[2] and steps[2].endswith("; the archive may have changed")
    assert steps[-1].startswith(f"downloading linux-image-9.9.1-{FLAVOUR} 9.9.1-1 ")


def test_a_newer_version_in_place_of_one_that_is_gone(archive: Archive) -> None:
    archive.publish("trixie", [kernel_package(archive, "9.9.1-1")])
    assert debian.apt("x86_64").update(lambda _step: None) == ""
    archive.publish("trixie", [kernel_package(archive, "9.9.2-1")])
    archive.remove(package_of("9.9.1-1"))
    assert kernels.fetch("debian/9.9").version == "9.9.2-1"


def test_what_to_do_where_all_are_gone(archive: Archive) -> None:
    archive.publish("trixie", [kernel_package(archive, "9.9.1-1")])
    archive.remove("pool/")
    with pytest.raises(
        UserError,
        match=rf"^debian/9\.9: linux-image-9\.9\.1-{FLAVOUR}=9\.9\.1-1 could not be downloaded: E: .* 404 .*"
        r"; the package list names it, but the archive does not have it: try again later, name another "
        r"mirror in BIGIRON_DEBIAN_MIRROR, or get its package from snapshot\.debian\.org",
    ) as error:
        kernels.fetch("debian/9.9")
    assert "\n" not in str(error.value)


def test_modules_of_a_kernel_that_the_archive_no_longer_has(archive: Archive) -> None:
    archive.publish("trixie", [kernel_package(archive, "9.9.1-1")])
    kernel = kernels.fetch("debian/9.9")
    archive.files.clear()
    archive.asked_for.clear()
    assert modules.needed(kernel, "ext4") == []
    assert archive.asked_for == []


def test_a_library_of_the_release_before(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(libbpf, "_release", lambda: "trixie")
    (tmp_path / "archive").mkdir()
    with served(tmp_path / "archive", monkeypatch, "ppc64el") as archive:
        folder = "usr/lib/powerpc64le-linux-gnu"
        for suite, version in ("bookworm", "1"), ("trixie", "2"):
            packages = [
                archive.package(name, version, {f"{folder}/{library}": version.encode()})
                for name, library in (
                    ("libbpf-dev", "libbpf.a"),
                    ("libelf-dev", "libelf.a"),
                    ("zlib1g-dev", "libz.a"),
                    ("libzstd-dev", "libzstd.a"),
                )
            ]
            archive.publish(suite, packages)
        archive.remove("zlib1g-dev_2")
        flags = libbpf.flags(architecture("ppc64le"))
    libraries = Path(flags[flags.index("-L") + 1])
    versions = {file.name: file.read_text() for file in libraries.iterdir()}
    assert versions == {"libbpf.a": "2", "libelf.a": "2", "libz.a": "1", "libzstd.a": "2"}


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The machine's own apt, with these sources, and no list."""
    (tmp_path / "lists").mkdir()
    settings = {
        "Dir::Etc::sourcelist": tmp_path / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State::lists": tmp_path / "lists",
        "Dir::Cache::pkgcache": "",
        "Dir::Cache::srcpkgcache": "",
    }
    (tmp_path / "apt.conf").write_text("".join(f'{name} "{value}";\n' for name, value in settings.items()))
    monkeypatch.setenv("APT_CONFIG", str(tmp_path / "apt.conf"))
    monkeypatch.delenv(debian.MIRROR_VARIABLE, raising=False)
    return tmp_path / "sources.list"


def test_architectures_that_dpkg_has_on_this_machine_are_not_asked_for(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mirror of Ubuntu has no others, and apt drops a suite of which it lacks one list."""
    dpkg = tmp_path / "bin/dpkg"
    dpkg.parent.mkdir()
    dpkg.write_text(
        "#!/bin/sh\ncase $* in *--print-foreign-architectures*) echo arm64 ;; *) echo amd64 ;; esac\n"
    )
    dpkg.chmod(0o755)
    monkeypatch.setenv("PATH", f"{dpkg.parent}:{os.environ['PATH']}")
    source = "Types: deb\nURIs: http://mirror.example/u\nSuites: noble\nComponents: main\n"
    apt = Apt("x86_64", "Ubuntu", "u", ["noble"], lambda: source)
    (apt._folder / "sources/u.sources").write_text(source)
    targets = apt._run("apt-get", "indextargets", "--no-release-info", "-o", f"Dir::Bin::dpkg={dpkg}").stdout
    assert "binary-amd64/Packages" in targets and "arm64" not in targets


def test_an_archive_that_was_never_read_is_known(sources: Path) -> None:
    """Debian 13's apt leaves out what it has no list of, unless it is asked not to look."""
    sources.write_text("deb http://x.example/debian trixie main\n")
    assert debian.mirrors() == ("http://x.example/debian/", "")


def test_other_archives_of_origin_debian_are_not_its_main_one(sources: Path) -> None:
    """Kernel developers have debian-debug among their sources, whose file comes before debian.sources."""
    suites = {
        "debian-debug": ("trixie-debug",),
        "of-a-company": ("for-servers",),
        "debian-security": ("trixie-security",),
        "partial": ("trixie",),
        "debian": ("trixie", "trixie-updates"),
    }
    lines = [
        (f"x.example/{archive}", suite) for archive, of_archive in suites.items() for suite in of_archive
    ]
    sources.write_text("".join(f"deb http://{archive} {suite} main\n" for archive, suite in lines))
    for archive, suite in lines:
        known = sources.parent / "lists" / f"{archive.replace('/', '_')}_dists_{suite}_"
        Path(f"{known}main_binary-amd64_Packages").touch()
        Path(f"{known}Release").write_text(
            f"Origin: Debian\nCodename: {suite}\nDate: Sat, 15 Nov 2025 09:00:00 UTC\n"
            "Architectures: amd64\nComponents: main\n"
            f"SHA256:\n {hashlib.sha256().hexdigest()} 0 main/binary-amd64/Packages\n"
        )
    assert debian.mirrors() == ("http://x.example/debian/", "http://x.example/debian-security/")


def test_debian_s_own_archive_where_the_machine_has_none(sources: Path) -> None:
    sources.write_text("deb http://archive.ubuntu.com/ubuntu questing main\n")
    assert debian.mirrors() == (
        "http://deb.debian.org/debian",
        "http://security.debian.org/debian-security",
    )
    steps = list[str]()
    debian._say_where(steps.append)
    assert steps == [
        "this machine's apt has no Debian archive: using http://deb.debian.org/debian "
        "(BIGIRON_DEBIAN_MIRROR names another)"
    ]
