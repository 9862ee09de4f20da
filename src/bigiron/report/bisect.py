"""The result of a bisection as text and JSON."""

from typing import Any

from bigiron.bisect.bisection import Culprit, Gradual, Returning, SearchResult, Suspects, Value
from bigiron.bisect.search import Bisection, Result, TimedBisection, TimedResult
from bigiron.report.formats import listing
from bigiron.util import sanitize
from bigiron.util.english import first_n, plural


def as_text(of: Bisection, found: Result) -> str:
    """A few sentences for each culprit."""
    # Reasons may quote the output of make or of a console, which can contain anything.
    return sanitize.sanitize("".join(f"{line}\n" for line in _lines(of, found)))


def _lines(of: Bisection, found: Result) -> list[str]:
    candidates = of.candidates
    ends = f"{candidates.title(candidates.old)} and {candidates.title(candidates.new)}"
    spent = _spent(of, found)
    by = found.target
    if by is None:
        return [f"no culprit: {ends} have the same shared cache lines and the same instructions", spent]
    if not found.findings:
        same = f"have the same value of {by.option}"
        return [f"no culprit: {ends} {same}, {_figures(found, found.before)}", spent]
    lines = []
    for one in found.findings:
        lines += _finding(of, found, one)
    return [*lines, spent]


def _finding(of: Bisection, found: Result, one: SearchResult) -> list[str]:
    title = of.candidates.title
    change = f"{_figures(found, one.before)} before, {_figures(found, one.after)} after"
    match one:
        case Culprit():
            return [f"culprit: {title(one.name)}: {change}", *_verified(of, found, one)]
        case Suspects():
            among = plural(len(one.names), "candidate")
            lines = [f"undecided: the culprit is one of {among} that cannot all be measured: {change}"]
            return lines + [f"    {title(name)}" for name in one.names]
        case Gradual():
            return [
                f"no single culprit: the value goes from {_figures(found, one.before)} to "
                f"{_figures(found, one.after)} in steps within the tolerance, with their middle at "
                f"{title(one.name)}"
            ]
        case Returning():
            return [
                f"unclear: {title(one.name)} has the change ({change}), and so has its parent "
                f"{title(one.parent)}. The change disappeared before that parent and came back: "
                "bisect up to the parent"
            ]


def _verified(of: Bisection, found: Result, culprit: Culprit) -> list[str]:
    assert found.target
    lines = []
    for parent, value in culprit.parents.items():
        lines.append(f"    its parent {of.candidates.title(parent)} has {_figures(found, value)}")
    without = found.reverts.get(culprit.name, "")
    new = of.candidates.title(of.candidates.new)
    if isinstance(without, tuple):
        gone = found.target.rule.same(without, culprit.before)
        much = "as before the culprit" if gone else "so the culprit is not the only cause"
        lines.append(f"    {new} with it reverted has {_figures(found, without)}, {much}")
    elif without:
        lines.append(f"    its revert was not measured: {without}")
    return lines


def _figures(found: Result, value: Value) -> str:
    assert found.target
    return found.target.words(value)


def _spent(of: Bisection, found: Result) -> str:
    free = sum(bool(one.same_as) for one in found.outcomes.values())
    failed = sum(one.failed for one in found.outcomes.values())
    reverts = sum(isinstance(value, tuple) for value in found.reverts.values())
    parts = [f"{plural(found.boots, 'candidate')} measured of {len(of.candidates.history.names) + 1}"]
    if reverts:
        parts.append(f"{plural(reverts, 'revert')} measured")
    if free:
        parts.append(f"{free} equal to another candidate, not booted")
    if failed:
        parts.append(f"{failed} skipped")
    if found.idle:
        parts.append(f"{found.idle} that do not change the kernel image")
    return "; ".join(parts)


def as_json(of: Bisection, found: Result) -> str:
    """The same for programs."""
    by = found.target
    document: dict[str, Any] = {
        "by": by.option if by else None,
        "units": list(by.units) if by else [],
        "before": list(found.before),
        "after": list(found.after),
        "findings": [_plain(found, one) for one in found.findings],
        "candidates": [
            {
                "name": name,
                "title": of.candidates.title(name),
                "value": list(value) if (value := found.values.get(name)) else None,
                "measured": outcome.variant is not None,
                "same_as": outcome.same_as or None,
                "skipped": outcome.why if outcome.failed else None,
            }
            for name, outcome in found.outcomes.items()
        ],
        "boots": found.boots,
        "idle": found.idle,
        "of": len(of.candidates.history.names) + 1,
    }
    return listing.json_text(sanitize.everywhere(document))


def _plain(found: Result, one: SearchResult) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "kind": type(one).__name__.lower(),
        "names": list(one.names) if isinstance(one, Suspects) else [one.name],
        "before": list(one.before),
        "after": list(one.after),
    }
    if isinstance(one, Culprit):
        without = found.reverts.get(one.name)
        plain["parents"] = {parent: list(value) for parent, value in one.parents.items()}
        plain["reverted"] = list(without) if isinstance(without, tuple) else None
    return plain


def timed_as_text(of: TimedBisection, found: TimedResult) -> str:
    """What is how likely."""
    title, chances = of.candidates.title, found.chances
    likeliest = chances.likeliest
    if not chances.decided:
        among = first_n([title(name) for name in chances.credible], _MOST_CREDIBLE)
        result = f"undecided: none is {chances.none:.0%} likely, or else it is among {among}"
    elif likeliest is None:
        result = (
            f"no culprit: {_likely(chances.none)} that none changes throughput by {of.tolerance:.0%} or more"
        )
    else:
        result = (
            f"culprit: {title(likeliest)}: {_likely(chances.culprit[likeliest])}; throughput is "
            f"{chances.change:.3g} of what it was before"
        )
    ends = " and ".join(str(found.runs.get(end, 0)) for end in (of.candidates.old, of.candidates.new))
    skipped = f"; {len(found.skipped)} skipped" if found.skipped else ""
    of_all = f"{len(found.runs)} candidates of {len(of.candidates.history.names) + 1}"
    return f"{result}\n{plural(found.all_runs, 'run')} of {of_all}, {ends} of the ends{skipped}\n"


_MOST_CREDIBLE = 4


def _likely(chance: float) -> str:
    return "more than 99.9% likely" if chance > 0.999 else f"{chance:.1%} likely"


def timed_as_json(of: TimedBisection, found: TimedResult) -> str:
    """The same for programs."""
    chances = found.chances
    document = {
        "by": "throughput",
        "decided": chances.decided,
        "none": round(chances.none, 6),
        "culprits": [
            {"name": name, "title": of.candidates.title(name), "chance": round(chances.culprit[name], 6)}
            for name in chances.credible
        ],
        "change": chances.change,
        "tolerance": of.tolerance,
        "runs": dict(found.runs),
        "skipped": dict(found.skipped),
    }
    return listing.json_text(sanitize.everywhere(document))
