"""What is added in one place: a file that is put there is found, and nothing else has to name it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "src/bigiron"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with one file more of each kind."""
    copy = shutil.copytree(PACKAGE, tmp_path_factory.mktemp("package") / "bigiron", symlinks=False)

    def like(folder: str, file: str, called: str, now: str) -> None:
        text = (copy / folder / file).read_text()
        assert called in text
        (copy / folder / f"mine{Path(file).suffix}").write_text(text.replace(called, now))

    like("workloads", "getppid1.c", "testcase_description", "testcase_description")
    like("probes", "operations.py", 'name="operations"', 'name="mine"')
    like("readers/figures", "hackbench.py", 'Format("hackbench"', 'Format("mine"')
    like("architectures", "ppc64le.py", 'name="ppc64le"', 'name="mine"')
    like("analysis/lines/rules", "mmap_lock.py", "RULE", "RULE")
    return copy


def said(package: Path, program: str) -> str:
    """What a program prints that imports the copy."""
    return subprocess.run(
        [sys.executable, "-P", "-c", program],
        env=os.environ | {"PYTHONPATH": str(package.parent)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


@pytest.mark.parametrize(
    "names",
    [
        "from bigiron import workloads; names = workloads.names()",
        "from bigiron import probes; names = [one.name for one in probes.probes()]",
        "from bigiron import readers; names = [one.name for one in readers.formats()]",
        "from bigiron import architectures; names = [one.name for one in architectures.architectures()]",
    ],
    ids=["workload", "probe", "format to import", "architecture"],
)
def test_one_file_is_enough(package: Path, names: str) -> None:
    assert said(package, f"{names}\nprint('mine' in names)") == "True\n"


def test_one_rule_of_explain_is_one_file(package: Path) -> None:
    count = "from bigiron.analysis.lines import rules; print(len(rules.rules()))"
    others = len(list((PACKAGE / "analysis/lines/rules").glob("*.py"))) - 2  # __init__ and rule
    assert said(package, count) == f"{others + 1}\n"


@pytest.mark.parametrize(("command", "module"), [("check", "gate"), ("knee", "knee"), ("judge", "reply")])
def test_a_format_to_print_is_one_entry_of_its_report_s_table(
    package: Path, command: str, module: str
) -> None:
    program = (
        "import os, sys; os.environ['COLUMNS'] = '200'; "
        f"from bigiron.report import {module}; {module}.FORMATS['mine'] = None; "
        f"sys.argv = ['bigiron', '{command}', '--help']; from bigiron.cli import main; main()"
    )
    assert "|mine>" in said(package, program)


def test_the_command_offers_them(package: Path) -> None:
    program = "import sys; sys.argv = ['bigiron', {}]; from bigiron.cli import main; main()"
    assert "\nmine " in said(package, program.format("'workload', 'list'"))
    assert "mine," in said(package, program.format("'run', '--help'"))
