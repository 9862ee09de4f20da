"""Fedora's kernels from a mirror on loopback: small packages that rpm made and signed, and damaged lists."""

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import compared, measured
from fedora_mirror import Entry, Fedora, served, sha256
from mirror import Keys
from test_debian import image
from test_packages import zstd

from bigiron import kernels
from bigiron.errors import UserError
from bigiron.kernels import Kernel
from bigiron.kernels.archives import fedora, repodata

VERSION = "9.9.1-300.fc43"
RELEASE = f"{VERSION}.x86_64"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BIGIRON_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keys]:
    keys = Keys(tmp_path_factory.mktemp("keys"), "rsa2048")
    yield keys
    keys.close()


@pytest.fixture
def mirror(tmp_path: Path, cache: Path, keys: Keys, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fedora]:
    (tmp_path / "mirror").mkdir()
    with served(tmp_path / "mirror", monkeypatch, keys) as mirror:
        yield mirror


def kernel_core(
    mirror: Fedora, version: str = VERSION, *, keys: Keys | None = None, signed: bool = True
) -> Entry:
    release = f"{version}.x86_64"
    files = {
        f"lib/modules/{release}/vmlinuz": image(release, ""),
        f"lib/modules/{release}/modules.builtin": b"kernel/fs/ext4/ext4.ko\n",
    }
    return mirror.package("kernel-core", version, files, keys=keys, signed=signed)


def refusal(name: str = "fedora/43") -> str:
    """Why a kernel cannot be fetched, in one line, with nothing left of it."""
    with pytest.raises(UserError) as error:
        kernels.fetch(name)
    assert kernels.installed() == []
    assert "\n" not in str(error.value)
    return str(error.value)


def test_the_newest_of_both_repositories(mirror: Fedora, cache: Path) -> None:
    older, newer = kernel_core(mirror), kernel_core(mirror, "9.10.2-200.fc43")
    mirror.publish("releases", [older])
    mirror.publish("updates", [newer])
    steps: list[str] = []
    kernel = kernels.fetch("fedora/43", on_step=steps.append)
    assert (kernel.release, kernel.version) == ("9.10.2-200.fc43.x86_64", "9.10.2-200.fc43")
    assert kernel.source == "Fedora 43 updates, kernel-core 9.10.2-200.fc43"
    assert steps == [
        "updating Fedora's package lists for x86_64",
        "downloading kernel-core 9.10.2-200.fc43 (0 MB)",
    ]
    for name in f"fedora/43-{VERSION}", "fedora/43-9.9", f"fedora/43-{RELEASE}":
        assert kernels.find(name).source == f"Fedora 43 releases, kernel-core {VERSION}"
    left = {str(path.relative_to(cache)) for path in (cache / "rpm").rglob("*") if path.is_file()}
    folder = "rpm/fedora-43-x86_64"
    packages = {f"{folder}/packages/kernel-core={one}.rpm" for one in (VERSION, "9.10.2-200.fc43")}
    assert left == packages | {f"{folder}/{one}" for one in ("updates.json", "releases.json", ".lock")}


def test_a_release_that_has_ended_is_in_the_archive(mirror: Fedora, monkeypatch: pytest.MonkeyPatch) -> None:
    mirror.publish("releases", [kernel_core(mirror)])
    mirror.publish("updates", [kernel_core(mirror, "9.10.2-200.fc43")])
    monkeypatch.delenv(fedora.MIRROR_VARIABLE)
    monkeypatch.setattr(fedora, "_MIRROR", f"{mirror.mirror.uri}/gone")
    monkeypatch.setattr(fedora, "_ARCHIVE", mirror.mirror.uri)
    assert kernels.fetch("fedora/43").version == "9.10.2-200.fc43"
    asked = len(mirror.mirror.asked_for)
    assert kernels.fetch(f"fedora/43-{VERSION}").version == VERSION
    assert len(mirror.mirror.asked_for) == asked + 1  # its lists are fresh
    monkeypatch.setenv(fedora.MIRROR_VARIABLE, f"{mirror.mirror.uri}/gone")
    with pytest.raises(UserError, match="404"):
        kernels.fetch("fedora/43-9.8")


def test_an_exact_version_that_is_here_under_another_name(mirror: Fedora) -> None:
    mirror.publish("updates", [kernel_core(mirror)])
    newest = kernels.fetch("fedora/43")
    mirror.files.clear()
    exact = kernels.fetch(f"fedora/43-{VERSION}", on_step=pytest.fail)
    assert (exact.sha256, exact.source) == (newest.sha256, newest.source)


