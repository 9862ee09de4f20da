"""The C modules of the recorder and of the agent include each other without a circle."""

import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

TOP = Path(__file__).parents[1]


def circle(room: Path) -> list[str]:
    """The modules of a circle; [] where there is none. A module is a .c file, its header, or both."""
    graph: dict[Path, set[Path]] = {}
    for source in sorted(room.rglob("*.[ch]")):
        module = source.with_suffix("")
        for name in re.findall(r'^#include "(.+)"', source.read_text(), re.MULTILINE):
            paths = ((folder / name).resolve() for folder in (source.parent, room))
            included = next(path for path in paths if path.exists()).with_suffix("")
            graph.setdefault(module, set()).update({included} - {module})
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return [module.name for module in error.args[1]]
    return []


@pytest.mark.parametrize("room", ["plugin", "guest"])
def test_includes_have_no_circle(room: str) -> None:
    assert circle(TOP / room) == []


def test_a_circle_is_found(tmp_path: Path) -> None:
    """No header need be in it twice: a.c uses b.h, and b.c uses a.h."""
    for one, other in ("ab", "ba"):
        (tmp_path / f"{one}.h").write_text("")
        (tmp_path / f"{one}.c").write_text(f'#include "{one}.h"\n#include "{other}.h"\n')
    assert sorted(set(circle(tmp_path))) == ["a", "b"]
