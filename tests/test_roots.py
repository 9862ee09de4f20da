"""bigiron root: what goes into an image and what does not, and each bad input as one line."""

import bz2
import doctest
import gzip
import hashlib
import importlib
import io
import json
import lzma
import os
import pkgutil
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from conftest import bigiron, wait_until
from deb_archive import served

from bigiron import roots
from bigiron.errors import UserError

X86_64, PPC64LE, PPC64 = (62, 1), (21, 1), (21, 2)
Member = tuple[tarfile.TarInfo, bytes]


def program(machine: tuple[int, int] = X86_64) -> bytes:
    """The start of an ELF file for a machine in a byte order."""
    number, order = machine
    kind = [(2).to_bytes(2, name) + number.to_bytes(2, name) for name in ("little", "big")][order - 1]
    return b"\x7fELF\x02" + bytes([order, 1]) + bytes(9) + kind + bytes(44)


def member(name: str, content: bytes = b"", **what: Any) -> Member:
    one = tarfile.TarInfo(name)
    one.size, one.mode = len(content), 0o755
    for key, value in what.items():
        setattr(one, key, value)
    return one, content


def symlink(name: str, target: str) -> Member:
    return member(name, type=tarfile.SYMTYPE, linkname=target)


def hard_link(name: str, target: str) -> Member:
    return member(name, type=tarfile.LNKTYPE, linkname=target)


SHELL = member("bin/sh", program())