def test_modules_come_from_three_packages(mirror: Fedora, module: bytes) -> None:
    core = kernel_core(mirror)
    modules, folder = [], f"lib/modules/{RELEASE}/kernel"
    for name, path in ("kernel-modules-core", "drivers/block/brd"), ("kernel-modules", "fs/xfs/xfs"):
        modules.append(mirror.package(name, VERSION, {f"{folder}/{path}.ko.zst": zstd(module)}))
    mirror.publish("updates", [core, *modules])
    kernel = kernels.fetch("fedora/43")
    mirror.remove("kernel-core")  # it is kept
    for name in "brd", "xfs":
        (found,) = kernels.modules_for(kernel, name) or []
        assert (found.name, found.file.read_bytes()) == (name, module)
    assert kernels.modules_for(kernel, "ext4") == []


# What is not Fedora's


def test_a_package_without_a_signature(mirror: Fedora) -> None:
    mirror.publish("updates", [kernel_core(mirror, signed=False)])
    said = refusal()
    assert said.startswith(f"kernel-core-{RELEASE} is not signed with Fedora's key {mirror.key}: ")
    assert "SIGNATURES NOT OK" in said


def test_a_package_signed_with_another_key(mirror: Fedora, tmp_path: Path) -> None:
    other = Keys(tmp_path / "other", "rsa2048")
    mirror.publish("updates", [kernel_core(mirror, keys=other), kernel_core(mirror, "9.9.0-100.fc43")])
    other.close()
    assert refusal().startswith(f"kernel-core-{RELEASE} is not signed with Fedora's key {mirror.key}: ")


def test_another_package_than_the_list_says(mirror: Fedora) -> None:
    entry = mirror.package("kernel-tools", VERSION, {"lib/a": b"a"})
    renamed = Entry("kernel-core", entry.version, entry.release, entry.arch, entry.file)
    mirror.publish("updates", [renamed])
    assert refusal() == f"kernel-core-{RELEASE} is another package: 'kernel-tools-{RELEASE}'"


def test_another_kernel_in_the_package(mirror: Fedora) -> None:
    content = image("9.9.7-300.fc43.x86_64", "")
    mirror.publish(
        "updates", [mirror.package("kernel-core", VERSION, {f"lib/modules/{RELEASE}/vmlinuz": content})]
    )
    assert refusal() == "kernel-core holds another kernel: 9.9.7-300.fc43.x86_64 for x86_64"


def test_a_package_that_is_not_the_listed_one(mirror: Fedora) -> None:
    mirror.publish("updates", [kernel_core(mirror)])
    (path,) = (path for path in mirror.files if path.endswith(".rpm"))
    content = mirror.files[path]
    mirror.files[path] = content[:-1] + bytes([content[-1] ^ 1])
    assert "could not be downloaded: E: " in (said := refusal()) and "Hash Sum mismatch" in said
    mirror.files[path] = content + b"more"
    assert "File has unexpected size" in refusal()
    mirror.files[path] = content
    mirror.mirror.cut = {path}
    assert "could not be downloaded: E: " in refusal()
    mirror.remove(".rpm")
    assert "404" in (said := refusal()) and "BIGIRON_FEDORA_MIRROR, or get its packages from koji" in said


# Lists


def test_a_list_that_is_older_than_the_kept_one(mirror: Fedora, cache: Path) -> None:
    old, new = kernel_core(mirror), kernel_core(mirror, "9.9.2-300.fc43")
    mirror.publish("updates", [new], revision=7)
    lists = fedora.repositories("43", "x86_64")
    assert lists.update(lambda _step: None) == ""
    mirror.publish("updates", [old], revision=6)
    said = lists.update(lambda _step: None, again=True)
    assert said.startswith("not all package lists could be read: http://127.0.0.1:")
    assert said.endswith(
        "repomd.xml is older than the list that was read before; using the lists of updates from a minute ago"
    )
    assert kernels.fetch("fedora/43").version == "9.9.2-300.fc43"


