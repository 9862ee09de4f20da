"""Instructions that fill memory, in a machine: each fill is counted, whatever filled there before."""

from pathlib import Path

import polars as pl
from conftest import WORKLOADS, measured

import bigiron

OPERATIONS = 50


def test_a_shorter_fill_up_to_the_same_end_is_counted_too(tmp_path: Path) -> None:
    """Debian's 6.1 fills with rep stosb, 6.12 does not."""
    truncate = ("--workload-file", WORKLOADS / "truncate.c", "--operations", str(OPERATIONS))
    measured(*truncate, "--kernel", "debian/6.1", "--cpus", "2", "--probe", "conflicts", "-o", tmp_path / "s")
    study = bigiron.open_study(tmp_path / "s")
    (record,) = study.records()
    writes = (
        study.table(record, "conflicts")
        .filter(pl.col("function").str.starts_with("memset"), context="process")
        .group_by("cpu", at=pl.col("line") % 4096)
        .agg(pl.col("writes").sum())
    )
    whole = {(cpu, at): OPERATIONS * (1 + (at >= 2048)) for cpu in (0, 1) for at in range(64, 4096, 64)}
    assert {(cpu, at): times for cpu, at, times in writes.iter_rows()} == whole
    assert not record.lost
