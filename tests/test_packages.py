"""Kernels in other distributions' packages: small ones, written here by the formats' descriptions."""

import gzip
import io
import lzma
import stat
import struct
import subprocess
import tarfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pytest
from test_kernels import arm64_image

from bigiron import kernels
from bigiron.commands.setup.kernel import add
from bigiron.errors import UserError
from bigiron.kernels import Kernel, configuration, deb, modules
from bigiron.util import compression

RELEASE = "6.17.1-300.fc43.x86_64"
FEDORA = f"./lib/modules/{RELEASE}"
ARCH = "usr/lib/modules/6.17.1-arch1-1"
CONFIG = b"CONFIG_KALLSYMS=y\nCONFIG_KALLSYMS_ALL=y\nCONFIG_DEBUG_INFO_BTF=y\n"


@pytest.fixture(scope="session")
def debian_6_1() -> Kernel:
    return kernels.fetch("debian/6.1")


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BIGIRON_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def zstd(content: bytes) -> bytes:
    return subprocess.run(["zstd", "-c"], input=content, stdout=subprocess.PIPE, check=True).stdout


def cpio(files: Mapping[str, bytes | tuple[int, bytes]]) -> bytes:
    """An archive in cpio's "New ASCII Format": each file with its mode, if it is no regular file."""
    archive = b""
    for path, content in {**files, "TRAILER!!!": b""}.items():
        mode, data = content if isinstance(content, tuple) else (stat.S_IFREG | 0o644, content)
        name = path.encode() + b"\0"
        fields = (1, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name), 0)
        for part in (b"070701" + b"".join(b"%08X" % field for field in fields) + name, data):
            archive += part + bytes(-len(part) % 4)
    return archive


def header(data: bytes) -> bytes:
    """A header of one entry, the binary tag 1000."""
    entry = struct.pack(">4I", 1000, 7, 0, len(data))
    return b"\x8e\xad\xe8\x01" + struct.pack(">4xII", 1, len(data)) + entry + data


def rpm(
    file: Path, files: Mapping[str, bytes | tuple[int, bytes]], compress: Callable[[bytes], bytes] = zstd
) -> Path:
    """As rpm's docs/manual/format.md has it: lead, signature, header, payload."""
    lead = b"\xed\xab\xee\xdb" + struct.pack(">BBHH66sHH16x", 3, 0, 0, 1, b"kernel-core", 1, 5)
    signature = header(b"a signature")
    signature += bytes(-len(signature) % 8)
    file.write_bytes(lead + signature + header(b"name") + compress(cpio(files)))
    return file


def arch_package(
    file: Path,
    files: Mapping[str, bytes],
    more: tuple[tarfile.TarInfo, ...] = (),
    compress: Callable[[bytes], bytes] = zstd,
) -> Path:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for one in more:
            archive.addfile(one)
        for path, content in {".PKGINFO": b"pkgname = linux\n", **files}.items():
            info = tarfile.TarInfo(path)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    file.write_bytes(compress(data.getvalue()))
    return file


def written(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.name != ".lock"}


def link(path: str, target: str, kind: bytes) -> tarfile.TarInfo:
    info = tarfile.TarInfo(path)
    info.type, info.linkname = kind, target
    return info


@pytest.mark.parametrize(
    "compress", [partial(gzip.compress, compresslevel=1), partial(lzma.compress, preset=0), zstd, bytes]
)
def test_an_rpm(
    compress: Callable[[bytes], bytes], debian_6_1: Kernel, empty_cache: Path, tmp_path: Path
) -> None:
    files = {
        f"{FEDORA}/config": CONFIG,
        f"{FEDORA}/vmlinuz": debian_6_1.image.read_bytes(),
        f"{FEDORA}/a": b"b",
    }
    file = rpm(tmp_path / "kernel-core.rpm", files, compress)
    added = kernels.add(file)
    assert (added.sha256, added.name, added.source) == (debian_6_1.sha256, debian_6_1.release, str(file))
    assert kernels.lacks(file) == ["modules (--fs and --root have only what is built in)"]


