"""In what a workload differs from the report's benchmark: true of the report, and of its suite."""

import pytest

from bigiron.workloads import registry
from bigiron.workloads.of_benchmark import workload_of

FSMARK = {
    "iterations": "1x",
    "nr_threads": "32t",
    "filesize": "16MB",
    "test_size": "60G",
    "sync_method": "NoSync",
    "nr_directories": "16d",
    "nr_files_per_directory": "256fpd",
}


@pytest.mark.parametrize(
    ("changed", "differs"),
    [
        ({}, ("files of 8KB instead of 16MB", "1,024 files for each task instead of 120")),
        ({"filesize": "8K", "test_size": "400M"}, ("1,024 files for each task instead of 1,600",)),
        ({"filesize": "8K", "test_size": "256M"}, ()),
        ({"filesize": "8K", "nr_threads": "100%"}, ("1,024 files for each task",)),
        (
            {"filesize": "4K", "test_size": "40M", "nr_threads": "1t", "nr_files_per_directory": "1fpd"},
            (
                "files of 8KB instead of 4KB",
                "1,024 files for each task instead of 10,240",
                "256 files per directory instead of 1",
            ),
        ),
    ],
)
def test_files_of_fsmark_are_counted_as_the_robot_does(
    changed: dict[str, str], differs: tuple[str, ...]
) -> None:
    found = workload_of("fsmark", FSMARK | changed)
    assert (found.workload, found.differs) == ("fsmark/NoSync", differs)


def test_files_of_postmark_are_the_report_s() -> None:
    here = "256 files in 25 directories for each task"
    given = {"number": "4000n", "trans": "10000s", "subdirs": "100d"}
    assert workload_of("postmark", given).differs == (f"{here} instead of 4,000 in 100",)
    assert workload_of("postmark", {}).differs == (here,)


@pytest.mark.parametrize(
    ("suite", "test", "differs"),
    [
        ("aim7", "disk_wrt", ()),
        ("aim7", "sync_disk_rw", ("files of 1 MiB instead of 512 KiB",)),
        ("aim9", "disk_cp", ("files of 1 MiB instead of 5 MiB",)),
        ("reaim", "disk_rd", ("files of 1 MiB instead of 10 KiB",)),
        ("aim9", "disk_src", ()),
        ("aim9", "tcp_test", ("messages of 1 to 4,096 bytes instead of 1 to 2,048",)),
        ("reaim", "tcp_test", ()),
        ("aim7", "exec_test", ("a program without a dynamic linker instead of a shell script",)),
    ],
)
def test_a_workload_of_three_suites_differs_from_each_in_its_own_way(
    suite: str, test: str, differs: tuple[str, ...]
) -> None:
    assert workload_of(suite, {"test": test, "load": "1500"}).differs == differs


def test_every_case_of_vm_scalability_says_how_small_it_is() -> None:
    cases = [one for one in registry.builtin() if one.name.startswith("vm-scalability/")]
    assert len(cases) > 20 and all(one.differs for one in cases)
    remapped = workload_of("vm-scalability", {"test": "mremap-xread-rand-mt"})
    assert remapped.differs == ("no mremap() that enlarges the mapping", "a file of 16 MiB, again and again")