def test_a_mirror_that_is_gone(mirror: Fedora) -> None:
    mirror.files.clear()
    said = refusal()
    assert said.startswith("fedora/43: not all package lists could be read: E: ") and "404" in said
    assert said.endswith(
        "there is no list of updates, releases yet; "
        "check the network, or name another mirror in BIGIRON_FEDORA_MIRROR"
    )


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ((b"<revision>1<", b"<revision>one<"), "invalid literal"),
        ((b'href="repodata/', b'href="../../etc/'), "primary.xml is at '../../etc/"),
        ((b'href="repodata/', b'href="file:///etc/'), "primary.xml is at 'file:///etc/"),
        ((b'<checksum type="sha256">', b'<checksum type="md5">'), "primary.xml has no SHA-256"),
        ((b"<size>", b"<size>9999999"), "bytes"),
        ((b'type="primary"', b'type="secondary"'), "no list of packages is named"),
        ((b"</repomd>", b""), "no element found"),
    ],
)
def test_a_damaged_repomd(mirror: Fedora, change: tuple[bytes, bytes], complaint: str) -> None:
    path = f"{mirror.root('updates')}/repodata/repomd.xml"
    assert change[0] in mirror.files[path]
    mirror.files[path] = mirror.files[path].replace(*change)
    assert complaint in refusal()


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (('href="Packages', 'href="../../../Packages'), "kernel-core is at '../../../Packages"),
        (('ver="9.9.1"', 'ver="../../9.9.1"'), "kernel-core has the version '../../9.9.1-300.fc43'"),
        (('rel="300.fc43"', 'rel="3 00"'), "kernel-core has the version '9.9.1-3 00'"),
        (('type="sha256"', 'type="sha1"'), "kernel-core has no SHA-256"),
        (('package="10"', 'package="99999999999"'), "kernel-core has 99999999999 bytes"),
        (("</version>", ""), ""),
    ],
)
def test_a_hostile_list_of_packages(mirror: Fedora, change: tuple[str, str], complaint: str) -> None:
    element = (
        '<package type="rpm"><name>kernel-core</name><arch>x86_64</arch>'
        '<version epoch="0" ver="9.9.1" rel="300.fc43"></version>'
        f'<checksum type="sha256" pkgid="YES">{sha256(b"")}</checksum>'
        '<size package="10"/><location href="Packages/k.rpm"/></package>'
    )
    assert change[0] in element
    mirror.publish_list("updates", element.replace(*change), revision=2)
    assert complaint in refusal()


def test_only_some_packages_of_one_architecture_are_kept(tmp_path: Path) -> None:
    def element(name: str, arch: str) -> str:
        return (
            f'<package type="rpm"><name>{name}</name><arch>{arch}</arch><version epoch="0" ver="1" rel="2"/>'
            f'<checksum type="sha256" pkgid="YES">{"0" * 64}</checksum><size package="1"/>'
            '<location href="k.rpm"/><format><rpm:entry name="kernel-core"/></format></package>\n'
        )

    asked = [("kernel-core", "x86_64"), ("kernel-core", "aarch64"), ("kernel", "x86_64"), ("bash", "x86_64")]
    (tmp_path / "primary").write_text("<metadata>" + "".join(element(*one) for one in asked) + "</metadata>")
    found = repodata.read_primary(tmp_path / "primary", "x86_64", ["kernel-core", "kernel-modules"])
    assert [(one.name, one.version) for one in found] == [("kernel-core", "1-2")]


# What is asked for


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("fedora/rawhide", "fedora/rawhide is not a release of Fedora: name one as fedora/43"),
        ("fedora/../43", "'../43' cannot name a kernel: "),
        ("fedora/", "'' cannot name a kernel: "),
        ("fedora/43-8.8", "Fedora 43 has no such kernel for x86_64: it has fedora/43-9.9; for others, get"),
        ("fedora/42", "Fedora 42 has no key RPM-GPG-KEY-fedora-42-primary in "),
    ],
)
def test_a_kernel_that_is_not_there(mirror: Fedora, name: str, complaint: str) -> None:
    mirror.publish("updates", [kernel_core(mirror)])
    assert refusal(name).startswith(complaint)


def test_no_rpm(mirror: Fedora, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert refusal() == "no rpmkeys on PATH, which verifies packages: apt-get install rpm"


# One that boots


@pytest.fixture(scope="session")
def debian_6_12() -> Kernel:
    return kernels.fetch("debian/6.12")


def named(content: bytes, release: str) -> bytes:
    """A bzImage whose boot header, which only boot loaders read, says that it is another release."""
    (at,) = struct.unpack_from("<H", content, 0x20E)
    start, end = at + 0x200, content.index(b" ", at + 0x200)
    name = release.encode().ljust(end - start)
    assert len(name) == end - start
    return content[:start] + name + content[end:]


@pytest.mark.needs_more
def test_a_machine_boots_what_was_fetched(debian_6_12: Kernel, mirror: Fedora, tmp_path: Path) -> None:
    content = named(debian_6_12.image.read_bytes(), "6.12.9-9.fc43.x86_64")
    path = "lib/modules/6.12.9-9.fc43.x86_64/vmlinuz"
    mirror.publish("updates", [mirror.package("kernel-core", "6.12.9-9.fc43", {path: content})])
    kernels.fetch("fedora/43")
    mirror.files.clear()
    asked = ("--cpus", "2", "--probe", "conflicts", "--deadline", "3600")
    measured("open1", "--kernel", "fedora/43", *asked, "-o", tmp_path / "s")
    (row, *_) = compared(tmp_path / "s")["rows"]
    assert row["cells"]["fedora/43"]["writes_per_op"] == pytest.approx(2, abs=0.01)
