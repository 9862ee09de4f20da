"""A matrix as one file that opens offline: the triangle, each pair's tests, each test's calls and lines.

What is in it are names from a guest's memory and a user's files: they are data, put in place as text only,
and a strict policy lets nothing run or load but what is in the file.
"""

from collections.abc import Hashable
from typing import Any

import bigiron
from bigiron.matrix.outcomes import Conflict, MatrixOutcome
from bigiron.matrix.summary import published
from bigiron.report.formats.html import embedded_json, rendered
from bigiron.report.matrix import MatrixDocument, innermost


def as_html(document: MatrixDocument, name: str) -> str:
    """The page of a matrix that lies in a folder of that name."""
    data = embedded_json(_data(document, name))
    return rendered("matrix", name=name, version=bigiron.__version__, data=data)


class _Interned:
    """Values by number: most of them come thousands of times."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}

    def number(self, value: Hashable) -> int:
        return self._numbers.setdefault(value, len(self._numbers))

    @property
    def all(self) -> list[Any]:
        return list(self._numbers)


def _data(document: MatrixDocument, name: str) -> dict[str, Any]:
    texts, conflicts, sets = _Interned(), _Interned(), _Interned()

    def of(conflict: Conflict) -> int:
        calls = [texts.number(innermost(path)) for path in (conflict.a, conflict.b)]
        kind = "pair" if conflict.pair else "false" if conflict.false else ""
        return conflicts.number((texts.number(conflict.name), kind, *calls))

    def outcome(one: MatrixOutcome | None) -> Any:
        """A number of a set of conflicts; a text where it is wrong; null where it did not run."""
        if one is None:
            return None
        return one.wrong or sets.number(tuple(of(conflict) for conflict in one.conflicts))

    outcomes = {
        place: [outcome(found.get(test.number)) for test in document.tests]
        for place, found in document.outcomes.items()
    }
    tests = [
        [test.number, document.calls.index(test.a[0].name), document.calls.index(test.b[0].name),
         texts.number(str(test))]
        for test in document.tests
    ]  # fmt: skip
    return {
        "folder": name,
        "calls": document.calls,
        "published": {name: [free, tests] for name, (free, tests) in published(document.calls).items()},
        "places": [
            {
                "name": one.place,
                "missing": one.missing,
                "shared": [[each.name, each.tests, each.alone, each.share_without] for each in one.culprits],
            }
            for one in document.summaries
        ],
        "tests": tests,
        "outcomes": outcomes,
        "texts": texts.all,
        "conflicts": conflicts.all,
        "sets": sets.all,
    }