def tar(members: Iterable[Member]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as made:
        for one, content in members:
            made.addfile(one, io.BytesIO(content))
    return out.getvalue()


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("BIGIRON_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache/roots"


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., roots.Root]:
    """A root of an archive with these members."""

    def make(*members: Member) -> roots.Root:
        (tmp_path / "root.tar").write_bytes(tar(members))
        return roots.resolve(str(tmp_path / "root.tar"))

    return make


def listed(root: roots.Root) -> dict[str, str]:
    """By path, what `unsquashfs` says of a file but its size and time; of a link, with its target."""
    done = subprocess.run(
        ["unsquashfs", "-lln", "-d", "", root.image], capture_output=True, text=True, check=True
    )
    found = {}
    for line in done.stdout.splitlines():
        mode, owner, *rest = line.split()
        rest = rest[2 if mode[0] in "cb" and rest[0].endswith(",") else 1 :]
        path, _, target = " ".join(rest[2:]).partition(" -> ")
        found[path] = f"{mode} {owner}" + (f" -> {target}" if target else "")
    return found


def content(root: roots.Root, path: str) -> bytes:
    return subprocess.run(["unsquashfs", "-cat", root.image, path], capture_output=True, check=True).stdout


def complaint(*members: Member, folder: Path) -> str:
    """What is said of an archive with these members; nothing is left of it."""
    file = folder / "root.tar"
    file.write_bytes(tar(members))
    return refusal(str(file), folder)


def refusal(spec: str, folder: Path, arch: str = "x86_64") -> str:
    with pytest.raises(UserError) as raised:
        roots.resolve(spec, arch)
    assert nothing_left(folder / "cache/roots")
    said = str(raised.value)
    assert "\n" not in said
    return said.replace(f"{folder}/", "")


def nothing_left(cache: Path) -> bool:
    return not cache.exists() or [file.name for file in cache.iterdir()] in ([], [".lock"])


def test_the_examples() -> None:
    for found in pkgutil.iter_modules(roots.__path__, f"{roots.__name__}."):
        assert doctest.testmod(importlib.import_module(found.name)).failed == 0


def test_what_an_image_has(made: Callable[..., roots.Root]) -> None:
    root = made(
        SHELL,
        member("./usr/", type=tarfile.DIRTYPE, mode=0o755, uid=5, gid=6),
        member("/usr/bin/su", program(), mode=0o4755),
        hard_link("usr/bin/su2", "usr/bin/su"),
        symlink("etc/localtime", "/usr/share/zoneinfo/UTC"),
        symlink("up", "../../../etc/passwd"),
        member("dev/null", type=tarfile.CHRTYPE, devmajor=1, devminor=3, mode=0o666),
        member("run/pipe", type=tarfile.FIFOTYPE, mode=0o600),
    )
    assert listed(root) == {
        "": "drwxr-xr-x 0/0",
        "/bin": "drwxr-xr-x 0/0",
        "/bin/sh": "-rwxr-xr-x 0/0",
        "/dev": "drwxr-xr-x 0/0",
        "/dev/null": "crw-rw-rw- 0/0",
        "/etc": "drwxr-xr-x 0/0",
        "/etc/hosts": "-rw-r--r-- 0/0",
        "/etc/localtime": "lrwxrwxrwx 0/0 -> /usr/share/zoneinfo/UTC",
        "/run": "drwxr-xr-x 0/0",
        "/run/pipe": "prw------- 0/0",
        "/up": "lrwxrwxrwx 0/0 -> ../../../etc/passwd",
        "/usr": "drwxr-xr-x 5/6",
        "/usr/bin": "drwxr-xr-x 0/0",
        "/usr/bin/su": "-rwsr-xr-x 0/0",
        "/usr/bin/su2": "-rwsr-xr-x 0/0",
    }
    assert content(root, "usr/bin/su2") == program()
    assert content(root, "etc/hosts").startswith(b"127.0.0.1 localhost\n")
    assert root.sha256 == hashlib.sha256(root.image.read_bytes()).hexdigest()
    assert (root.image.stat().st_mode & 0o777, root.file_system) == (0o444, "squashfs")


@pytest.mark.parametrize(("name", "said"), [("tmp/file", 1), ("tmp", 0)])
def test_files_that_programs_do_not_see(name: str, said: int, tmp_path: Path) -> None:
    kind = tarfile.DIRTYPE if name == "tmp" else tarfile.REGTYPE
    (tmp_path / "root.tar").write_bytes(tar([SHELL, member(name, type=kind)]))
    steps: list[str] = []
    roots.resolve(str(tmp_path / "root.tar"), on_step=steps.append)
    hidden = "programs do not see the files of its /tmp: the guest mounts its own there"
    assert steps.count(hidden) == said


def test_capabilities_of_programs_are_kept(made: Callable[..., roots.Root], tmp_path: Path) -> None:
    one, data = member("bin/ping", program())
    capability = b"\x01\0\0\x02\0\x20\0\0" + bytes(11) + b"\xff"
    one.pax_headers = {
        "SCHILY.xattr.security.capability": capability.decode("utf-8", "surrogateescape"),
        "SCHILY.xattr.trusted.overlay.opaque": "y",
    }
    root = made(SHELL, (one, data))
    into = tmp_path / "unpacked"
    done = subprocess.run(
        ["unsquashfs", "-n", "-xattrs", "-d", into, root.image, "bin/ping"], capture_output=True, check=False
    )
    if os.geteuid() == 0:
        assert done.returncode == 0, done
        assert os.listxattr(into / "bin/ping") == ["security.capability"]
    assert capability in root.image.read_bytes() and b"overlay" not in root.image.read_bytes()


def test_the_same_files_give_the_same_image_whatever_their_order(tmp_path: Path) -> None:
    members = [SHELL, member("a", b"one"), member("b/c", b"two", mtime=5)]
    packed = {
        "1.tar": tar(members),
        "2.tar": tar(reversed(members)),
        "3.tar.gz": gzip.compress(tar(members)),
        "4.tgz": gzip.compress(tar(members), 1),
        "5.tar.xz": lzma.compress(tar(members)),
        "6.tar.bz2": bz2.compress(tar(members)),
        "7.tar.zst": subprocess.run(["zstd"], input=tar(members), capture_output=True, check=True).stdout,
    }
    found = set()
    for name, data in packed.items():
        (tmp_path / name).write_bytes(data)
        found.add(roots.resolve(str(tmp_path / name)).sha256)
    assert len(found) == 1
    assert len(list((tmp_path / "cache/roots").glob("*.squashfs"))) == 1


def test_a_member_below_a_link_stays_inside(made: Callable[..., roots.Root]) -> None:
    root = made(
        SHELL,
        symlink("lib", "usr/lib"),
        member("lib/one", b"1"),
        symlink("out", "/etc"),
        member("out/passwd", b"2"),
        symlink("far", "../../../../tmp"),
        member("far/file", b"3"),
    )
    assert {"/usr/lib/one", "/etc/passwd", "/tmp/file"} <= set(listed(root))
    assert content(root, "etc/passwd") == b"2"


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ([member("../etc/passwd", b"x")], "the name '../etc/passwd' leads out of it"),
        ([member("usr/../../x", b"x")], "the name 'usr/../../x' leads out of it"),
        ([hard_link("x", "/etc/shadow")], "'x' is a link to '/etc/shadow', which is not a file in it"),
        ([hard_link("x", "../y")], "the name '../y' leads out of it"),
        ([symlink("a", "b"), symlink("b", "a"), member("a/x")], "its links lead in a circle, at '"),
        ([member("a", b"x"), member("a/b", b"x")], "'a/b' is inside something that is not a folder"),
        ([member("./", b"x")], "its root is not a folder"),
        ([member("x" * 300, b"x")], "a name is longer than 255 bytes: 'xxxx"),
        ([member("x/" * 3000, b"x")], "a name is longer than 4095 bytes: 'x/x/"),
        ([symlink("a", "")], "the link 'a' leads nowhere"),
    ],
)
def test_members_that_are_not_of_a_root(members: list[Member], said: str, tmp_path: Path) -> None:
    answer = complaint(SHELL, *members, folder=tmp_path)
    assert answer.startswith(f"root.tar is not a root file system: {said}"), answer


