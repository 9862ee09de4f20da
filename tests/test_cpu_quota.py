"""The quota of CPU time of a real machine's control groups: the least, whichever version they have."""

import doctest
import os
from pathlib import Path

import pytest

from bigiron import doctor
from bigiron.machines.real import cpu_quota, real


def test_the_examples() -> None:
    assert doctest.testmod(cpu_quota).failed == 0


@pytest.mark.parametrize(
    ("own", "files", "quota"),
    [
        ("0::/a/b c\n", {"a/b c/cpu.max": "max 100000", "a/cpu.max": "150000 100000"}, 1.5),
        ("0::/a/b\n", {"a/b/cpu.max": "50000 200000", "a/cpu.max": "100000 100000"}, 0.25),
        # A container sees its own group as the top, by its own name or by that which it has outside.
        ("0::/\n", {"cpu.max": "200000 100000"}, 2.0),
        ("0::/outside\n", {"cpu.max": "200000 100000"}, 2.0),
        ("0::/../other\n", {"cpu.max": "200000 100000"}, 2.0),
        (
            "4:cpuset:/s\n3:cpu,cpuacct:/d\n0::/\n",
            {"cpu/d/cpu.cfs_quota_us": "50000", "cpu/d/cpu.cfs_period_us": "100000"},
            0.5,
        ),
        ("3:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 0.0),
        ("3:cpuset:/\n", {"cpu.max": "1000 100000"}, 0.0),
        ("0::/gone\n", {}, 0.0),
        (None, {"cpu.max": "1000 100000"}, 0.0),
    ],
)
def test_the_least_quota(own: str | None, files: dict[str, str], quota: float, tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / "top" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "top" / name).write_text(f"{text}\n")
    if own is not None:
        (tmp_path / "own").write_text(own)
    said = real.remote_output("", cpu_quota.SCRIPT, str(tmp_path / "own"), str(tmp_path / "top"))
    assert cpu_quota.parse(said) == quota


def test_doctor_says_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own").write_text("0::/\n")
    (tmp_path / "cpu.max").write_text("50000 100000\n")
    monkeypatch.setattr(cpu_quota, "OWN", str(tmp_path / "own"))
    monkeypatch.setattr(cpu_quota, "TOP", str(tmp_path))
    check = doctor._cpus()
    assert check.state == "limited" and check.found.startswith(f"{len(os.sched_getaffinity(0))};")
    assert check.found.endswith("a quota of 0.5 CPUs throttles tasks here") and "cpu.max" in check.advice
