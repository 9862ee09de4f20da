"""Kernels: real ones from Debian, copies of them in every accepted form, and everything that is no kernel."""

import doctest
import gzip
import io
import multiprocessing
import random
import shutil
import socket
import struct
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import SAFETY_NET_S
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bigiron import kernels
from bigiron.errors import UserError
from bigiron.kernels import Kernel, image, kernel, store
from bigiron.kernels.archives import debian
from bigiron.kernels.image import Facts


@pytest.fixture(scope="session")
def debian_6_1() -> Kernel:
    """From the user's cache, or fetched into it."""
    return kernels.fetch("debian/6.1")


@pytest.fixture(scope="session")
def debian_6_1_ppc() -> Kernel:
    return kernels.fetch("debian/6.1", "ppc64el")


@pytest.fixture(scope="session")
def vmlinux(debian_6_1: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An x86_64 ELF program with a kernel's banner: Debian's own is compressed inside the bzImage."""
    vmlinux = tmp_path_factory.mktemp("elf") / "vmlinux"
    banner = f"Linux version {debian_6_1.release} (me@here) (gcc) #1 SMP Debian {debian_6_1.version} (today)"
    source = f'const char linux_banner[] = "{banner}\\n"; void _start(void) {{ for (;;); }}'
    command = ["gcc", "-xc", "-", "-static", "-nostdlib", "-no-pie", "-o", str(vmlinux)]
    subprocess.run(command, input=source, text=True, check=True)
    return vmlinux


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BIGIRON_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def closed_mirror(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with socket.socket() as bound_but_not_listening:
        bound_but_not_listening.bind(("127.0.0.1", 0))
        port = bound_but_not_listening.getsockname()[1]
        monkeypatch.setenv(debian.MIRROR_VARIABLE, f"http://127.0.0.1:{port}/debian")
        yield


def everything_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.name != ".lock"}


def test_the_examples() -> None:
    assert doctest.testmod(kernel).failed == doctest.testmod(debian).failed == 0


# Debian


def test_a_kernel_from_debian(debian_6_1: Kernel) -> None:
    assert (debian_6_1.name, debian_6_1.arch) == ("debian/6.1", "x86_64")
    assert debian_6_1.release.startswith("6.1.") and debian_6_1.release.endswith("-cloud-amd64")
    assert debian_6_1.version.startswith("6.1.")
    assert debian_6_1.source.endswith(f"linux-image-{debian_6_1.release} {debian_6_1.version}")
    assert debian_6_1.source.startswith("Debian bookworm")
    assert image.read(debian_6_1.image, "it").release == debian_6_1.release
    assert debian_6_1 in kernels.installed()


def test_a_kernel_for_ppc64le(debian_6_1: Kernel, debian_6_1_ppc: Kernel) -> None:
    assert (debian_6_1_ppc.name, debian_6_1_ppc.arch) == ("debian/6.1", "ppc64le")
    assert debian_6_1_ppc.image.name == "vmlinux"
    assert kernels.find("debian/6.1", "ppc64le") == debian_6_1_ppc != debian_6_1


def test_a_kernel_in_the_cache_needs_no_network(debian_6_1: Kernel, closed_mirror: None) -> None:
    assert kernels.fetch("debian/6.1", on_step=pytest.fail) == debian_6_1
    assert kernels.find("debian/6.1") == debian_6_1


@pytest.mark.parametrize(
    "name", ["6.1", "debian/", "debian/../6.1", "debian/6.1 6.12", f"debian/{'6' * 300}"]
)
def test_a_name_that_is_no_kernel_to_fetch(empty_cache: Path, closed_mirror: None, name: str) -> None:
    with pytest.raises(UserError, match=r"is not a kernel to fetch|cannot name a kernel"):
        kernels.fetch(name)


def test_no_network(empty_cache: Path, closed_mirror: None) -> None:
    with pytest.raises(
        UserError, match=r"^debian/6\.1: apt could not read all .*: E: .*127\.0\.0\.1.* another mirror in"
    ):
        kernels.fetch("debian/6.1")
    assert kernels.installed() == []


def test_no_apt(empty_cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match=r"no apt-get on PATH: .*; or use `bigiron kernel add PATH`$"):
        kernels.fetch("debian/6.1")


def test_an_unknown_architecture() -> None:
    with pytest.raises(UserError, match=r"^architecture 'riscv64' is not known: use one of x86_64, amd64, "):
        kernels.fetch("debian/6.1", "riscv64")


def package(name: str, version: str) -> debian.Package:
    return debian.Package(name, version, name.split("-", 2)[2], 1)


AVAILABLE = [
    package("linux-image-6.1.0-9-cloud-amd64", "6.1.27-1"),
    package("linux-image-6.1.0-56-cloud-amd64", "6.1.192-2"),
    package("linux-image-6.1.0-50-cloud-amd64", "6.1.176-1"),
    package("linux-image-6.1.0-0.deb11.60-cloud-amd64", "6.1.199-1~deb11u1"),
    package("linux-image-6.12.9+bpo-cloud-amd64", "6.12.9-1~bpo12+1"),
    package("linux-image-7.2.12+deb13-cloud-amd64", "7.2.12-1~bpo13+1"),
    package("linux-binary-7.2.12+deb13-cloud-amd64", "7.2.12-1~bpo13+1"),
]


@pytest.mark.parametrize(
    ("wanted", "chosen"),
    [
        ("6.1", "linux-image-6.1.0-56-cloud-amd64"),  # neither "6.1.27" > "6.1.192" as text, nor a backport
        ("6.12", "linux-image-6.12.9+bpo-cloud-amd64"),
        ("7.2", "linux-binary-7.2.12+deb13-cloud-amd64"),
        ("6.1.27-1", "linux-image-6.1.0-9-cloud-amd64"),
        ("6.1.27", "linux-image-6.1.0-9-cloud-amd64"),
        ("6.1.0-50-cloud-amd64", "linux-image-6.1.0-50-cloud-amd64"),
        ("6", None),
        ("6.1.2", None),
    ],
)
def test_which_package_is_chosen(wanted: str, chosen: str | None) -> None:
    package = debian.choose(wanted, AVAILABLE)
    assert (package.name if package else None) == chosen


@pytest.mark.parametrize(
    ("wanted", "chosen"),
    [
        ("6.1-amd64", "linux-image-6.1.0-56-amd64"),
        ("6.1.27-amd64", "linux-image-6.1.0-9-amd64"),
        ("6.1.27-1-amd64", "linux-image-6.1.0-9-amd64"),
        ("6.1.0-9-amd64", "linux-image-6.1.0-9-amd64"),
        ("6.2-amd64", None),
    ],
)
def test_one_of_another_flavour(wanted: str, chosen: str | None) -> None:
    of_any = [("linux-image-6.1.0-9-amd64", "6.1.27-1"), ("linux-image-6.1.0-56-amd64", "6.1.192-2")]
    available = [replace(package(*one), flavour=debian.flavour_of(wanted, "x86_64")) for one in of_any]
    found = debian.choose(wanted, available)
    assert (found.name if found else None) == chosen


# Added from a file


def test_a_bzimage(debian_6_1: Kernel, empty_cache: Path) -> None:
    added = kernels.add(debian_6_1.image)
    assert (added.name, added.release, added.version) == (
        debian_6_1.release, debian_6_1.release, debian_6_1.version,
    )  # fmt: skip
    assert (added.sha256, added.source) == (debian_6_1.sha256, str(debian_6_1.image))
    assert kernels.add(debian_6_1.image) == kernels.find(added.name) == added
    assert kernels.find(str(debian_6_1.image)) == added
    assert kernels.installed() == [added]


def test_an_elf_vmlinux(debian_6_1: Kernel, vmlinux: Path, empty_cache: Path) -> None:
    added = kernels.add(vmlinux, "mine")
    assert (added.name, added.arch, added.image.name) == ("mine", "x86_64", "vmlinux")
    assert (added.release, added.version) == (debian_6_1.release, debian_6_1.version)


def test_a_vmlinux_for_ppc64le(debian_6_1_ppc: Kernel, empty_cache: Path) -> None:
    added = kernels.add(debian_6_1_ppc.image, "mine")
    assert (added.arch, added.release, added.version) == (
        "ppc64le", debian_6_1_ppc.release, debian_6_1_ppc.version,
    )  # fmt: skip
    with pytest.raises(UserError, match=r"vmlinux is a kernel for ppc64le, not for x86_64$"):
        kernels.find(str(debian_6_1_ppc.image))


def test_a_built_tree(debian_6_1: Kernel, vmlinux: Path, empty_cache: Path, tmp_path: Path) -> None:
    (tmp_path / "vmlinux").symlink_to(vmlinux)
    assert kernels.add(tmp_path, "elf").image.name == "vmlinux"
    bzimage = tmp_path / "arch/x86/boot/bzImage"
    bzimage.parent.mkdir(parents=True)
    bzimage.symlink_to(debian_6_1.image)
    assert kernels.add(tmp_path, "compressed").image.name == "vmlinuz"


@pytest.mark.parametrize("place", ["boot/vmlinuz-6.1", "usr/lib/modules/6.1/vmlinuz"])
def test_a_package(debian_6_1: Kernel, empty_cache: Path, tmp_path: Path, place: str) -> None:
    tree = tmp_path / "tree"
    (tree / place).parent.mkdir(parents=True)
    (tree / place).write_bytes(debian_6_1.image.read_bytes())
    # What follows is more than a pipe holds: the program must not wait for it to be read.
    (tree / "usr/share").mkdir(parents=True)
    (tree / "usr/share/zeros").write_bytes(bytes(1 << 22))
    added = kernels.add(built_deb(tree, "-Zgzip", version="7.3-1"))
    assert (added.sha256, added.version, added.name) == (debian_6_1.sha256, "7.3-1", debian_6_1.release)


def test_one_name_is_one_kernel(debian_6_1: Kernel, vmlinux: Path, empty_cache: Path) -> None:
    first = kernels.add(debian_6_1.image, "mine")
    with pytest.raises(UserError, match=r"^'mine' is another kernel already: choose another name$"):
        kernels.add(vmlinux, "mine")
    assert kernels.find("mine") == first
    # Unnamed, two builds of one release are told apart by their checksums.
    kernels.add(debian_6_1.image)
    other = kernels.add(vmlinux)
    assert other.name == f"{debian_6_1.release}-{other.sha256[:8]}"
    assert kernels.add(vmlinux) == other


def test_another_takes_a_kernel_s_place(debian_6_1: Kernel, vmlinux: Path, empty_cache: Path) -> None:
    kernels.add(debian_6_1.image, "mine")
    with store.writing(pytest.fail) as staging:
        copy = Path(shutil.copy(vmlinux, staging / "image"))
        kept = store.keep(copy, "mine", image.read(copy, str(copy)), "2", "built", replace=True)
    assert kernels.find("mine") == kept and kept.version == "2"
    assert everything_in(empty_cache) == {
        "kernels", "kernels/mine@x86_64", "kernels/mine@x86_64/vmlinux", "kernels/mine@x86_64/kernel.json",
    }  # fmt: skip


def test_many_at_once(debian_6_1: Kernel, empty_cache: Path) -> None:
    dead_writer_s = empty_cache / "kernels/.new-dead"
    dead_writer_s.mkdir(parents=True)
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        added = pool.starmap(kernels.add, [(debian_6_1.image, "mine")] * 6)
    assert len(set(added)) == 1
    assert everything_in(empty_cache) == {
        "kernels", "kernels/mine@x86_64", "kernels/mine@x86_64/vmlinuz", "kernels/mine@x86_64/kernel.json",
    }  # fmt: skip


# No kernels


def changed(source: Path, to: Path, at: int, data: bytes) -> Path:
    content = bytearray(source.read_bytes())
    content[at : at + len(data)] = data
    to.write_bytes(content)
    return to


def test_files_that_are_no_kernel(empty_cache: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("Linux version 6.1.0 (me) #1\n" * 1000)
    (tmp_path / "empty").touch()
    accepted = "give a bzImage, an arm64 Image, an ELF vmlinux, a .deb, .rpm or .pkg.tar.zst, or a built tree"
    for path, complaint in [
        (tmp_path / "text", f"is not a kernel: {accepted}"),
        (tmp_path / "empty", f"is not a kernel: {accepted}"),
        (Path("/dev/zero"), f"is not a file: {accepted}"),
        (Path(sys.executable), "is an ELF file but not a kernel: give a vmlinux"),
        (
            tmp_path,
            "is not a built kernel tree (no arch/x86/boot/bzImage, no arch/arm64/boot/Image, no vmlinux): "
            "run make in it",
        ),
        (Path("/proc/self/mem"), f"cannot be copied into {empty_cache}/kernels: Input/output error"),
    ]:
        with pytest.raises(UserError) as error:
            kernels.add(path)
        assert str(error.value) == f"{path} {complaint}"
    with pytest.raises(UserError, match=rf"^there is no file {tmp_path}/none: {accepted}$"):
        kernels.add(tmp_path / "none")
    assert kernels.installed() == []


def test_kernels_that_cannot_be_booted(
    debian_6_1: Kernel, debian_6_1_ppc: Kernel, empty_cache: Path, tmp_path: Path
) -> None:
    bzimage, elf = debian_6_1.image, debian_6_1_ppc.image
    for source, at, data, complaint in [
        (
            bzimage,
            0x236,
            b"\0\0",
            "is not a 64-bit x86 kernel: only x86_64, aarch64 and ppc64le kernels can be booted",
        ),
        (bzimage, 0x20E, b"\0\0", "is a bzImage that does not name its release: build it again"),
        (elf, 4, b"\1", "is not a 64-bit little-endian ELF file: only x86_64, aarch64 and ppc64le"),
        (elf, 5, b"\2", "is not a 64-bit little-endian ELF file: only x86_64, aarch64 and ppc64le"),
        (elf, 18, b"\x28\0", "is for another machine (ELF machine 40): only x86_64, aarch64 and ppc64le"),
        (elf, 18, b"\xb7\0", "is an ELF file, which QEMU does not boot on arm64: give arch/arm64/boot/Image"),
        (elf, 16, b"\1\0", "is an ELF file but not a kernel: give a vmlinux"),
    ]:
        with pytest.raises(UserError) as error:
            kernels.add(changed(source, tmp_path / "file", at, data))
        assert str(error.value).startswith(f"{tmp_path}/file {complaint}")


BANNER = b"Linux version 6.12.0-own (me@here) #1 SMP Debian 6.12.1-1 (2026-11-20)\n\0"


def arm64_image(
    sections: Sequence[tuple[int, int]] = (), banner: bytes = BANNER, flags: int = 0, exports: str = ""
) -> bytes:
    """By the kernel's Documentation/arch/arm64/booting.rst; of each section its size and where it starts."""
    headers = b"".join(bytes(16) + struct.pack("<II", *section) + bytes(16) for section in sections)
    pe = b"PE\0\0" + struct.pack("<HH12xHH", 0xAA64, len(sections), 0, 0) + headers if sections else b""
    start = struct.pack("<4s20xQ24x4sI", b"MZ\x40\xfa", flags, b"ARM\x64", 64 if sections else 0)
    return (start + pe).ljust(8192, b"\0") + banner + "".join(f"{one}\0" for one in exports.split()).encode()


def zboot(payload: bytes, kind: bytes = b"gzip") -> bytes:
    """By the kernel's drivers/firmware/efi/libstub/zboot-header.S."""
    return b"MZ\0\0zimg" + struct.pack("<II8x32s", 64, len(payload), kind) + bytes(8) + payload


def test_an_arm64_image_in_its_three_forms(empty_cache: Path, tmp_path: Path) -> None:
    whole = arm64_image([(4096, 4096)])
    packed = gzip.compress(whole + random.Random(1).randbytes(8192))
    for content in (whole, packed, zboot(packed), arm64_image()):
        (tmp_path / "Image").write_bytes(content)
        facts = image.read(tmp_path / "Image", "it")
        assert facts == Facts("aarch64", "6.12.0-own", "6.12.1-1", "vmlinuz")


@pytest.mark.parametrize("kind", [b"zstd", b"zstd22"])
def test_an_arm64_image_that_qemu_does_not_unpack(empty_cache: Path, tmp_path: Path, kind: bytes) -> None:
    """Fedora's since 6.15. The size that follows the payload is no part of it."""
    whole = arm64_image([(4096, 4096)])
    packed = subprocess.run(["zstd", "-q"], input=whole, capture_output=True, check=True).stdout
    file = tmp_path / "vmlinuz.efi"
    file.write_bytes(zboot(packed, kind).ljust(8192, b"\1"))
    added = kernels.add(file)
    assert (added.arch, added.release, added.image.read_bytes()) == ("aarch64", "6.12.0-own", whole)
    file.write_bytes(zboot(packed[:-9], kind).ljust(8192, b"\1"))
    with pytest.raises(UserError, match=r"vmlinuz\.efi is damaged: "):
        kernels.add(file)


def test_an_image_that_needs_no_unpacking_is_not_read_whole(tmp_path: Path) -> None:
    with (tmp_path / "vmlinux").open("wb") as file:
        file.truncate(1 << 40)  # a hole: more than there is memory
    image.unpack_zstd(tmp_path / "vmlinux", "vmlinux")


@pytest.mark.parametrize(
    ("exports", "inlined"),
    [
        ("queued_spin_lock_slowpath _raw_read_lock", True),
        ("queued_spin_lock_slowpath _raw_spin_lock", False),
        ("queued_spin_lock_slowpath _raw_spin_lock_irq", True),
        ("", False),
    ],
)
def test_what_an_image_says_of_its_spinlocks(exports: str, inlined: bool, tmp_path: Path) -> None:
    for content in (arm64_image(exports=exports), zboot(gzip.compress(arm64_image(exports=exports)))):
        (tmp_path / "Image").write_bytes(content)
        assert image.has_inlined_spinlocks(tmp_path / "Image") is inlined


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (arm64_image([(1 << 20, 4096)]), "is cut short: 8264 bytes of 1052672; copy or build it again"),
        (arm64_image(banner=b""), "is an arm64 Image that does not name its release: build it again"),
        (gzip.compress(random.Random(1).randbytes(8192)), "is not a kernel: give a bzImage, an arm64 Image,"),
        (gzip.compress(arm64_image() + random.Random(1).randbytes(8192))[:-9], "is cut short: copy or build"),
        (zboot(random.Random(1).randbytes(8192)), "is damaged"),
        (
            zboot(bytes(8192), b"lz4"),
            "is an EFI zboot image compressed with lz4: give one with gzip or zstd, or the",
        ),
        (
            arm64_image(flags=0b1110),
            "is an arm64 kernel with pages of 64 KiB, which are not supported yet: "
            "give one with CONFIG_ARM64_4K_PAGES",
        ),
    ],
    ids=["cut short", "no banner", "no image", "cut gzip", "no gzip", "lz4", "pages"],
)
def test_arm64_images_that_are_none(
    content: bytes, complaint: str, empty_cache: Path, tmp_path: Path
) -> None:
    (tmp_path / "Image").write_bytes(content)
    with pytest.raises(UserError, match=f"^it {complaint}"):
        image.read(tmp_path / "Image", "it")


