"""The C modules of the recorder and of the agent include no module in a circle, and no room above."""

import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

TOP = Path(__file__).parents[1]
PAGE = TOP / "docs/contributing/architecture.md"


def includes(folder: Path) -> Iterator[tuple[Path, Path]]:
    """Each source of a folder with each header that it includes."""
    for source in sorted(folder.rglob("*.[ch]")):
        for name in re.findall(r'^#include "(.+)"', source.read_text(), re.MULTILINE):
            paths = ((start / name).resolve() for start in (source.parent, folder))
            yield source, next(path for path in paths if path.exists())


def circle(folder: Path) -> list[str]:
    """The modules of a circle; [] where there is none. A module is a .c file, its header, or both."""
    graph: dict[Path, set[Path]] = {}
    for source, header in includes(folder):
        module, included = source.with_suffix(""), header.with_suffix("")
        graph.setdefault(module, set()).update({included} - {module})
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return [module.name for module in error.args[1]]
    return []


def upward(folder: Path, rooms: list[str]) -> list[str]:
    """The includes of a room above, or of one that is not listed. The rooms are listed from the top."""
    found = []
    for source, header in includes(folder):
        if header.is_relative_to(folder):
            of, from_ = (path.relative_to(folder).parts[0] for path in (source, header))
            if {of, from_} - {*rooms} or rooms.index(from_) < rooms.index(of):
                found.append(f"{source.relative_to(folder)} includes {header.relative_to(folder)}")
    return found


def rooms_of(folder: str) -> list[str]:
    """The rooms of a folder as the page lists them, from the top."""
    listed = re.search(rf"<!-- rooms of {folder}/: .*?-->\n```\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert listed
    return [line.split()[0].rstrip("/") for line in listed[1].splitlines()]


@pytest.mark.parametrize("folder", ["plugin", "guest"])
def test_includes_have_no_circle(folder: str) -> None:
    assert circle(TOP / folder) == []


@pytest.mark.parametrize("folder", ["guest", "plugin"])
def test_rooms_include_those_below_them(folder: str) -> None:
    rooms = rooms_of(folder)
    assert sorted(rooms) == sorted(path.name for path in (TOP / folder).iterdir())
    assert upward(TOP / folder, rooms) == []


def test_a_circle_is_found(tmp_path: Path) -> None:
    """No header need be in it twice: a.c uses b.h, and b.c uses a.h."""
    for one, other in ("ab", "ba"):
        (tmp_path / f"{one}.h").write_text("")
        (tmp_path / f"{one}.c").write_text(f'#include "{one}.h"\n#include "{other}.h"\n')
    assert sorted(set(circle(tmp_path))) == ["a", "b"]


def test_an_include_of_a_room_above_is_found(tmp_path: Path) -> None:
    for room, header in (("top", "low/low.h"), ("low", "top/top.h")):
        (tmp_path / room).mkdir()
        (tmp_path / room / f"{room}.h").write_text(f'#include "{header}"\n')
    assert upward(tmp_path, ["top", "low"]) == ["low/low.h includes top/top.h"]
