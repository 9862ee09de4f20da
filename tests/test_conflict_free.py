"""What is recorded is what the workload does, all of it, and nothing else: workloads whose truth is known."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import WORKLOADS, compared, measured, says

import bigiron
from bigiron.analysis.lines import conflicts
from bigiron.analysis.lines.sharing import FALSE_SHARING

KERNELS = ("debian/6.1", "debian/6.12")
ON_BOTH = [word for kernel in KERNELS for word in ("--kernel", kernel)]
NEGLIGIBLE = 0.05  # accesses per operation

# Neither the clock, nor the interrupt controller, nor the console, nor how the agent waits for the tasks.
ARTEFACTS = "hpet|apic_mem|acpi_pm|clocksource|tsc_refine|serial|uart|console|printk|nanosleep"


@pytest.mark.parametrize("workload", ["dup1", "lseek1", "eventfd1", "pipe1"])
def test_what_shares_nothing_shows_nothing(workload: str, tmp_path: Path) -> None:
    measured(workload, *ON_BOTH, "--cpus", "2", "--probe", "conflicts", "-o", tmp_path / "s")
    for row in compared(tmp_path / "s")["rows"]:
        assert all(cell["accesses_per_op"] <= NEGLIGIBLE for cell in row["cells"].values()), row


def test_the_machine_and_the_harness_do_not_show(tmp_path: Path) -> None:
    # Without x2APIC each interrupt is acknowledged by a store to one address that all CPUs use; and the agent
    # looks at the tasks many times during so many operations.
    options = ("--cpus", "2", "--boot", "nox2apic", "--operations", "20000")
    measured("getppid1", *ON_BOTH, *options, "--probe", "conflicts", "-o", tmp_path / "s")
    assert compared(tmp_path / "s", "--context", "all")["rows"], "interrupts share something"
    study = bigiron.open_study(tmp_path / "s")
    for record in study.records():
        touched = study.table(record, "conflicts").with_columns(accesses=pl.col("reads") + pl.col("writes"))
        shared = touched.filter(
            (pl.col("cpu").n_unique() > 1).over("line"), (pl.col("writes").sum() > 0).over("line")
        )
        # The tick has a task do it on its way back to user mode, also where that ends a system call.
        by_the_tick = touched.filter(pl.col("function") == "task_mm_cid_work")
        assert set(by_the_tick["context"]) <= {"interrupt"}
        # A look at a line that is busy anyway is none of its business: in one boot of some thirty, the kernel
        # finds that the console needs a timer, which reads jiffies five times per second.
        by_artefacts = shared.filter(
            pl.col("function").str.contains(ARTEFACTS),
            pl.col("accesses").sum().over("line", "function") > 0.01 * pl.col("accesses").sum().over("line"),
        )
        assert by_artefacts.is_empty(), by_artefacts
    for row in compared(tmp_path / "s")["rows"]:
        assert all(cell["accesses_per_op"] <= NEGLIGIBLE for cell in row["cells"].values()), row


def test_a_reference_count_is_written_as_often_as_the_source_says(tmp_path: Path) -> None:
    source = WORKLOADS / "inherited_file.c"
    measured("--workload-file", source, *ON_BOTH, "--cpus", "2", "--probe", "conflicts", "-o", tmp_path / "s")
    written = [row for row in compared(tmp_path / "s")["rows"] if row["functions"] and heaviest(row) > 0.5]
    for kernel in KERNELS:
        (count,) = [row["cells"][kernel] for row in written if kernel in row["cells"]]
        assert count["writes_per_op"] == pytest.approx(2, abs=0.01)
        assert (count["writers"], count["readers"]) == (2, 2)


def test_a_task_that_runs_in_the_agents_place_is_counted(tmp_path: Path) -> None:
    # The agent has 20 ms of each second, and spends them before it has said who it is.
    rarely = ("--set", "/proc/sys/kernel/sched_rt_runtime_us=20000")
    measured(
        "open1",
        "--kernel",
        "debian/6.1",
        "--cpus",
        "2",
        *rarely,
        "--probe",
        "conflicts",
        "-o",
        tmp_path / "s",
    )
    count = max(compared(tmp_path / "s")["rows"], key=heaviest)["cells"]["debian/6.1"]
    assert count["writes_per_op"] == pytest.approx(6, abs=0.01)
    assert (count["writers"], count["readers"]) == (2, 2)


def heaviest(row: dict[str, Any]) -> float:
    return max(cell["accesses_per_op"] for cell in row["cells"].values())


def test_threads_share_their_table_of_files(tmp_path: Path) -> None:
    measured(
        "dup1",
        "--mode",
        "thread",
        "--kernel",
        "debian/6.12",
        "--cpus",
        "2",
        "--probe",
        "conflicts",
        "-o",
        tmp_path / "s",
    )
    shared = max(compared(tmp_path / "s")["rows"], key=heaviest)
    assert {"alloc_fd", "_raw_spin_lock", "_raw_spin_unlock"} <= set(shared["functions"])
    # dup() takes and releases file_lock, and so does close().
    assert shared["cells"]["debian/6.12"]["writes_per_op"] >= 4


NEIGHBOURS = """
workload = ""
workload_file = "{source}"
probes = ["conflicts"]
cpus = [2]
most_boots = 1
"""
VARIANT = """
[[variant]]
name = "distance {distance}"
kernel = "debian/6.12"
set = ["{setting}"]
"""


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> dict[int, list[dict[str, Any]]]:
    """The shared cache lines that the kernel's copies wrote, by the distance of the tasks' bytes."""
    folder = tmp_path_factory.mktemp("neighbours")
    distances = (0, 8, 64)
    question = NEIGHBOURS.format(source=WORKLOADS / "neighbours.c")
    question += "".join(VARIANT.format(distance=distance, setting=says(distance)) for distance in distances)
    (folder / "neighbours.toml").write_text(question)
    measured(folder / "neighbours.toml", "--reps", "1", "-o", folder / "s")
    study = bigiron.open_study(folder / "s")
    return {
        distance: [
            line
            for line in conflicts.profile(study.table(record, "conflicts"), 2 * 500, 64).iter_rows(named=True)
            if line["functions"] == ["copy_page_from_iter_atomic"]
        ]
        for distance, record in zip(distances, study.records(), strict=True)
    }


def test_the_same_bytes_are_no_false_sharing(copied: dict[int, list[dict[str, Any]]]) -> None:
    (line,) = copied[0]
    assert not line["false_sharing"] and line["offsets"] == []
    assert (line["writers"], line["writes_per_op"]) == (2, 1)


def test_different_bytes_of_a_line_are_false_sharing(copied: dict[int, list[dict[str, Any]]]) -> None:
    (line,) = copied[8]
    assert line["false_sharing"] and line["sharing"] == [FALSE_SHARING]
    assert sorted(touched["bytes"] for touched in line["offsets"]) == ["0-7", "8-15"]
    assert (line["writers"], line["writes_per_op"]) == (2, 1)


def test_neighbouring_lines_are_not_shared(copied: dict[int, list[dict[str, Any]]]) -> None:
    assert copied[64] == []