def test_archives_without_programs_for_this_guest(tmp_path: Path) -> None:
    assert complaint(folder=tmp_path) == "root.tar is not a root file system: it has no program"
    assert complaint(member("etc/passwd", b"x"), folder=tmp_path).endswith("it has no program")
    elsewhere = complaint(member("bin/sh", program(PPC64LE)), member("x", program(PPC64)), folder=tmp_path)
    assert elsewhere == "root.tar is a root for ppc64 and ppc64le, not for x86_64"
    (tmp_path / "root.tar").write_bytes(tar([SHELL]))
    assert refusal(str(tmp_path / "root.tar"), tmp_path, "ppc64el").endswith("for x86_64, not for ppc64le")


def test_archives_that_are_damaged(tmp_path: Path) -> None:
    whole = tar([SHELL, member("data", bytes(range(256)) * 400)])
    packed = subprocess.run(["zstd"], input=whole, capture_output=True, check=True).stdout
    header = tarfile.BLOCKSIZE + tarfile.BLOCKSIZE  # of the second member, after the first's header and data
    flipped = bytes([whole[header] ^ 1])
    for name, data in {
        "half.tar": whole[: len(whole) // 2],
        "bit.tar": whole[:header] + flipped + whole[header + 1 :],
        "at-a-header.tar": whole[:header],
        "in-a-header.tar": whole[: header + 100],
        "two.tar": whole + whole,
        "half.tar.gz": gzip.compress(whole)[:-200],
        "half.tar.xz": lzma.compress(whole)[:-40],
        "half.tar.zst": packed[:-20],
        "text.tar": b"no archive\n" * 100,
        "empty.tar": b"",
    }.items():
        (tmp_path / name).write_bytes(data)
        assert refusal(str(tmp_path / name), tmp_path).startswith(f"{name} is not a")


def test_an_archive_with_too_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused before all its headers are in memory."""
    monkeypatch.setattr("bigiron.roots.archive.MOST_FILES", 3)
    assert (
        complaint(*(member(f"bin/{n}") for n in range(5)), folder=tmp_path)
        == "root.tar has more than 3 files"
    )


def test_what_is_larger_than_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=(512 << 20) + 4096))
    (tmp_path / "bomb.tar.gz").write_bytes(gzip.compress(bytes(8 << 20)))
    said = refusal(str(tmp_path / "bomb.tar.gz"), tmp_path)
    assert said.startswith(
        "bomb.tar.gz unpacks to more than the 4 KiB free in cache/roots; free some space"
    ), said
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=10))
    assert complaint(SHELL, folder=tmp_path).startswith(
        "root.tar has 64 bytes of files, and cache/roots has 10"
    )


def test_sparse_files(made: Callable[..., roots.Root], tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.write(b"start")
        file.seek(3 << 20)
        file.write(b"end")
    (tmp_path / "sh").write_bytes(program())
    (tmp_path / "sh").chmod(0o755)
    subprocess.run(["tar", "-cSf", "s.tar", "sparse", "sh"], cwd=tmp_path, check=True)
    root = roots.resolve(str(tmp_path / "s.tar"))
    assert content(root, "sparse") == (tmp_path / "sparse").read_bytes()
    assert root.size_bytes < 1 << 20


def folder_of(top: Path) -> Path:
    for path in ("bin", "etc", "home"):
        (top / path).mkdir(parents=True)
    (top / "bin/sh").write_bytes(program())
    (top / "bin/sh").chmod(0o4755)
    os.link(top / "bin/sh", top / "bin/ash")
    (top / "etc/secret").symlink_to("/etc/shadow")
    os.mkfifo(top / "home/pipe")
    return top


def test_an_image_that_a_process_uses_stays(tmp_path: Path, own_cache: Path) -> None:
    """A study starts a machine from it for each cell, whatever the folder is meanwhile."""
    top = folder_of(tmp_path / "tree")
    script = (
        "import sys; from bigiron import roots; from bigiron.machines.vm.root_disk import RootDisk;"
        "print(RootDisk(sys.argv[1], 'x86_64').root.image, flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", script, top]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdin and running.stdout
        image = Path(running.stdout.readline().strip())
        (top / "more").touch()
        second = roots.resolve(str(top))
        assert image.is_file() and second.image != image
        running.stdin.close()
    roots.drop(None)
    assert not list(own_cache.glob("*.squashfs"))


def test_a_folder_and_its_changes(tmp_path: Path) -> None:
    top = folder_of(tmp_path / "tree")
    first = roots.resolve(str(top))
    found = listed(first)
    assert found["/bin/ash"] == found["/bin/sh"] == "-rwsr-xr-x 0/0"
    assert found["/etc/secret"] == "lrwxrwxrwx 0/0 -> /etc/shadow"
    assert roots.resolve(f"{top}/") == first
    (top / "etc/new").write_text("x")
    second = roots.resolve(str(top))
    assert "/etc/new" in listed(second) and second.sha256 != first.sha256
    assert not first.image.exists()
    assert [record.sha256 for record in roots.records()] == [second.sha256]


def test_folders_that_cannot_be_roots(tmp_path: Path) -> None:
    assert refusal(str(tmp_path / "none"), tmp_path).startswith(
        "no root 'none' (No such file or directory): give"
    )
    assert refusal("/dev/null", tmp_path).startswith("/dev/null is neither a folder nor a file")
    assert refusal(str(tmp_path), tmp_path).endswith(
        "has the cache of roots in it (cache/roots): give another folder"
    )
    assert refusal("host", tmp_path).startswith("the root `host` is not supported yet")
    (tmp_path / "bare").mkdir()
    assert refusal(str(tmp_path / "bare"), tmp_path) == "bare is not a root file system: it has no program"


class Layout:
    """An OCI layout: an index of images, whose layers are archives."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {"oci-layout": b'{"imageLayoutVersion": "1.0.0"}'}

    def blob(self, data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()
        self.files[f"blobs/sha256/{digest}"] = data
        return f"sha256:{digest}"

    def document(self, value: object) -> dict[str, str]:
        return {"digest": self.blob(json.dumps(value).encode())}

    def image(self, arch: str, *layers: bytes) -> dict[str, str]:
        config = self.document({"architecture": arch, "os": "linux"})
        return self.document({"config": config, "layers": [{"digest": self.blob(layer)} for layer in layers]})

    def index(self, *images: dict[str, str]) -> "Layout":
        self.files["index.json"] = json.dumps({"manifests": images}).encode()
        return self

    def write(self, top: Path) -> str:
        for name, data in self.files.items():
            (top / name).parent.mkdir(parents=True, exist_ok=True)
            (top / name).write_bytes(data)
        return str(top)

    def packed(self, file: Path) -> str:
        file.write_bytes(tar(member(name, data) for name, data in self.files.items()))
        return str(file)


def layers() -> list[bytes]:
    return [
        gzip.compress(
            tar(
                [
                    SHELL,
                    member("a/old", b"1"),
                    member("a/gone", b"2"),
                    member("b/hidden", b"3"),
                    symlink("lib", "usr/lib"),
                ]
            )
        ),
        tar([member("a/.wh.gone"), member("b/.wh..wh..opq"), member("b/new", b"4"), member("a/old", b"5")]),
        gzip.compress(tar([member("lib/x", b"6"), hard_link("a/also", "a/old")])),
    ]


def test_the_layers_of_a_container_image(tmp_path: Path) -> None:
    layout = Layout()
    x86_64, arm64 = layout.image("amd64", *layers()), layout.image("arm64", tar([]))
    nested = layout.document({"manifests": [arm64, x86_64]})
    layout.index(nested)
    root = roots.resolve(layout.write(tmp_path / "layout"))
    found = set(listed(root))
    assert {"/a/old", "/a/also", "/b/new", "/usr/lib/x"} <= found
    assert not {"/a/gone", "/b/hidden"} & found and not any(".wh." in path for path in found)
    assert content(root, "a/also") == b"5"
    assert roots.resolve(layout.packed(tmp_path / "layout.tar")).sha256 == root.sha256


def test_an_archive_with_the_blobs_of_one_platform(tmp_path: Path) -> None:
    """`docker save` of an image of several platforms, from the containerd store, and tagged twice."""
    layout, others = Layout(), Layout()
    ours = layout.image("amd64", *layers()) | {"platform": {"architecture": "amd64", "os": "linux"}}
    platforms = [("arm64", "linux"), ("amd64", "windows"), ("unknown", "unknown")]
    listed_only = [
        others.image(arch, os_name.encode()) | {"platform": {"architecture": arch, "os": os_name}}
        for arch, os_name in platforms
    ]
    whole = layout.document({"manifests": [*listed_only, ours]})
    root = roots.resolve(layout.index(whole, whole).packed(tmp_path / "saved.tar"))
    assert "/usr/lib/x" in listed(root)
    layout.index(layout.document({"manifests": listed_only}))
    (tmp_path / "cache").rename(tmp_path / "kept")
    assert refusal(layout.packed(tmp_path / "saved.tar"), tmp_path) == (
        "saved.tar has no image for x86_64, only linux/arm64, unknown/unknown and windows/amd64"
    )


def test_what_docker_save_wrote_before_it_knew_oci(tmp_path: Path) -> None:
    config = json.dumps({"architecture": "amd64"}).encode()
    saved = [{"Config": "c.json", "RepoTags": [], "Layers": ["1/layer.tar", "2/layer.tar"]}]
    (tmp_path / "saved.tar").write_bytes(
        tar(
            [
                member("c.json", config),
                member("1/layer.tar", tar([SHELL])),
                symlink("2/layer.tar", "../1/layer.tar"),
                member("manifest.json", json.dumps(saved).encode()),
            ]
        )
    )
    assert "/bin/sh" in listed(roots.resolve(str(tmp_path / "saved.tar")))


def test_container_images_that_cannot_be_read(tmp_path: Path) -> None:
    def said(layout: Layout) -> str:
        shutil.rmtree(tmp_path / "layout", ignore_errors=True)
        return refusal(layout.write(tmp_path / "layout"), tmp_path)

    elsewhere, twice, lacks, changed, escapes, deep = (Layout() for _ in range(6))
    elsewhere.index(elsewhere.image("arm64"), elsewhere.image("s390x"))
    assert said(elsewhere) == "layout has no image for x86_64, only arm64 and s390x"
    twice.index(twice.image("amd64", *layers()), twice.image("amd64"))
    assert said(twice).startswith("layout has 2 images for x86_64")
    lacks.index(lacks.image("amd64", tar([SHELL])))
    lacks.files.popitem()  # the manifest
    lacks.files = {name: data for name, data in lacks.files.items() if data != tar([SHELL])}
    lacks.index(lacks.image("amd64"))
    lacks.files["index.json"] = json.dumps({"manifests": [{"digest": f"sha256:{'0' * 64}"}]}).encode()
    assert said(lacks).startswith(
        f"layout is not a complete OCI layout: blobs/sha256/{'0' * 64}: No such file"
    )
    changed.index(changed.image("amd64", tar([SHELL])))
    name = next(name for name, data in changed.files.items() if data == tar([SHELL]))
    changed.files[name] = tar([member("evil", b"x")])
    assert said(changed).endswith("of layout is damaged: it has another checksum")
    escapes.files["index.json"] = json.dumps(
        {"manifests": [{"digest": "sha256:../../../etc/passwd"}]}
    ).encode()
    assert said(escapes) == "layout is not a container image: 'sha256:../../../etc/passwd' is not a SHA-256"
    index = deep.image("amd64")
    for _ in range(20):
        index = deep.document({"manifests": [index]})
    assert said(deep.index(index)) == "layout: its index of images is too deep"


def test_the_command(tmp_path: Path) -> None:
    (tmp_path / "root.tar").write_bytes(tar([SHELL]))
    where = str(tmp_path / "root.tar")
    first = bigiron("root", "make", where)
    assert first.status == 0 and first.out.startswith(f"{where}: "), first
    assert first.err == f"{where}: making the image of 64 bytes\n"
    again = bigiron("root", "make", where)
    assert (again.status, again.out, again.err) == (0, first.out, "")
    (row,) = json.loads(bigiron("root", "list", "--format", "json").out)
    assert (row["root"], row["arch"]) == (where, "x86_64")
    assert bigiron("root", "drop").complaint == "give the name of a root (`bigiron root list`), or --all"
    unknown = bigiron("root", "drop", "debian:trixie")
    assert (unknown.status, unknown.complaint.split(":")[0]) == (2, "no root 'debian")
    assert bigiron("root", "drop", where).out.startswith(f"dropped {where}: ")
    assert bigiron("root", "drop", "--all").out == "there were no roots\n"
    (tmp_path / "root.tar").write_bytes(tar([member("../x", b"x")]))
    bad = bigiron("root", "make", where)
    assert (bad.status, bad.complaint) == (
        2,
        f"{where} is not a root file system: the name '../x' leads out of it",
    )


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("debian:", "'debian:' names no suite of Debian"),
        ("debian:Trixie", "'debian:Trixie' names no suite of Debian"),
        ("debian:../../etc", "'debian:../../etc' names no suite"),
        ("debian:trixie+", "'' in 'debian:trixie+' cannot be a package's name"),
        ("debian:trixie+--help", "'--help' in 'debian:trixie+--help' cannot be"),
        ("debian:trixie+a;reboot", "'a;reboot' in"),
        ("debian:trixie+x\n", "'x\\n' in"),
    ],
)
def test_names_of_packages(spec: str, said: str, tmp_path: Path) -> None:
    assert refusal(spec, tmp_path).startswith(said)


