"""A matrix as text, Markdown, CSV and JSON."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from bigiron.analysis.kernel_functions import ENTRY_CODE
from bigiron.matrix import summary as summaries
from bigiron.matrix.listing import CallPair, pair_of
from bigiron.matrix.model.calls import Test
from bigiron.matrix.outcomes import Conflict, MatrixOutcome
from bigiron.matrix.store import Matrix
from bigiron.matrix.summary import Count, PairChange, PlaceSummary, published
from bigiron.report.formats.listing import Listing, code, json_text, markdown_table, plain

_MOST_CHANGES = 12
_MOST_WRONG = 5
_PUBLISHED = (
    "published: Clements et al., The Scalable Commutativity Rule, SOSP 2013, Figure 6; other tests of "
    "the same 18 calls\n"
)


@dataclass(frozen=True)
class MatrixDocument:
    """What is shown of a matrix."""

    calls: Sequence[str]
    summaries: Sequence[PlaceSummary]
    changed: Sequence[tuple[str, str, Sequence[PairChange]]]  # from which place to which
    tests: Sequence[Test]
    outcomes: Mapping[str, Mapping[int, MatrixOutcome]]  # by place and test


def document(matrix: Matrix, pair: CallPair | None = None) -> MatrixDocument:
    """Of all tests, or of those of one pair of calls."""
    tests = [test for test in matrix.tests if pair in (None, pair_of(test))]
    columns = matrix.columns
    found = {column.place.name: column.outcomes for column in columns}
    names_of: dict[tuple[str, int], list[str]] = {}
    for column in columns:
        names_of.setdefault((column.place.fs, column.place.cpus), []).append(column.place.name)
    changed = [
        (before, after, summaries.changes(tests, found[before], found[after]))
        for names in names_of.values()
        for before, after in pairwise(name for name in names if found[name])
    ]
    made = [
        summaries.summary(column.place.name, matrix.tests_of(column, tests), column.outcomes)
        for column in columns
    ]
    return MatrixDocument(summaries.calls_of(matrix.tests), made, changed, tests, found)


def percent(share: float | None) -> str:
    """With one decimal.

    >>> percent(0.687134), percent(None)
    ('68.7%', '-')
    """
    return "-" if share is None else f"{100 * share:.1f}%"


def _whole(share: float) -> str:
    """Percent without decimals, but that only all is 100 and only none 0.

    >>> _whole(0.9996), _whole(0.687), _whole(0.0)
    ('99', '69', '0')
    """
    return f"{min(max(100 * share, 1), 99):.0f}" if 0 < share < 1 else f"{100 * share:.0f}"


def as_text(document: MatrixDocument) -> str:
    """For people: of each place its triangle, its share and what keeps it from more; then what changed."""
    parts = [_shares(document)]
    for summary in document.summaries:
        if not summary.cells:
            continue
        parts += [_triangle(document, summary), _culprits(summary), _wrong(summary)]
    parts += [_changes(*changed) for changed in document.changed]
    return "\n".join(part for part in parts if part)


def _shares(document: MatrixDocument) -> str:
    rows: list[tuple[object, ...]] = [
        (
            one.place,
            f"{one.all.tests:,}",
            f"{one.all.free:,}",
            percent(one.all.share),
            percent(one.as_pairs / one.all.tests if one.all.tests else None),
            percent((one.all.free + one.false_only) / one.all.tests if one.all.tests else None),
            one.all.wrong,
            one.missing,
        )
        for one in document.summaries
    ]
    rows += [
        (name, f"{tests:,}", f"{free:,}", percent(free / tests), "", "", "", "")
        for name, (free, tests) in published(document.calls).items()
    ]
    columns = ("", "tests", "conflict-free", "share", "by pairs", "by bytes", "wrong", "not run")
    return (
        Listing(columns, rows).as_text() + "by pairs: of lines, 128 bytes; by bytes: without false sharing\n"
    ) + (_PUBLISHED if published(document.calls) else "")


def _triangle(document: MatrixDocument, summary: PlaceSummary) -> str:
    """A row and a column a call: the share of their tests that are conflict-free, in percent."""
    calls = document.calls
    rows = []
    for row, name in enumerate(calls):
        cells = [_number(summary.cells.get(_pair(name, other))) for other in calls[: row + 1]]
        rows.append((name, *cells, *[""] * (len(calls) - row - 1)))
    heading = f"{summary.place}: conflict-free tests of each pair of calls, in percent (.: no test)\n"
    return heading + Listing(["", *calls], rows).as_text()


def _pair(one: str, other: str) -> CallPair:
    first, second = sorted((one, other))
    return first, second


def _number(count: Count | None) -> str:
    return "." if count is None or count.share is None else _whole(count.share)


def _culprits(summary: PlaceSummary) -> str:
    if not summary.culprits:
        return ""
    rows = [
        (
            number,
            one.name,
            f"{one.tests:,}",
            f"{one.alone:,}",
            percent(one.share_without),
        )
        for number, one in enumerate(summary.culprits, 1)
    ]
    columns = ("", "what is shared", "tests with it", "with nothing else", "share without all so far")
    heading = f"{summary.place}: what keeps most tests from being conflict-free\n"
    return heading + Listing(columns, rows).as_text()


def _wrong(summary: PlaceSummary) -> str:
    if not summary.wrong:
        return ""
    lines = [
        f"{summary.place}: {len(summary.wrong)} tests did not do what the model says, and do not count\n"
    ]
    lines += [f"  test {one.test}: {one.wrong}\n" for one in summary.wrong[:_MOST_WRONG]]
    if len(summary.wrong) > _MOST_WRONG:
        lines.append(f"  and {len(summary.wrong) - _MOST_WRONG} more\n")
    return "".join(lines)


def _changes(before: str, after: str, changes: Sequence[PairChange]) -> str:
    if not changes:
        return f"{before} and {after}: no pair differs\n"
    rows = [
        (
            "/".join(one.pair),
            one.before.tests,
            one.before.free,
            one.after.free,
            ", ".join(f"{name} ({number})" for name, number in one.gone),
            ", ".join(f"{name} ({number})" for name, number in one.come),
        )
        for one in changes[:_MOST_CHANGES]
    ]
    columns = ("pair", "tests", "free before", "free after", "gone (tests)", "come (tests)")
    more = f"and {len(changes) - len(rows)} pairs more\n" if len(changes) > len(rows) else ""
    return f"{before} to {after}: what changed\n" + Listing(columns, rows).as_text() + more


def as_markdown(document: MatrixDocument) -> str:
    """The shares, and of each place its triangle and what keeps it from more, for a page or a mail."""
    shares = [
        [plain(one.place), f"{one.all.tests:,}", f"{one.all.free:,}", percent(one.all.share)]
        for one in document.summaries
    ]
    shares += [
        [f"{name} (published)", f"{tests:,}", f"{free:,}", percent(free / tests)]
        for name, (free, tests) in published(document.calls).items()
    ]
    parts = [markdown_table(["", "tests", "conflict-free", "share"], shares, "lrrr")]
    for one in document.summaries:
        rows = [
            [name, *(_number(one.cells.get(_pair(name, other))) for other in document.calls[: row + 1]),
             *[""] * (len(document.calls) - row - 1)]
            for row, name in enumerate(document.calls)
        ]  # fmt: skip
        parts.append(f"## {plain(one.place)}\n\n" + markdown_table(["", *document.calls], rows))
        lines = [
            [code(each.name), f"{each.tests:,}", f"{each.alone:,}", percent(each.share_without)]
            for each in one.culprits
        ]
        if lines:
            headings = ["what is shared", "tests with it", "with nothing else", "share without all so far"]
            parts.append(markdown_table(headings, lines, "lrrr"))
    return "\n".join(parts)


def _list(document: MatrixDocument) -> Listing:
    """A row for each test and place."""
    rows = []
    for test in document.tests:
        for place, outcomes in document.outcomes.items():
            if outcome := outcomes.get(test.number):
                lines = [one.name for one in outcome.conflicts if not one.pair]
                pairs = [one.name for one in outcome.conflicts if one.pair]
                rows.append(
                    (test.number, *pair_of(test), "same" if test.same else "two", place,
                     "" if outcome.wrong else outcome.is_free, ";".join(lines), ";".join(pairs),
                     outcome.wrong)
                )  # fmt: skip
    return Listing(
        (
            "test",
            "call",
            "other_call",
            "processes",
            "place",
            "conflict_free",
            "lines",
            "pairs_of_lines",
            "wrong",
        ),
        rows,
    )


def as_csv(document: MatrixDocument) -> str:
    """A line for each test and place."""
    return _list(document).as_csv()


def as_json(document: MatrixDocument) -> str:
    """All that the text says, and every test."""
    places = [
        {
            "place": one.place,
            "tests": one.all.tests,
            "conflict_free": one.all.free,
            "conflict_free_by_pairs_of_lines": one.as_pairs,
            "conflict_free_by_bytes": one.all.free + one.false_only,
            "wrong": one.all.wrong,
            "not_run": one.missing,
            "pairs": [
                {"calls": pair, "tests": count.tests, "conflict_free": count.free, "wrong": count.wrong}
                for pair, count in sorted(one.cells.items())
            ],
            "shared": [
                {
                    "name": each.name,
                    "tests": each.tests,
                    "alone": each.alone,
                    "share_without": each.share_without,
                }
                for each in one.culprits
            ],
        }
        for one in document.summaries
    ]
    rows = _list(document)
    return json_text(
        {
            "published": {
                name: {"tests": tests, "conflict_free": free}
                for name, (free, tests) in published(document.calls).items()
            },
            "places": places,
            "changed": [
                {"before": before, "after": after, "pairs": [_changed_pair(one) for one in changes]}
                for before, after, changes in document.changed
            ],
            "tests": [dict(zip(rows.columns, row, strict=True)) for row in rows.rows],
        }
    )


def _changed_pair(change: PairChange) -> dict[str, object]:
    return {
        "calls": change.pair,
        "tests": change.before.tests,
        "conflict_free_before": change.before.free,
        "conflict_free_after": change.after.free,
        "gone": [{"name": name, "tests": number} for name, number in change.gone],
        "come": [{"name": name, "tests": number} for name, number in change.come],
    }


FORMATS: Mapping[str, Callable[[MatrixDocument], str]] = {
    "text": as_text,
    "markdown": as_markdown,
    "csv": as_csv,
    "json": as_json,
}


def pair_as_text(document: MatrixDocument, pair: CallPair) -> str:
    """A pair's tests, by what they share."""
    lines = [f"{'/'.join(pair)}: {len(document.tests)} tests\n"]
    for one in document.summaries:
        share = f"{one.all.free} of {one.all.tests} conflict-free ({percent(one.all.share)})"
        lines.append(f"\n{one.place}: {share}\n")
        tests_with: dict[str, list[int]] = {}
        for test in document.tests:
            if outcome := document.outcomes[one.place].get(test.number):
                names = sorted({each.name for each in outcome.conflicts if not each.pair})
                result = f"wrong: {outcome.wrong}" if outcome.wrong else ", ".join(names) or "conflict-free"
                tests_with.setdefault(result, []).append(test.number)
        for result, numbers in sorted(tests_with.items(), key=lambda item: -len(item[1])):
            some = " ".join(map(str, numbers[:8])) + (" ..." if len(numbers) > 8 else "")
            lines.append(f"  {len(numbers):5}  {result}\n         tests {some}\n")
    return "".join(lines)


