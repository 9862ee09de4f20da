"""`bigiron demo`: the README's main job in one command."""

from pathlib import Path

import pytest
from conftest import bigiron


def test_without_qemu_nothing_is_fetched(tmp_path: Path) -> None:
    answer = bigiron("demo", "-o", tmp_path / "s", PATH=str(tmp_path), BIGIRON_CACHE=str(tmp_path / "cache"))
    assert answer.status == 2
    assert answer.complaint.startswith("no qemu-system-x86_64 on PATH: ")
    assert answer.out == "" and not (tmp_path / "s").exists()


@pytest.mark.needs_more
def test_the_main_job(tmp_path: Path) -> None:
    answer = bigiron("demo", "--cpus", "2", "-o", tmp_path / "s")
    assert answer.status == 0, answer
    assert "debian/6.1: Linux 6.1." in answer.out and "debian/6.12: Linux 6.12." in answer.out
    (label,) = (line.split() for line in answer.out.splitlines() if "aa_label" in line)
    assert (label[0], label[-1]) == ("*", "-4.000")
    assert f"bigiron explain {tmp_path / 's'}" in answer.out