def test_machines_that_lack_the_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "root.tar").write_bytes(tar([SHELL]))
    with monkeypatch.context() as without:
        without.setenv("PATH", str(tmp_path))
        assert refusal(str(tmp_path / "root.tar"), tmp_path).endswith("apt-get install squashfs-tools")
        assert refusal("debian:trixie", tmp_path).endswith("apt-get install mmdebstrap")


@pytest.mark.needs_more
def test_archives_of_packages_that_cannot_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "archive").mkdir()
    with served(tmp_path / "archive", monkeypatch) as archive:
        assert refusal("debian:nosuite", tmp_path) == (
            "debian:nosuite for x86_64: Debian's archive has no suite nosuite, or it cannot be reached"
        )
        archive.keyring.write_bytes(b"")  # signed by an unknown key
        assert "debian:trixie for x86_64: E: " in refusal("debian:trixie", tmp_path)


@pytest.mark.needs_more
@pytest.mark.skipif(os.geteuid() != 0, reason="only root changes roots")
def test_packages_in_a_changed_root(tmp_path: Path) -> None:
    """There and in most containers the kernel makes no user namespaces."""
    changed = 'mount --rbind / "$1" && exec chroot "$@"'
    make = (sys.executable, "-m", "bigiron", "root", "make", "debian:trixie")
    command = ("unshare", "--mount", "sh", "-c", changed, "sh", tmp_path, *make)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (
        2,
        "bigiron: debian:trixie for x86_64: no user namespace may be made here: run it outside of the "
        "container or chroot",
    )


