"""Studies of other people: their folder writes nothing elsewhere, steers no terminal, exhausts no host."""

import hashlib
import json
import re
import shutil
from pathlib import Path

import msgspec
import polars as pl
import pytest
from conftest import bigiron
from test_import import NEW, OLD, imported

from bigiron import cli, readers
from bigiron.commands.common.complaints import complain
from bigiron.errors import UserError
from bigiron.readers import Figure, Reading
from bigiron.study.extend import first_difference
from bigiron.study.imported import ImportedSource, add
from bigiron.study.reproduce import study_file
from bigiron.study.spec import Spec, Variant
from bigiron.study.store import open_study
from bigiron.util.cache_dir import write_whole


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """A study of imported figures."""
    imported("will-it-scale", OLD, tmp_path / "s", "old")
    return tmp_path / "s"


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """A folder of the user with one file."""
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious/file").write_text("precious")
    return tmp_path / "precious"


def untouched(folder: Path) -> bool:
    return [file.name for file in folder.iterdir()] == ["file"] and (
        (folder / "file").read_text() == "precious"
    )


def test_links_in_a_study_are_not_written_through(study: Path, precious: Path) -> None:
    (study / ".study.toml").symlink_to(precious / "file")
    (study / "cells/.new-x").symlink_to(precious)
    (study / "cells/.new-y").mkdir()
    (study / "cells/.new-y/documents").symlink_to(precious)
    assert imported("will-it-scale", NEW, study, "new") == 2
    assert untouched(precious)
    names = sorted(cell.name for cell in (study / "cells").iterdir())
    assert names == [f"{name}-2cpus-{tasks}tasks-r1" for name in ("new", "old") for tasks in (1, 2)]
    write_whole(study / "study.toml", b"new")
    assert (study / "study.toml").read_bytes() == b"new" and untouched(precious)


@pytest.mark.parametrize(
    ("link", "said"),
    [(".lock", "Too many levels of symbolic links (S/.lock)"),
     ("cells", "S/cells is a symbolic link: the cells of a study must be in its own folder")],
)  # fmt: skip
def test_a_study_with_its_lock_or_cells_elsewhere_is_not_extended(
    link: str, said: str, study: Path, precious: Path
) -> None:
    if link == "cells":
        shutil.rmtree(study / link)
    else:
        (study / link).unlink()
    (study / link).symlink_to(precious / "file" if link == ".lock" else precious)
    answer = bigiron("import", "will-it-scale", NEW, "--variant", "new", "-o", study)
    assert (answer.status, answer.complaint) == (2, said.replace("S/", f"{study}/"))
    assert untouched(precious)


def test_variants_whose_cells_would_be_the_same_are_refused(tmp_path: Path) -> None:
    imported("will-it-scale", OLD, tmp_path / "s", "linux 6.1")
    before = (tmp_path / "s/study.toml").read_bytes()
    with pytest.raises(UserError, match=r"variants need different names: linux 6\.1, linux-6\.1"):
        imported("will-it-scale", NEW, tmp_path / "s", "linux-6.1")
    assert (tmp_path / "s/study.toml").read_bytes() == before


@pytest.mark.parametrize(("key", "other"), [("variant", '"new"'), ("tasks", "2"), ("repetition", "2")])
def test_a_record_of_another_cell_is_damaged(key: str, other: str, study: Path) -> None:
    file = study / "cells/old-2cpus-1tasks-r1/cell.json"
    file.write_text(re.sub(rf'"{key}": [^,]+,', f'"{key}": {other},', file.read_text()))
    answer = bigiron("compare", study)
    assert answer.status == 2 and "is damaged (cell.json belongs to another cell)" in answer.complaint


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [("repetitions = 1\n", "repetitions = 2000000000\n", "4,000,000,000 cells are more than the 1,000,000"),
     ("cpus = [\n    2,\n", "cpus = [\n    2000000000,\n", "cpus = 2000000000: use whole numbers up to")],
)  # fmt: skip
def test_a_study_too_large_to_list_is_refused(old: str, new: str, complaint: str, study: Path) -> None:
    text = (study / "study.toml").read_text()
    assert old in text
    (study / "study.toml").write_text(text.replace(old, new))
    with pytest.raises(UserError, match=complaint):
        open_study(study)


def test_figures_with_too_many_runs_are_refused(tmp_path: Path) -> None:
    reading = Reading([Figure("m", "s", "less", 1.0, tasks=1, run=2_000_000_000)])
    with pytest.raises(UserError, match="2,000,000,000 cells are more than"):
        add(ImportedSource(readers.find("will-it-scale"), "a.csv", "0", reading), tmp_path / "s",
            variant=None, workload="w", cpus=1, tasks=None)  # fmt: skip
    assert not (tmp_path / "s").exists()


HOSTILE = "x \x1b]0;owned\x07 \x9b31m \u202e"


def test_a_foreign_command_does_not_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    variant = [Variant(name="a")]
    ours, foreign = Spec(command="y", variant=variant), Spec(command=HOSTILE, variant=variant)
    assert first_difference(foreign, ours).isprintable()
    complain(HOSTILE, 2)
    assert capsys.readouterr().err.strip().isprintable()


def test_a_report_of_a_foreign_study_is_printable(study: Path) -> None:
    opened = open_study(study)
    opened.spec = msgspec.structs.replace(opened.spec, command=HOSTILE)
    content = study_file(opened)
    assert content.replace("\n", "").isprintable()
    assert msgspec.toml.decode(content)["command"] == HOSTILE


def test_a_bug_is_not_taken_for_a_regression(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def command(**_given: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(cli, "app", command)
    with pytest.raises(SystemExit) as end:
        cli.main()
    said = capsys.readouterr().err
    assert end.value.code == 2 and "Traceback" in said
    assert said.splitlines()[-1].startswith("bigiron: this is a bug of bigiron (ZeroDivisionError)")


def test_a_cpu_that_no_machine_has(study: Path) -> None:
    """A set of CPUs is a number with as many bits as the highest: 2^28 of them took 451 MiB."""
    cell = next((study / "cells").iterdir())
    record = json.loads((cell / "cell.json").read_text())
    (probe,) = record["tables"]
    table = record["tables"][probe]
    rows = pl.read_parquet(cell / table["file"])
    rows.with_columns(cpu=pl.lit(1 << 31, pl.UInt32)).write_parquet(cell / table["file"])
    table["sha256"] = hashlib.sha256((cell / table["file"]).read_bytes()).hexdigest()
    (cell / "cell.json").write_text(json.dumps(record))
    answer = bigiron("compare", study)
    assert answer.status == 2 and "counts of a CPU that no machine has" in answer.err
