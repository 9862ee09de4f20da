"""Studies of somebody else: nothing in their folder writes elsewhere, steers a terminal or exhausts the host."""

import shutil
from pathlib import Path

import pytest
from conftest import bigiron
from test_import import NEW, OLD, imported

from bigiron.study.store import write_whole


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
