"""Whether KVM boots a kernel here is tried once per boot of the host, by the first command that needs it."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bigiron import kernels
from bigiron.kernels import Kernel
from bigiron.machines.vm import kvm


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A QEMU that notes each of its starts and boots nothing, a /dev/kvm, a cache with a kernel."""
    kernel = kernels.find("debian/6.1", "x86_64")
    monkeypatch.setenv("BIGIRON_CACHE", str(tmp_path / "cache"))
    kernels.add(kernel.image, "k")
    qemu = tmp_path / "qemu-system-x86_64"
    qemu.write_text(
        '#!/bin/sh\ncase "$*" in *version*) echo QEMU emulator version 10.0.2;;\n'
        f"*) echo started >> {tmp_path}/starts; exit 1;; esac\n"
    )
    qemu.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for name in ("device", "boot_id"):
        (tmp_path / name).write_text("1")
    monkeypatch.setattr(kvm, "DEVICE", tmp_path / "device")
    monkeypatch.setattr(kvm, "_BOOT_ID", tmp_path / "boot_id")
    kvm.trial.cache_clear()
    yield tmp_path / "starts"
    kvm.trial.cache_clear()


def cache() -> Path:
    return Path(os.environ["BIGIRON_CACHE"])


def asked_again() -> kvm.Trial:
    kvm.trial.cache_clear()  # as by another process
    return kvm.trial()


def test_it_is_tried_once_a_boot_of_the_host(starts: Path, tmp_path: Path) -> None:
    first = asked_again()
    assert not first.works and asked_again() == first
    assert not kvm.works_for("x86_64")
    assert starts.read_text().count("started") == 1
    (tmp_path / "boot_id").write_text("2")
    assert asked_again() == first
    assert starts.read_text().count("started") == 2
    # doctor tries whatever came of it before, and what comes of it is remembered.
    kvm.try_again()
    assert asked_again() == first
    assert starts.read_text().count("started") == 3


def test_a_trial_that_cannot_be_read_is_made_again(starts: Path) -> None:
    asked_again()
    for number, damaged in enumerate((b"{", b'{"of":"","trial":{"works":true,"why":"\xff"}}', b"[]")):
        (cache() / "kvm/trial").write_bytes(damaged)
        asked_again()
        assert starts.read_text().count("started") == number + 2


def test_another_kernel_is_tried_too(starts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, here = asked_again(), os.environ["BIGIRON_CACHE"]
    monkeypatch.delenv("BIGIRON_CACHE")
    other = kernels.find("debian/6.12", "x86_64").image
    monkeypatch.setenv("BIGIRON_CACHE", here)
    kernels.add(other, "l")
    assert first.why.startswith("k: ") and asked_again().why.startswith("l: ")
    assert starts.read_text().count("started") == 2


def test_the_newest_of_debian_s_kernels_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """6.12 is newer than 6.6, whatever the order of their names."""
    arch = os.uname().machine
    known = [
        Kernel(name, f"{release}-cloud-amd64", "", arch, Path("vmlinuz"), "", "")
        for name, release in [("debian/6.6", "6.6.9"), ("debian/6.12", "6.12.3"), ("own", "7.2.0")]
    ]
    monkeypatch.setattr(kernels, "installed", lambda: known)
    assert kvm._kernel() == known[1]


def test_a_cache_that_cannot_be_used_is_no_failure(starts: Path) -> None:
    (cache() / "kvm").write_text("no folder")
    assert not asked_again().works and not starts.exists()


def test_what_is_no_trial_is_not_remembered(starts: Path, tmp_path: Path) -> None:
    (tmp_path / "device").unlink()
    assert asked_again() == kvm.Trial(False, f"no {tmp_path}/device")
    (tmp_path / "device").touch()
    asked_again()
    assert starts.read_text().count("started") == 1


def test_another_architecture_s_machines_are_emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kvm, "trial", lambda: kvm.Trial(True, ""))
    assert kvm.works_for(os.uname().machine) and not kvm.works_for("ppc64le")
