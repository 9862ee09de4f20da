"""The page about which of the robot's mails are mapped."""

import sys

import msgspec
from test_setup import ROOT

sys.path.insert(0, str(ROOT / "benchmarks/regressions"))
import mail_coverage
from mail_coverage import Family

FAMILIES = [
    Family("stress-ng", 10, "msg cpu-online", example="msg"),
    Family("will-it-scale", 4, "open1 lseek1 no-such1", example="open1"),
    Family("pts", 2, ""),
]


def row(benchmark: str, machine: str = "") -> dict[str, str]:
    return {"id": "1", "benchmark and parameters": benchmark, "machine": machine}


def test_a_family_counts_in_the_proportion_of_its_tests() -> None:
    page = mail_coverage.page(FAMILIES, [row("stress-ng msg, 100% = 8"), row("a loop")], {})
    assert "| stress-ng | 10 | 1 of 2 | 5.0 | msg: `stress-ng " in page
    assert "| will-it-scale | 4 | 2 of 3 | 2.7 | open1: `open1` | no |" in page
    assert "| pts | 2 | 0 of 1 | 0.0 | none |  |" in page
    assert "**8 of 161 reports, 5%, are mapped.**" in page
    assert "1 of 2 reports whose benchmark is published are mapped." in page
    assert "| stress-ng | cpu-online | stress-ng's TEST does not run here: it takes CPUs" in page


def test_a_published_report_names_its_test_somewhere() -> None:
    found = mail_coverage.of_row(row("will-it-scale lseek1_threads; others"), FAMILIES)
    assert found.runs == "`lseek1` in thread mode"
    assert mail_coverage.of_row(row("will-it-scale threads", "8 CPUs; open1"), FAMILIES).test == "open1"
    assert mail_coverage.of_row(row("(not told)"), FAMILIES).refused == mail_coverage.OWN


def test_the_list_of_families_is_read() -> None:
    listed = msgspec.toml.decode(
        (ROOT / "benchmarks/regressions/mail_families.toml").read_bytes(), type=mail_coverage.Families
    ).family
    assert sum(one.reports for one in listed) <= mail_coverage.ALL_REPORTS
    assert all(one.example in one.tests.split() for one in listed if one.example)
    assert "testcase: netperf" in mail_coverage.mail(next(one for one in listed if one.name == "netperf"))