def test_a_release_cannot_take_a_debian_name(debian_6_1: Kernel, empty_cache: Path, tmp_path: Path) -> None:
    (version_at,) = struct.unpack_from("<H", debian_6_1.image.read_bytes(), 0x20E)
    liar = changed(debian_6_1.image, tmp_path / "liar", version_at + 0x200, b"debian/6.1 ")
    with pytest.raises(UserError, match=r"^'debian/6.1' cannot name a kernel: use up to 100 letters, digits"):
        kernels.add(liar)


@pytest.mark.parametrize("part", [0.001, 0.5, 0.95])
def test_a_file_cut_short(
    debian_6_1: Kernel, debian_6_1_ppc: Kernel, tmp_path: Path, empty_cache: Path, part: float
) -> None:
    for whole in debian_6_1.image, debian_6_1_ppc.image:
        data = whole.read_bytes()
        (tmp_path / "cut").write_bytes(data[: int(len(data) * part)])
        with pytest.raises(UserError, match=r"/cut is cut short: \d+ bytes of \d+; copy or build it again$"):
            kernels.add(tmp_path / "cut")


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    start=st.sampled_from(
        [
            b"\x7fELF\2\1",
            b"\x7fELF",
            bytes(0x202) + b"HdrS",
            b"\x1f\x8b",
            bytes(4) + b"zimg",
            bytes(56) + b"ARM\x64",
        ]
    ),
    rest=st.binary(max_size=80),
)
def test_any_header_is_read_or_refused(start: bytes, rest: bytes, tmp_path: Path) -> None:
    (tmp_path / "image").write_bytes((start + rest).ljust(5000, b"\0"))
    try:
        image.read(tmp_path / "image", "it")
    except UserError as error:
        assert str(error).startswith("it is ")


