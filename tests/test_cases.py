"""Published regressions, reproduced: the quick study of a case on real kernels, and the report it makes."""

from pathlib import Path

import pytest
from conftest import bigiron

from bigiron.cases import cases, find
from bigiron.cases.case import Published
from bigiron.errors import UserError
from bigiron.study import spec as specs


@pytest.mark.slow
def test_hotplug_debugfs(tmp_path: Path) -> None:
    study = tmp_path / "s"
    answer = bigiron("case", "hotplug-debugfs", "--quick", "-o", study)
    assert answer.status == 0, answer
    text = " ".join(answer.out.split())
    assert "published 2.79 s here" in text
    assert "published 47% of the time at 1920 here" in text
    for claim in ("The files are rebuilt at every CPU that goes", "Files made on demand"):
        assert f"agrees: {claim}" in text, text
    assert "does not agree: debugfs is 1600 times slower" in text
    assert "the mail's own table gives 17.0 times" in text
    assert "predicted at 1920" in (study / "report.md").read_text()
    again = bigiron("case", "hotplug-debugfs", "--quick", "-o", study)
    assert "every cell" in again.out and again.out.count("published") == answer.out.count("published")


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_what_a_case_brings(case: object) -> None:
    found = find(getattr(case, "name", ""))
    for quick in (False, True):
        assert specs.read(found.spec_file(quick)).variant
    assert (found.folder / "README.md").read_text().startswith(f"# {found.name}\n")


def test_published_figures_are_read() -> None:
    published = Published(find("hotplug-debugfs").folder / "published.csv")
    assert published.value("smt_off_1920_cpus", "v5.11", "real") == 1762.007


def test_an_unknown_case() -> None:
    with pytest.raises(UserError, match="no case 'hotplug': there is hotplug-debugfs"):
        find("hotplug")