def test_as_text(test: Test, outcomes: Mapping[str, MatrixOutcome]) -> str:
    """One test, and what came of it in each place."""
    lines = [str(test)]
    for place, outcome in outcomes.items():
        if outcome.wrong:
            lines.append(f"\n{place}: wrong: {outcome.wrong}\n")
            continue
        free = "conflict-free" if outcome.is_free else "not conflict-free"
        lines.append(f"\n{place}: {free} ({outcome.runs} runs)\n")
        for one in outcome.conflicts:
            lines += _of_conflict(one)
        if outcome.by_chance:
            lines.append(f"  in half of the runs or fewer: {', '.join(outcome.by_chance)}\n")
    return "".join(lines)


def _of_conflict(conflict: Conflict) -> list[str]:
    how = (
        "two lines side by side, "
        if conflict.pair
        else "different bytes of a line, "
        if conflict.false
        else ""
    )
    return [
        f"  {conflict.name} ({how}in {conflict.runs} runs)\n",
        f"    A {innermost(conflict.a)}\n",
        f"    B {innermost(conflict.b)}\n",
    ]


def innermost(path: str) -> str:
    """A path as far as it is worth reading: without the entry, from the inside out."""
    calls, _, counts = path.rpartition(" (")
    functions = [name for name in calls.split(";") if not ENTRY_CODE.fullmatch(name)]
    return f"{' < '.join(reversed(functions))} ({counts}"