# Packages


def built_deb(tree: Path, compression: str = "-Znone", version: str = "1-1") -> Path:
    (tree / "DEBIAN").mkdir()
    (tree / "DEBIAN/control").write_text(
        f"Package: p\nVersion: {version}\nArchitecture: all\nMaintainer: M <m@example.org>\nDescription: d\n"
    )
    deb = tree.with_suffix(".deb")
    subprocess.run(["dpkg-deb", compression, "-b", tree, deb], check=True, capture_output=True)
    return deb


def deb_of(entries: list[tuple[tarfile.TarInfo, bytes]], tree: Path) -> Path:
    """A package whose data holds these entries, which no tool would pack: its last ar member is replaced."""
    tree.mkdir()
    deb = built_deb(tree)
    data = io.BytesIO()
    for info, content in entries:
        data.write(info.tobuf() + content + bytes(-len(content) % tarfile.BLOCKSIZE))
    data.write(bytes(2 * tarfile.BLOCKSIZE))
    whole = deb.read_bytes()
    at = whole.index(b"data.tar ")
    header = b"%-16s%-12d%-6d%-6d%-8s%-10d`\n" % (b"data.tar", 0, 0, 0, b"100644", data.tell())
    deb.write_bytes(whole[:at] + header + data.getvalue())
    return deb