def test_cpio_reads_what_is_written_here() -> None:
    files = {f"{FEDORA}/vmlinuz": b"image", f"{FEDORA}/config": CONFIG}
    command = ["cpio", "--list", "--quiet"]
    listed = subprocess.run(command, input=cpio(files), stdout=subprocess.PIPE, check=True).stdout
    assert listed.decode().split() == list(files)


@pytest.mark.parametrize("place", [f"{ARCH}/vmlinuz", "boot/vmlinuz-linux"])
def test_an_arch_package(place: str, debian_6_1: Kernel, empty_cache: Path, tmp_path: Path) -> None:
    file = arch_package(tmp_path / "linux-x86_64.pkg.tar.zst", {place: debian_6_1.image.read_bytes()})
    added = kernels.add(file, "arch")
    assert (added.sha256, added.name, added.version) == (debian_6_1.sha256, "arch", debian_6_1.version)
    assert kernels.lacks(file)[-1] == ("configuration (whether it has symbols and types shows when it boots)")


def test_arm64_images_of_opensuse_and_arch(empty_cache: Path, tmp_path: Path) -> None:
    opensuse = "./usr/lib/modules/6.4.0-default"
    whole = arm64_image([(4096, 4096)])
    files = {
        "./boot/Image-6.4.0-default.gz": b"of another program",
        f"{opensuse}/vmlinux.xz": b"vmlinux",
        f"{opensuse}/Image": whole,
    }
    added = kernels.add(rpm(tmp_path / "kernel-default-6.4.0-1.aarch64.rpm", files))
    assert (added.arch, added.image.read_bytes()) == ("aarch64", whole)
    files = {"boot/Image.gz": gzip.compress(whole), "boot/Image": whole}
    package = tmp_path / "linux-aarch64-6.18.1-1-aarch64.pkg.tar.xz"
    assert kernels.add(arch_package(package, files, compress=lzma.compress), "arch").sha256 == added.sha256


def test_the_packed_vmlinux_of_opensuse_is_passed_over(
    debian_6_1: Kernel, empty_cache: Path, tmp_path: Path
) -> None:
    files = {
        "./boot/vmlinux-6.4.0-default.gz": gzip.compress(b"vmlinux"),
        "./usr/lib/modules/6.4.0-default/vmlinux.xz": b"vmlinux",
        "./usr/lib/modules/6.4.0-default/vmlinuz": debian_6_1.image.read_bytes(),
    }
    assert kernels.add(rpm(tmp_path / "kernel-default.rpm", files)).sha256 == debian_6_1.sha256


def test_modules_come_from_the_package(
    module: bytes, debian_6_1: Kernel, empty_cache: Path, tmp_path: Path
) -> None:
    image = debian_6_1.image.read_bytes()
    files = {
        f"{ARCH}/vmlinuz": image,
        f"{ARCH}/modules.builtin": b"kernel/fs/ext4/ext4.ko\n",
        f"{ARCH}/kernel/drivers/block/brd.ko.zst": zstd(module),
    }
    added = kernels.add(arch_package(tmp_path / "linux.pkg.tar.zst", files))
    (brd,) = kernels.modules_for(added, "brd") or []
    assert (brd.name, brd.required, brd.file.read_bytes()) == ("brd", True, module)
    assert kernels.modules_for(added, "ext4") == [], "nothing is known of it but that it is built in"
    with pytest.raises(
        UserError, match=r"has no xfs: it is not built in, and .*linux\.pkg\.tar\.zst has no such"
    ):
        kernels.modules_for(added, "xfs")


def test_what_is_better_loaded_before_a_built_in_module(
    debian_6_1: Kernel, empty_cache: Path, tmp_path: Path
) -> None:
    source = tmp_path / "crc32c_intel.c"
    source.write_text(
        'static const char info[] __attribute__((section(".modinfo"), used)) = "alias=crc32c";\n'
    )
    subprocess.run(["gcc", "-c", source, "-o", tmp_path / "crc32c-intel.ko"], check=True)
    files = {
        f"{ARCH}/vmlinuz": debian_6_1.image.read_bytes(),
        f"{ARCH}/modules.builtin": b"kernel/fs/ext4/ext4.ko\nkernel/fs/squashfs/squashfs.ko\n",
        f"{ARCH}/modules.builtin.modinfo": b"ext4.softdep=pre: crc32c\0ext4.license=GPL\0",
        f"{ARCH}/kernel/arch/x86/crypto/crc32c-intel.ko": (tmp_path / "crc32c-intel.ko").read_bytes(),
    }
    added = kernels.add(arch_package(tmp_path / "linux.pkg.tar.zst", files))
    found = kernels.modules_for(added, "ext4") or []
    assert [(module.name, module.required) for module in found] == [("crc32c_intel", False)]
    assert kernels.modules_for(added, "squashfs") == []