@pytest.mark.needs_more
def test_debian_s_packages(tmp_path: Path) -> None:
    assert refusal("debian:trixie+no-such-package", tmp_path) == (
        "debian:trixie for x86_64: Debian's trixie has no package no-such-package"
    )
    root = roots.resolve("debian:trixie+sqlite3")
    found = listed(root)
    assert found["/usr/bin/sqlite3"] == "-rwxr-xr-x 0/0" and found["/usr/bin/su"] == "-rwsr-xr-x 0/0"
    assert not {"/etc/resolv.conf", "/etc/apt/sources.list"} & set(found)
    assert content(root, "etc/hostname") == b"bigiron\n"
    (record,) = roots.records()
    assert any(one.startswith("sqlite3 3.") for one in record.packages)
    assert roots.resolve("debian:trixie+sqlite3") == root


MAKE_FOREVER = """
import sys, time
from bigiron import roots
from bigiron.roots import image
write = image.write
def slow(tree, to, inherited):
    write(tree, to, inherited)
    print(to, flush=True)
    time.sleep(600)
image.write = slow
roots.resolve(sys.argv[1])
"""


def test_one_that_was_killed_leaves_no_half_image(tmp_path: Path) -> None:
    (tmp_path / "root.tar").write_bytes(tar([SHELL]))
    with subprocess.Popen(
        [sys.executable, "-c", MAKE_FOREVER, str(tmp_path / "root.tar")], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        half = Path(process.stdout.readline().strip())
        assert half.exists() and not list((tmp_path / "cache/roots").glob("*.squashfs"))
        process.send_signal(signal.SIGKILL)
    root = roots.resolve(str(tmp_path / "root.tar"))
    assert not half.parent.exists() and root.image.exists()


@pytest.mark.slow
def test_what_mmdebstrap_started_ends_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for mmdebstrap that never ends: killed, all of its processes end."""
    mark = f"{os.getpid() + 86_000_000}"
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/mmdebstrap").write_text(f"#!/bin/sh\nsleep {mark} & sleep {mark}\n")
    (tmp_path / "bin/mmdebstrap").chmod(0o755)
    making = "import sys; from bigiron import roots; roots.resolve('debian:trixie')"
    environment = os.environ | {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
    with subprocess.Popen([sys.executable, "-c", making], env=environment) as process:
        wait_until(lambda: len(sleeping(mark)) == 2)
        process.kill()
    wait_until(lambda: not sleeping(mark))


def sleeping(mark: str) -> list[Path]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cmdline").read_bytes() == f"sleep\0{mark}\0".encode():
                found.append(process)
        except OSError:
            pass
    return found


def test_two_at_once_make_one(tmp_path: Path) -> None:
    (tmp_path / "root.tar").write_bytes(tar([SHELL]))
    command: Sequence[str] = [
        "-c",
        "import sys; from bigiron import roots; print(roots.resolve(sys.argv[1]).sha256)",
    ]
    running = [
        subprocess.Popen([sys.executable, *command, str(tmp_path / "root.tar")], stdout=subprocess.PIPE)
        for _ in range(3)
    ]
    assert len({process.communicate()[0] for process in running}) == 1
    assert all(process.returncode == 0 for process in running)
