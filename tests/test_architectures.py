"""An architecture is one record: code that depends on what differs reads it there."""

from pathlib import Path

import pytest

from bigiron import architectures
from bigiron.architectures import Architecture, architecture, known_arch
from bigiron.kernels import builder, image, installed
from bigiron.kernels.archives import debian
from bigiron.machines.vm import qemu

SOURCES = Path(architectures.__file__).parents[1]
TOLD_NONE = ("kernels", "introspect", "machines", "probes", "analysis")


@pytest.mark.parametrize("one", architectures.architectures(), ids=lambda one: one.name)
def test_every_room_knows_it(one: Architecture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BIGIRON_CACHE", str(tmp_path))
    assert known_arch(one.name) == known_arch(one.debian) == one.name
    assert architecture(one.name) is one
    assert image._ELF_MACHINES[one.elf_machine] == one.name
    assert qemu._PACKAGES[one.qemu] == one.qemu_package
    assert debian.flavour_of("6.1", one.name) == one.flavours[0]
    assert f"CROSS_COMPILE={one.tools}" in builder._Make(tmp_path, one, lock=0)._command
    assert one.start_of("struct page") > one.kernel_start
    assert installed() == []


def test_no_other_room_names_one() -> None:
    """But in commands' defaults, examples and what doctor asks of this machine."""
    files = [file for room in TOLD_NONE for file in (SOURCES / room).rglob("*.py")]
    for file in files:
        lines = file.read_text().split("\n")
        named = [line for line in lines if '"ppc64le"' in line or "powerpc64le" in line]
        assert not named, (file, named)
