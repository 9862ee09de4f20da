"""What a wheel brings compiled is used while its sources are those it was made from; and the wheel itself."""

import doctest
import functools
import http.server
import io
import os
import platform
import re
import subprocess
import sys
import sysconfig
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import msgspec
import pytest
from test_docs import tool
from test_setup import ROOT

import bigiron
from bigiron import compile, doctor, prebuilt, workloads
from bigiron.architectures import X86_64
from bigiron.errors import UserError
from bigiron.machines.vm import qemu

AGENT = b"an agent"
RECORDER = b"a recorder"
COMPILED = ("dup1", "fxmark/DWAL", "hotplug-offline")
COMPILERS = re.compile(r"(.*-)?(gcc|g\+\+|cc|c89|c99|cpp|clang|ld|as|cargo|rustc|nm|tcc)([-.\d].*)?")


@pytest.fixture
def wheel_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of compiled programs, as if this package had come with one; and no compiler."""
    folder = tmp_path / "compiled"
    monkeypatch.setenv("BIGIRON_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(prebuilt, "FOLDER", folder)
    agent, recorder = compile.agent_key(workloads.find("open1"), "gcc", True), compile.recorder_key()
    boot = compile.boot_key("gcc")
    (folder / recorder).mkdir(parents=True)
    (folder / recorder / "recorder.so").write_bytes(RECORDER)
    with tarfile.open(folder / "guest.tar.xz", "w:xz") as archive:
        for name in (f"{boot}/boot", f"{agent}/agent"):
            member = tarfile.TarInfo(name)
            member.size = len(AGENT)
            archive.addfile(member, io.BytesIO(AGENT))
    programs = {agent: "guest.tar.xz", boot: "guest.tar.xz", recorder: ""}
    index = prebuilt.Index((), programs, {"x86_64": {"openat": 257}})
    (folder / prebuilt.INDEX).write_bytes(msgspec.json.encode(index))
    return folder


def slices(name: str) -> Path:
    return compile.agent(workloads.find(name), "gcc", time_slices=True)


@pytest.mark.usefixtures("wheel_s")
def test_what_comes_compiled_needs_no_compiler() -> None:
    for _ in range(2):
        assert slices("open1").read_bytes() == compile.boot("gcc").read_bytes() == AGENT
    assert os.access(slices("open1"), os.X_OK)
    assert compile.recorder().read_bytes() == RECORDER
    assert compile.system_calls.__wrapped__("gcc") == {"openat": 257}
    with pytest.raises(UserError, match="no gcc on PATH to compile the agent"):
        slices("dup1")
    with pytest.raises(UserError, match="no gcc on PATH to compile"):
        compile.agent(workloads.find("open1"), "gcc")  # on a real machine


@pytest.mark.usefixtures("wheel_s")
def test_what_comes_compiled_is_found_on_a_host_of_another_architecture(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """tools/wheel.py makes it on x86_64, where the compiler for x86_64 is called gcc."""
    recorder = compile.recorder_key()
    monkeypatch.setattr(compile, "recorder_key", lambda: recorder)
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    compiler = X86_64.compiler
    assert compiler == "x86_64-linux-gnu-gcc"
    assert compile.agent(workloads.find("open1"), compiler, time_slices=True).read_bytes() == AGENT
    assert compile.boot(compiler).read_bytes() == AGENT
    assert compile.system_calls.__wrapped__(compiler) == {"openat": 257}
    assert compile.comes_compiled()
    with pytest.raises(UserError, match="no gcc on PATH"):
        compile.boot("gcc")  # for aarch64


@pytest.mark.usefixtures("wheel_s")
def test_a_compiler_is_not_missed_where_programs_come_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    def check() -> doctor.Check:
        return doctor._own_workloads_only(doctor._compiler("gcc", "gcc", "gcc"))

    assert compile.comes_compiled()
    assert (check().state, check().found.partition(";")[0]) == ("limited", "no gcc on PATH")
    monkeypatch.setattr(prebuilt, "FOLDER", Path("/nonexistent"))
    assert check().state == "missing"


def test_changed_sources_are_compiled(wheel_s: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guest = tmp_path / "guest"
    guest.mkdir()
    (guest / "agent.c").write_text("changed\n")
    monkeypatch.setattr(compile, "_source_folder", lambda name: tmp_path / name)
    with pytest.raises(UserError, match="no gcc on PATH"):
        slices("open1")
    assert not compile.comes_compiled()


def test_a_damaged_package_says_what_to_do(wheel_s: Path) -> None:
    archive = wheel_s / "guest.tar.xz"
    whole = archive.read_bytes()
    for damaged in (b"", whole[: len(whole) // 2], b"no archive"):
        archive.write_bytes(damaged)
        with pytest.raises(
            UserError, match=r"guest\.tar\.xz .*: install bigiron again|; install bigiron again"
        ):
            slices("open1")
    index = wheel_s / prebuilt.INDEX
    index.write_text("{")
    prebuilt.read.cache_clear()
    with pytest.raises(UserError, match=r"index\.json cannot be read: .*; install bigiron again"):
        slices("open1")


def test_the_container_has_the_newest_of_several_wheels(tmp_path: Path) -> None:
    machine = platform.machine()
    for version, arch in (("0.9.0", machine), ("0.10.0", machine), ("0.11.0", "another")):
        (tmp_path / f"bigiron-{version}-cp311-abi3-manylinux_2_28_{arch}.whl").touch()
    chosen = re.search(r'--no-cache-dir (".*") \\$', (ROOT / "Containerfile").read_text(), re.MULTILINE)
    assert chosen
    script = f"echo {chosen[1].replace('/tmp', str(tmp_path))}"
    done = subprocess.run(["sh", "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout == f"{tmp_path}/bigiron-0.10.0-cp311-abi3-manylinux_2_28_{machine}.whl\n"


# The wheel of QEMU


@pytest.fixture
def qemu_wheel(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "tools")
    return tool("qemu_wheel")


def test_its_examples(qemu_wheel: ModuleType) -> None:
    assert doctest.testmod(qemu_wheel).failed == 0


@pytest.fixture
def fake_package(tmp_path: Path) -> Path:
    """The folder that the wheel is packed from, with a fake QEMU."""
    package = tmp_path / "package/bigiron_qemu"
    (package / "bin").mkdir(parents=True)
    (package / "bin/qemu-system-x86_64").write_text("#!/bin/sh\necho QEMU emulator version 10.0.13\n")
    (package / "__init__.py").write_text("raise AssertionError('it is not imported')\n")
    (package.parent / "licences").mkdir()
    (package.parent / "licences/GPL-2").write_text("a licence\n")
    return package


def test_it_is_installed_with_programs_that_start(
    qemu_wheel: ModuleType, fake_package: Path, tmp_path: Path
) -> None:
    wheel = qemu_wheel.pack(fake_package, "10.0.13+0.deb13u1.20261129", tmp_path)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run([*pip, "--target", tmp_path / "site", wheel], check=True)
    found = qemu.find_qemu(str(tmp_path / "site/bigiron_qemu/bin/qemu-system-x86_64"))
    assert found and (found.version, found.fault) == ("10.0.13", "")
    (licence,) = tmp_path.glob("site/bigiron_qemu-*.dist-info/licenses/GPL-2")
    assert licence.read_text() == "a licence\n"
    metadata = licence.parent.with_name("METADATA").read_text()
    assert "\nLicense-File: GPL-2\n" in metadata and "\nLicense-Expression" not in metadata  # it has many


def test_an_update_of_debian_s_is_installed_over_what_it_replaces_and_is_found(
    qemu_wheel: ModuleType, fake_package: Path, tmp_path: Path
) -> None:
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    pip = [sys.executable, "-m", "pip", "--python", venv, "install", "--quiet", "--no-index", "--no-deps"]
    for update in ("1:10.0.13+ds-0+deb13u1", "1:10.0.13+ds-0+deb13u2"):
        (fake_package / "SOURCES.txt").write_text(update)
        wheel = qemu_wheel.pack(fake_package, f"{qemu_wheel.Source(update).release}.20261129", tmp_path)
        subprocess.run([*pip, wheel], check=True)
        (installed,) = venv.glob("lib/python*/site-packages/bigiron_qemu/SOURCES.txt")
        assert installed.read_text() == update
    libraries = [ROOT / "src", sysconfig.get_path("purelib")]
    env = {"PATH": str(tmp_path), "PYTHONPATH": os.pathsep.join(map(str, libraries))}
    ask = "from bigiron.machines.vm import qemu; print(qemu.program('qemu-system-x86_64'))"
    python = venv / "bin/python"
    done = subprocess.run([python, "-c", ask], env=env, check=True, capture_output=True, text=True)
    assert done.stdout == f"{installed.with_name('bin')}/qemu-system-x86_64\n"


def test_a_release_that_debian_no_longer_updates_comes_from_its_archive_of_old_ones(
    qemu_wheel: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for suite in ("new", "new-security", "old-security"):
        (tmp_path / "dists" / suite).mkdir(parents=True)
        (tmp_path / "dists" / suite / "Release").touch()
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=tmp_path)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        mirror = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setenv("BIGIRON_DEBIAN_MIRROR", f"{mirror} {mirror}/")
        lines = [*qemu_wheel.apt_lines("deb", "new"), *qemu_wheel.apt_lines("deb-src", "old")]
        server.shutdown()
    signed = "signed-by=/usr/share/keyrings/debian-archive-keyring.gpg"
    assert lines == [
        f"deb [{signed}] {mirror} new main",
        f"deb [{signed}] {mirror}/ new-security main",
        f"deb-src [{signed} check-valid-until=no] http://archive.debian.org/debian old main",
        f"deb-src [{signed}] {mirror}/ old-security main",
    ]
    assert not qemu_wheel.is_gone(mirror, "old")  # no server: apt says so


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes what is then another user's")
def test_what_root_makes_belongs_to_the_checkout_s_owner(
    qemu_wheel: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout, user = tmp_path / "checkout", 65534
    checkout.mkdir()
    os.chown(checkout, user, user)
    monkeypatch.setattr(qemu_wheel, "ROOT", checkout)
    (checkout / "of-root").mkdir()
    for made in ("build/qemu-wheel", "dist", "of-root/dist"):
        qemu_wheel.make_folder(checkout / made)
    owners = {str(one.relative_to(checkout)): one.stat().st_uid for one in checkout.rglob("*")}
    made = ("build", "build/qemu-wheel", "dist", "of-root/dist")
    assert owners == {"of-root": 0} | dict.fromkeys(made, user)


# The wheel itself


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With some workloads, and a simulator that is not optimised, nor run: more takes minutes."""
    out = tmp_path_factory.mktemp("dist")
    options = {"OPT_LEVEL": "0", "LTO": "off", "CODEGEN_UNITS": "16"}
    sooner = {f"CARGO_PROFILE_RELEASE_{name}": value for name, value in options.items()}
    command = [sys.executable, ROOT / "tools/wheel.py", "--out", out]
    command += [f"--workload={name}" for name in ("getppid1", *COMPILED)]
    subprocess.run(command, env=os.environ | sooner, check=True)
    (found,) = out.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command, installed from the wheel into a new virtual environment with the libraries of this one."""
    venv = tmp_path_factory.mktemp("installed") / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    python = venv / "bin/python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", wheel], check=True)
    (libraries,) = venv.glob("lib/python*/site-packages")
    (libraries / "libraries.pth").write_text(sysconfig.get_path("purelib"))
    return venv / "bin/bigiron"


@pytest.fixture
def no_compiler(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a user whose PATH has all of this machine's programs but compilers."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for folder in ("/usr/bin", "/bin", "/usr/sbin", "/sbin"):
        for program in Path(folder).iterdir():
            if not COMPILERS.fullmatch(program.name) and not (programs / program.name).exists():
                (programs / program.name).symlink_to(program)
    cache = str(tmp_path / "cache")
    kernels = Path(os.environ.get("BIGIRON_CACHE", Path.home() / ".cache/bigiron")) / "kernels"
    Path(cache).mkdir()
    (Path(cache) / "kernels").symlink_to(kernels)
    yield {"PATH": str(programs), "BIGIRON_CACHE": cache, "HOME": str(tmp_path), "LANG": "C.UTF-8"}


def said(command: Path, *arguments: str, env: dict[str, str], cwd: Path) -> str:
    done = subprocess.run(
        [command, *arguments], env=env, cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done
    return done.stdout


@pytest.mark.slow
def test_the_wheel_has_all_that_is_used(wheel: Path) -> None:
    assert f"-manylinux_2_28_{platform.machine()}.whl" in wheel.name
    with zipfile.ZipFile(wheel) as opened:
        names = set(opened.namelist())
    listed = subprocess.run(
        ["git", "ls-files", "-z", "src/bigiron", "guest", "plugin", "bpf", "cases"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    )  # fmt: skip
    moved = {"src/bigiron/": "bigiron/", "cases/": "bigiron/cases/"}
    for file in filter(None, listed.stdout.split("\0")):
        start = next((one for one in moved if file.startswith(one)), "")
        if not (ROOT / file).is_symlink():
            assert moved.get(start, "bigiron/") + file.removeprefix(start) in names, file
    assert {"bigiron/_sim.abi3.so", "bigiron/compiled/index.json"} <= names


@pytest.mark.slow
def test_the_command_needs_no_checkout(installed: Path, no_compiler: dict[str, str], tmp_path: Path) -> None:
    assert said(installed, "--version", env=no_compiler, cwd=tmp_path) == f"bigiron {bigiron.__version__}\n"
    listed = said(installed, "workload", "list", "--format", "csv", env=no_compiler, cwd=tmp_path)
    assert len(listed.splitlines()) == 1 + len(workloads.builtin())
    where = said(installed.with_name("python"), "-c", "import bigiron; print(bigiron.__file__)",
                 env=no_compiler, cwd=tmp_path)  # fmt: skip
    assert where.startswith(str(installed.parent.parent))


@pytest.mark.slow
@pytest.mark.needs_more
def test_the_doctor_misses_no_compiler(installed: Path, no_compiler: dict[str, str], tmp_path: Path) -> None:
    found = said(installed, "doctor", "--report", env=no_compiler, cwd=tmp_path)
    assert re.search(
        r"^limited +gcc: no gcc on PATH; .*built-in workloads come compiled$", found, re.MULTILINE
    )


@pytest.mark.slow
@pytest.mark.needs_more
def test_a_workload_is_run(installed: Path, no_compiler: dict[str, str], tmp_path: Path) -> None:
    asked = ("run", "getppid1", "--kernel", "debian/6.12", "--cpus", "2", "-o", "s")
    assert said(installed, *asked, env=no_compiler, cwd=tmp_path).startswith("1 of 1 cells measured")
    compared = said(installed, "compare", "s", "--probe", "instructions", env=no_compiler, cwd=tmp_path)
    assert "getppid" in compared
    assert not list((tmp_path / "cache/compiled").glob("*.inputs"))  # which compiling leaves


@pytest.mark.slow
@pytest.mark.parametrize("workload", COMPILED)
def test_each_workload_comes_compiled(installed: Path, workload: str, no_compiler: dict[str, str]) -> None:
    script = (
        "import sys; from bigiron import compile, workloads\n"
        f"one = workloads.find({workload!r})\n"
        "print(compile.agent(one, 'gcc', time_slices=not one.has_rounds).read_bytes()[:4])"
    )
    assert (
        said(installed.with_name("python"), "-c", script, env=no_compiler, cwd=Path("/")) == "b'\\x7fELF'\n"
    )