def entry(
    name: str, content: bytes = b"", kind: bytes = tarfile.REGTYPE, link: str = ""
) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = len(content), kind, link
    return info, content


HOSTILE = [
    entry("../../boot/vmlinuz-up", b"up"),
    entry("/boot/vmlinuz-root", b"root"),
    entry("./boot/../../vmlinuz-6", b"up"),
    entry("./boot/vmlinuz-link", kind=tarfile.SYMTYPE, link="/etc/passwd"),
    entry("./boot/vmlinuz-hard", kind=tarfile.LNKTYPE, link="/etc/passwd"),
    entry("./boot/vmlinuz-node", kind=tarfile.CHRTYPE),
    entry("./boot/vmlinuz-fifo", kind=tarfile.FIFOTYPE),
    entry("./boot/vmlinuz-folder", kind=tarfile.DIRTYPE),
    entry("./usr/lib/debug/boot/vmlinux-6", b"debug"),
]


def test_a_hostile_package_writes_nothing(empty_cache: Path, tmp_path: Path) -> None:
    deb = deb_of(HOSTILE, tmp_path / "hostile")
    before = everything_in(tmp_path)
    with pytest.raises(
        UserError, match=r"hostile\.deb holds no complete kernel image: give a linux-image or"
    ):
        kernels.add(deb)
    assert everything_in(tmp_path) - before == {"cache", "cache/kernels"}


