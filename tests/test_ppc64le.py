"""The recorder on ppc64le: other calls, entries and page tables, lines of 128 bytes."""

import re
from pathlib import Path

import polars as pl
import pytest
from conftest import WORKLOADS, compared, measured, says
from executed import exact_instructions, mostly_process

POWER = ("--arch", "ppc64le", "--kernel")


@pytest.fixture(scope="module")
def open1_on_power(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """open1 on Debian's 6.1, which has no BTF, with 4 CPUs."""
    study = tmp_path_factory.mktemp("ppc64le") / "open1"
    measured("open1", *POWER, "debian/6.1", "--cpus", "4", "--probe", "conflicts,instructions", "-o", study)
    return study


def test_apparmor_s_label_is_written_as_often_as_on_x86_64(open1_on_power: Path) -> None:
    row = compared(open1_on_power)["rows"][0]
    assert {"apparmor_file_alloc_security", "apparmor_file_free_security"} <= set(row["functions"])
    assert row["cells"]["debian/6.1"]["writes_per_op"] == pytest.approx(6, abs=0.001)


def test_a_kernel_without_types_says_so(open1_on_power: Path) -> None:
    row = compared(open1_on_power)["rows"][0]
    assert row["object"] == "page or slab object: the kernel has no CONFIG_DEBUG_INFO_BTF"


def test_what_an_operation_executes_is_exact(open1_on_power: Path) -> None:
    """On the way from openat to its file there is no clock; what interrupts do is no operation's.

    Of functions without an atomic, which is a loop there and goes round again if another CPU came between.
    """
    functions = ("sys_openat", "do_sys_openat2", "build_open_flags", "do_filp_open", "vfs_open")
    table = exact_instructions(open1_on_power, 4 * 500, functions)
    late = pl.concat_str("path", "function", separator=";").str.contains("timer_interrupt|irq_exit|__do_irq")
    assert table.filter(late & (pl.col("context") == "process")).is_empty()


@pytest.mark.parametrize("kernel", ["debian/6.1", "debian/6.12"])
def test_the_first_steps_of_a_child_are_its_own(kernel: str, tmp_path: Path) -> None:
    study = tmp_path / "s"
    few = ("--cpus", "2", "--operations", "100", "--probe", "instructions")
    measured("unixbench/spawn", *POWER, kernel, *few, "-o", study)
    assert mostly_process(study, "schedule_tail")


def test_objects_have_names(tmp_path: Path) -> None:
    """By page tables of another format, from memory with pages of 4 KiB in this kernel."""
    study = tmp_path / "s"
    measured(
        "unlink1",
        *POWER,
        "debian/6.12",
        "--cpus",
        "2",
        "--operations",
        "200",
        "--probe",
        "conflicts",
        "-o",
        study,
    )
    names = [row["object"] for row in compared(study)["rows"]]
    # Which field of a line is the hottest differs.
    for name in (
        r"struct dentry\.d_lockref\.\w+ \(tmpfs directory\)",
        r"struct inode\.i_\w+(\.\w+)? \(tmpfs directory\)",
        r"struct shmem_sb_info\.\w+",
        r"struct aa_label\.\w+(\.\w+)?",
    ):
        assert any(re.fullmatch(name, found) for found in names), (name, names)
    # Memory that only the boot needed is given back: what lies there now has no symbol.
    assert not [found for found in names if "__rela_dyn" in found or "__init" in found]


def test_what_lies_64_bytes_apart_shares_a_line_of_128(tmp_path: Path) -> None:
    neighbours = ("--workload-file", WORKLOADS / "neighbours.c", "--set", says(64))
    measured(*neighbours, *POWER, "debian/6.12", "--cpus", "2", "--probe", "conflicts", "-o", tmp_path / "s")
    (line,) = [row for row in compared(tmp_path / "s")["rows"] if row["object"].startswith("page cache")]
    assert [kind["kind"] for kind in line["sharing"]] == ["false sharing"]
    assert set(line["offsets"]["debian/6.12"].values()) == {"0-7", "64-71"}


def test_counters_in_user_memory(tmp_path: Path) -> None:
    for workload, shared in (("counters_packed", ["user:counters+0x0"]), ("counters_padded", [])):
        study = tmp_path / workload
        measured(
            workload,
            *POWER,
            "debian/6.1",
            "--scope",
            "user",
            "--cpus",
            "2",
            "--probe",
            "conflicts",
            "-o",
            study,
        )
        assert [row["object"] for row in compared(study)["rows"]] == shared
