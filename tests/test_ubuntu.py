"""Ubuntu's kernels from an archive on loopback, also from one that is not Ubuntu's."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from deb_archive import UBUNTU, Archive, served
from mirror import Keys
from test_debian import image

from bigiron import kernels
from bigiron.errors import UserError
from bigiron.kernels.archives import ubuntu

VERSION = "6.8.0-31.31"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BIGIRON_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def archive(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Archive]:
    (tmp_path / "archive").mkdir()
    with served(tmp_path / "archive", monkeypatch, suites=UBUNTU) as archive:
        yield archive


def release_of(version: str) -> str:
    """The release of a kernel whose package has a version: 6.8.0-31.31 is of 6.8.0-31-generic."""
    return f"{'-'.join(version.split('-')[:2]).rpartition('.')[0]}-generic"


def kernel_package(archive: Archive, version: str) -> Path:
    release = release_of(version.partition("~")[0])
    return archive.package(
        f"linux-image-unsigned-{release}", version, {f"boot/vmlinuz-{release}": image(release, "")}
    )


def refusal(name: str = "ubuntu/24.04") -> str:
    """Why a kernel cannot be fetched, in one line, with nothing left of it."""
    with pytest.raises(UserError) as error:
        kernels.fetch(name)
    assert kernels.installed() == []
    assert "\n" not in str(error.value)
    return str(error.value)


def test_the_series_that_a_release_began_with(archive: Archive) -> None:
    versions = ["6.8.0-31.31", "6.8.0-40.40", "6.14.0-27.27~24.04.1"]
    archive.publish("noble-updates", [kernel_package(archive, version) for version in versions])
    steps: list[str] = []
    kernel = kernels.fetch("ubuntu/24.04", on_step=steps.append)
    assert (kernel.release, kernel.version) == ("6.8.0-40-generic", "6.8.0-40.40")
    assert kernel.source == "Ubuntu noble-updates, linux-image-unsigned-6.8.0-40-generic 6.8.0-40.40"
    assert [step.split()[0] for step in steps] == ["updating", "downloading"]
    assert kernels.find("ubuntu/24.04-6.14").version == versions[2]
    for exact in "ubuntu/24.04-6.8.0-31.31", "ubuntu/24.04-6.8.0-31-generic":
        assert kernels.find(exact).version == versions[0]


def test_an_exact_version_that_is_here_under_another_name(archive: Archive) -> None:
    archive.publish("noble", [kernel_package(archive, VERSION)])
    newest = kernels.fetch("ubuntu/24.04")
    archive.files.clear()
    exact = kernels.fetch(f"ubuntu/24.04-{VERSION}", on_step=pytest.fail)
    assert (exact.sha256, exact.source) == (newest.sha256, newest.source)


def test_modules_come_from_another_package(archive: Archive) -> None:
    release = release_of(VERSION)
    built_in = {f"lib/modules/{release}/modules.builtin": b"kernel/fs/ext4/ext4.ko\n"}
    modules = archive.package(f"linux-modules-{release}", VERSION, built_in)
    archive.publish("noble", [kernel_package(archive, VERSION), modules])
    kernel = kernels.fetch("ubuntu/24.04")
    assert kernels.modules_for(kernel, "ext4") == []
    with pytest.raises(
        UserError, match=r"^ubuntu/24\.04 has no f2fs: it is not built in, and Ubuntu noble, "
    ):
        kernels.modules_for(kernel, "f2fs")


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("ubuntu/23.99", "ubuntu/23.99 is not a release whose kernels are fetched: ubuntu/24.04 and ubuntu/"),
        ("ubuntu/../24.04", "'../24.04' cannot name a kernel: "),
        ("ubuntu/24.04-6.9", "Ubuntu 24.04 has no such kernel for x86_64: it has ubuntu/24.04-6.8; for"),
        ("centos/9", "'centos/9' is not a kernel to fetch: use debian/6.12, ubuntu/24.04 or fedora/43"),
    ],
)
def test_a_kernel_that_is_not_there(archive: Archive, name: str, complaint: str) -> None:
    archive.publish("noble", [kernel_package(archive, VERSION)])
    assert refusal(name).startswith(complaint)


# What is not Ubuntu's


def test_a_list_without_a_signature(archive: Archive) -> None:
    archive.publish("noble", [kernel_package(archive, VERSION)])
    for suite in UBUNTU:
        signed = archive.files[f"dists/{suite}/InRelease"]
        plain = signed.partition(b"\n\n")[2].partition(b"-----BEGIN PGP SIGNATURE")[0]
        archive.files[f"dists/{suite}/InRelease"] = plain
    said = refusal()
    assert said.startswith("ubuntu/24.04: apt could not read all package lists: E: ")
    assert "there is no list of noble, noble-updates, noble-security yet" in said
    assert said.endswith("name another mirror in BIGIRON_UBUNTU_MIRROR")


def test_a_list_signed_with_another_key(archive: Archive, tmp_path: Path) -> None:
    other = Keys(tmp_path / "other")
    archive.publish("noble", [kernel_package(archive, VERSION)])
    archive.keyring.write_bytes(other.gpg("--export"))
    other.close()
    assert refusal().startswith("ubuntu/24.04: apt could not read all package lists: E: ")


def test_no_keys(archive: Archive, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(ubuntu, "KEYRING", tmp_path / "none.gpg")
    assert refusal() == f"Ubuntu's keys are not in {tmp_path}/none.gpg: apt-get install ubuntu-keyring"


def test_a_list_that_is_older_than_the_kept_one(archive: Archive, cache: Path) -> None:
    versions = "6.8.0-40.40", VERSION
    new, old = (kernel_package(archive, version) for version in versions)
    archive.publish("noble-updates", [new])
    lists = ubuntu.apt(ubuntu.RELEASES[0], "x86_64")
    assert lists.update(lambda _step: None) == ""
    archive.publish("noble-updates", [old], at=datetime.now(UTC) - timedelta(days=9))
    lists.update(lambda _step: None, again=True)
    assert kernels.fetch("ubuntu/24.04").version == versions[0]


def test_a_package_that_is_not_the_listed_one(archive: Archive) -> None:
    archive.publish("noble", [kernel_package(archive, VERSION)])
    (path,) = (path for path in archive.files if path.startswith("pool/"))
    content = archive.files[path]
    archive.files[path] = content[:-1] + bytes([content[-1] ^ 1])
    assert "could not be downloaded: E: " in (said := refusal()) and "Hash Sum mismatch" in said
    archive.files[path] = content
    archive.mirror.cut = {path}
    assert "could not be downloaded: E: " in refusal()


def test_another_kernel_in_the_package(archive: Archive) -> None:
    files = {f"boot/vmlinuz-{release_of(VERSION)}": image("6.8.0-99-generic", "")}
    archive.publish("noble", [archive.package(f"linux-image-unsigned-{release_of(VERSION)}", VERSION, files)])
    assert refusal().endswith(" holds another kernel: 6.8.0-99-generic for x86_64")