def test_what_a_kernel_lacks_is_one_line(
    debian_6_1: Kernel, empty_cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {f"{FEDORA}/vmlinuz": debian_6_1.image.read_bytes(), f"{FEDORA}/config": b"CONFIG_KALLSYMS=y\n"}
    add(rpm(tmp_path / "kernel-core.rpm", files), "mine")
    printed = capsys.readouterr()
    assert printed.out == f"mine: Linux {debian_6_1.release}\n"
    assert printed.err == (
        "mine: its package has no modules (--fs and --root have only what is built in); "
        "no symbols of variables (they name objects); no types, BTF (they name fields and locks)\n"
    )


# Hostile ones


def test_nothing_but_the_image_is_taken_of_a_hostile_rpm(
    debian_6_1: Kernel, empty_cache: Path, tmp_path: Path
) -> None:
    files: dict[str, bytes | tuple[int, bytes]] = {
        "../../boot/vmlinuz-up": b"up",
        "/boot/vmlinuz-root": b"root",
        "./boot/../../vmlinuz-6": b"up",
        "./boot/vmlinuz-link": (stat.S_IFLNK | 0o777, b"/etc/passwd"),
        "./boot/vmlinuz-node": (stat.S_IFCHR | 0o644, b""),
        "./boot/vmlinuz-first-name-of-several": b"",
        "./usr/lib/debug/boot/vmlinux-6": b"debug",
    }
    file = rpm(tmp_path / "hostile.rpm", files)
    before = written(tmp_path)
    with pytest.raises(UserError, match=r"hostile\.rpm holds no kernel image: give Fedora's kernel-core or"):
        kernels.add(file)
    assert written(tmp_path) - before == {"cache", "cache/kernels"}
    rpm(file, {**files, f"{FEDORA}/vmlinuz": debian_6_1.image.read_bytes(), "./boot/vmlinuz-7": b"second"})
    assert kernels.add(file, "it").sha256 == debian_6_1.sha256
    assert {path for path in written(tmp_path) - before if "it@" in path} == {
        f"cache/kernels/it@x86_64{name}" for name in ("", "/vmlinuz", "/kernel.json")
    }


def test_nothing_but_the_image_is_taken_of_a_hostile_arch_package(empty_cache: Path, tmp_path: Path) -> None:
    links = (
        link(f"{ARCH}/vmlinuz", "/etc/passwd", tarfile.SYMTYPE),
        link("boot/vmlinuz-hard", "/etc/passwd", tarfile.LNKTYPE),
        link("boot/vmlinuz-node", "", tarfile.CHRTYPE),
    )
    file = arch_package(tmp_path / "hostile.pkg.tar.zst", {"../boot/vmlinuz-up": b"up"}, links)
    before = written(tmp_path)
    with pytest.raises(
        UserError, match=r"zst holds no kernel image: give Arch's package linux or linux-lts$"
    ):
        kernels.add(file)
    assert written(tmp_path) - before == {"cache", "cache/kernels"}


def test_a_package_names_no_file_of_this_machine(empty_cache: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret" * 2000)
    mtree = f"#mtree\n./{ARCH}/vmlinuz type=file mode=644 contents={secret}\n".encode()
    (tmp_path / "mtree.pkg.tar.zst").write_bytes(zstd(mtree))
    with pytest.raises(UserError, match=r"zst is not a complete package \(.*\): copy it again$"):
        kernels.add(tmp_path / "mtree.pkg.tar.zst")
    file = rpm(tmp_path / "mtree.rpm", {}, lambda _cpio: gzip.compress(mtree))
    with pytest.raises(
        UserError, match=r"\(its payload is no cpio archive, or is compressed in an unknown way\)"
    ):
        kernels.add(file)


def replaced(content: bytes, old: bytes, new: bytes) -> bytes:
    assert old in content
    return content.replace(old, new)


def test_damaged_packages(debian_6_1: Kernel, empty_cache: Path, tmp_path: Path) -> None:
    image = debian_6_1.image.read_bytes()
    whole = rpm(tmp_path / "whole.rpm", {f"{FEDORA}/vmlinuz": image}, gzip.compress).read_bytes()
    plain = rpm(tmp_path / "plain.rpm", {f"{FEDORA}/vmlinuz": image[:9000]}, bytes).read_bytes()
    size, huge = b"%08X" % 9000, b"%08X" % (3 << 30)
    for content, complaint in [
        (b"no package", "is not a complete package (it is cut short)"),
        (bytes(5000), "is not a complete package (it does not begin as an rpm does)"),
        (whole[: len(whole) // 2], "is not a complete package ("),
        (plain[:-5000], "is not a complete package (it ends in the middle of a file)"),
        (plain[:300], "is not a complete package (it is cut short)"),
        (
            replaced(plain, b"\x8e\xad\xe8\x01", b"\x8e\xad\xe8\2"),
            "is not a complete package (a header of it is",
        ),
        (replaced(plain, b"070701", b"0707-1"), "is not a complete package (its payload is no cpio archive"),
        (replaced(plain, size, b"-0000001"), "is not a complete package ("),
    ]:
        (tmp_path / "bad.rpm").write_bytes(content)
        with pytest.raises(UserError) as error:
            kernels.add(tmp_path / "bad.rpm")
        assert str(error.value).startswith(f"{tmp_path}/bad.rpm {complaint}"), str(error.value)
    (tmp_path / "bad.rpm").write_bytes(replaced(plain, size, huge))
    with pytest.raises(UserError, match=r"/vmlinuz claims 3221225472 bytes: not a kernel$"):
        kernels.add(tmp_path / "bad.rpm")
    zst = arch_package(tmp_path / "linux.pkg.tar.zst", {f"{ARCH}/vmlinuz": image})
    zst.write_bytes(zst.read_bytes()[: zst.stat().st_size // 2])
    with pytest.raises(UserError, match=r"zst is not a complete package \("):
        kernels.add(zst)


@pytest.mark.parametrize("compress", [zstd, gzip.compress, lzma.compress])
def test_modules_that_are_damaged_or_unpack_to_too_much(
    compress: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert compression.small(compress(b"module"), "x") == b"module"
    with pytest.raises(UserError, match=r"^x is damaged: "):
        compression.small(compress(b"module" * 999)[:-5], "x")
    monkeypatch.setattr(compression, "_LARGEST_SMALL", 1 << 20)
    assert len(compression.small(compress(bytes(1 << 20)), "x")) == 1 << 20
    with pytest.raises(UserError, match=r"^x is damaged: it unpacks to more than 1 MiB"):
        compression.small(compress(bytes(3 << 20)), "x")


def test_a_package_with_more_modules_than_fit_into_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them is small, and what comes of it."""
    paths = [f"./lib/modules/6.1/kernel/fs/{name}.ko" for name in "abc"]
    plain = {path: bytes(400 << 10) for path in paths}
    monkeypatch.setattr(deb, "FILES_LIMIT", 1 << 20)
    for file in (
        rpm(tmp_path / "k.rpm", plain),
        arch_package(tmp_path / "k.pkg.tar.zst", plain),
        rpm(tmp_path / "k-gz.rpm", {f"{path}.gz": gzip.compress(content) for path, content in plain.items()}),
    ):
        with pytest.raises(UserError, match=r"^the modules of .*/k.* have more than 1 MiB"):
            modules._contents([file])


def test_a_configuration_that_unpacks_to_too_much() -> None:
    text = b"CONFIG_A=y\n"
    image = b"..IKCFG_ST%sIKCFG_ED.."
    assert configuration.of_image(image % gzip.compress(text)) == {"A": "y"}
    assert configuration.of_image(image % gzip.compress(text + bytes(17 << 20))) == {}
    assert configuration.of_image(image % gzip.compress(text)[:-3]) == {}