def test_only_the_image_is_taken_of_a_hostile_package(
    debian_6_1: Kernel, empty_cache: Path, tmp_path: Path
) -> None:
    real = entry("./boot/vmlinuz-6.1", debian_6_1.image.read_bytes())
    deb = deb_of([*HOSTILE, real, entry("./boot/vmlinuz-7", b"a second one")], tmp_path / "hostile")
    before = everything_in(tmp_path)
    assert kernels.add(deb, "it").sha256 == debian_6_1.sha256
    assert everything_in(tmp_path) - before == {"cache", "cache/kernels"} | {
        f"cache/kernels/it@x86_64{file}" for file in ("", "/vmlinuz", "/kernel.json")
    }


def test_packages_that_hold_no_kernel(debian_6_1: Kernel, empty_cache: Path, tmp_path: Path) -> None:
    huge, _ = entry("./boot/vmlinuz-6")
    huge.size = 3 << 30
    text = deb_of([entry("./boot/vmlinuz-6", b"text" * 2000)], tmp_path / "text")
    whole = deb_of(
        [entry("./boot/vmlinuz-6", debian_6_1.image.read_bytes())], tmp_path / "whole"
    ).read_bytes()
    (tmp_path / "half.deb").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "no.deb").write_text("no package")
    for deb, complaint in [
        (
            deb_of([], tmp_path / "meta"),
            "holds no complete kernel image: give a linux-image or linux-binary package",
        ),
        (text, "is not a kernel: "),
        (tmp_path / "half.deb", "holds no complete kernel image (dpkg-deb: error: "),
        (tmp_path / "no.deb", "is not a complete Debian package: dpkg-deb: error: "),
    ]:
        with pytest.raises(UserError) as error:
            kernels.add(deb)
        assert str(error.value).startswith(f"{deb} {complaint}")
    with pytest.raises(UserError, match=r"vmlinuz-6 claims 3221225472 bytes: not a kernel$"):
        kernels.add(deb_of([(huge, b"")], tmp_path / "huge"))


# The cache


def test_names(empty_cache: Path, debian_6_1: Kernel) -> None:
    for name in "", "../up", "a/b", "a b", "-option", ".hidden", "a@b", "n" * 101:
        with pytest.raises(UserError, match=r"cannot name a kernel"):
            kernels.add(debian_6_1.image, name)
    for name in "nothing", "n" * 300, "n/" * 3000, "../up", "a@b":
        with pytest.raises(
            UserError, match=r"^no kernel .* \(none is installed yet\): fetch|File name too long$"
        ):
            kernels.find(name)
    kernels.add(debian_6_1.image, "mine")
    with pytest.raises(UserError, match=r"^no kernel 'nothing' for x86_64, only mine \(x86_64\): fetch"):
        kernels.find("nothing")


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        ("printf x | dd of=vmlinuz seek=5000 bs=1 conv=notrunc", "vmlinuz is not the image that was stored"),
        ("rm vmlinuz", "it has no image 'vmlinuz'"),
        ("mv vmlinuz other; ln -s other vmlinuz", "it has no image 'vmlinuz'"),
        ("rm kernel.json", "kernel.json: [Errno 2] No such file"),
        ("truncate -s 30 kernel.json", "kernel.json: Input data was truncated"),
        ("echo '{}' >kernel.json", "kernel.json: Object missing required field `name`"),
        ("sed -i s/mine/other/ kernel.json", "kernel.json is of other for x86_64"),
        ('sed -i "s/: .vmlinuz/: \\"..\\/..\\/x/" kernel.json', "it has no image '../../x'"),
    ],
)
def test_a_damaged_cache(debian_6_1: Kernel, empty_cache: Path, damage: str, complaint: str) -> None:
    folder = kernels.add(debian_6_1.image, "mine").image.parent
    subprocess.run(["sh", "-c", damage], cwd=folder, check=True, capture_output=True)
    with pytest.raises(UserError) as error:
        kernels.find("mine")
    assert str(error.value).startswith(f"the stored kernel {folder} is damaged ({complaint}")
    assert str(error.value).endswith("): delete that folder, and fetch or add it again")


def test_a_cache_that_cannot_be_written(
    debian_6_1: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("BIGIRON_CACHE", str(tmp_path / "file"))
    with pytest.raises(UserError, match=r"^the cache .*/file/kernels cannot be made: Not a directory; free"):
        kernels.add(debian_6_1.image)
    monkeypatch.setenv("BIGIRON_CACHE", str(tmp_path))
    (tmp_path / "kernels/.lock").mkdir(parents=True)
    with pytest.raises(UserError, match=r"^the cache .*/kernels cannot be written: Is a directory; free"):
        kernels.add(debian_6_1.image)


def test_a_waiting_writer_says_so(empty_cache: Path) -> None:
    said: list[str] = []
    waits = threading.Event()

    def on_wait(step: str) -> None:
        said.append(step)
        waits.set()

    def write() -> None:
        with store.writing(on_wait):
            said.append("its turn")

    writer = threading.Thread(target=write)
    with store.writing(pytest.fail):
        writer.start()
        assert waits.wait(SAFETY_NET_S)
        assert said == ["waiting for another bigiron that is adding a kernel"]
    writer.join(SAFETY_NET_S)
    assert said[1:] == ["its turn"]
