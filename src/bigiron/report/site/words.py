"""Figures, changes and their meaning in words, for all pages."""

from collections.abc import Iterable, Mapping, Sequence

from bigiron.history.records import ChangeRecord, GrowthRecord, IdentityRecord, KernelRecord, PredictionRecord
from bigiron.util.english import first_n, join_and
from bigiron.util.numbers import short_count, three_digits

_SHADES = (0.05, 1.0, 4.0, 16.0, 64.0)
_MOST_NAMES = 3
_LEAST_SHOWN = 0.05  # accesses per operation
_EFFICIENCIES = (0.9, 0.5, 0.25, 0.1)
_MEANT = {
    "recorder": "recorder",
    "qemu": "QEMU",
    "accelerator": "accelerator",
    "architecture": "architecture",
    "mode": "mode",
    "operations": "operations per task",
    "time_slice": "time slices",
    "clock": "clock",
    "memory_mib": "MiB of memory",
    "sockets": "sockets",
    "nodes": "nodes",
    "cores": "cores",
    "threads": "threads per core",
    "cgroup": "control group",
    "fs": "file system",
    "workload_sha256": "the workload's source",
}


def shade(accesses: float) -> str:
    """The class of a count's colour, from h0 to h5."""
    return f"h{sum(accesses >= limit for limit in _SHADES)}"


def shades() -> list[tuple[str, str]]:
    """Every class with its range of accesses per operation."""
    limits = [f"{limit:g}" for limit in _SHADES]
    ranges = [f"under {limits[0]}", *(f"from {limit}" for limit in limits)]
    return [(f"h{number}", text) for number, text in enumerate(ranges)]


def efficiency_shade(prediction: PredictionRecord) -> str:
    """The class of a predicted throughput's colour, by its share of perfect scaling."""
    share = prediction.relative / prediction.tasks
    return f"h{sum(share < limit for limit in _EFFICIENCIES)}"


def efficiencies() -> list[tuple[str, str]]:
    """Every class with its range of shares."""
    texts = [f"{100 * limit:.0f} %" for limit in _EFFICIENCIES]
    return [
        (f"h{n}", f"under {text}" if n else f"{texts[0]} and more")
        for n, text in enumerate([texts[0], *texts])
    ]


def change(before: float, after: float) -> str:
    """By how much, with a sign that says what the colour says.

    >>> change(6.0, 2.0), change(2.0, 6.0), change(0.0, 3.0), change(3.0, 0.0), change(2.0, 100.0)
    ('▼ 67 %', '▲ 200 %', 'new', 'gone', '▲ 50×')
    """
    if not before:
        return "new"
    if not after:
        return "gone"
    ratio = after / before
    if ratio >= 10:
        return f"▲ {three_digits(ratio)}×"
    return f"{'▲' if ratio > 1 else '▼'} {abs(ratio - 1) * 100:.0f} %"


def css_class(before: float, after: float) -> str:
    """The class of a change: more is worse."""
    return "more" if after > before else "less" if after < before else "same"


def by_functions(before: Mapping[str, float], after: Mapping[str, float]) -> str:
    """Which functions no longer touch an object, which do as well, and which touch it more or less often.

    >>> by_functions({"fput": 1.0, "dup": 2.0}, {"fput": 2.0, "open": 1.0})
    'now also by open, more often by fput, no longer by dup'
    """
    if not before or not after:
        return f"by {first_n(list(after or before), _MOST_NAMES)}" if before or after else ""
    kinds: dict[str, list[str]] = {}
    order = ("now also by", "more often by", "less often by", "no longer by")
    for function in dict.fromkeys([*after, *before]):
        was, now = before.get(function, 0.0), after.get(function, 0.0)
        if abs(now - was) < _LEAST_SHOWN:
            continue
        kind = order[0] if not was else order[3] if not now else order[1] if now > was else order[2]
        kinds.setdefault(kind, []).append(function)
    return ", ".join(f"{kind} {first_n(kinds[kind], _MOST_NAMES)}" for kind in order if kind in kinds)


def distinguishing_name(one: IdentityRecord, others: Iterable[IdentityRecord]) -> str:
    """What an identity has that tells it from others, in words; "" where there are none."""
    others = list(others)
    names = [name for name in _MEANT if any(getattr(one, name) != getattr(other, name) for other in others)]
    return ", ".join(f"{_MEANT[name]} {str(getattr(one, name))[:12]}" for name in names)


def differing(one: IdentityRecord, other: IdentityRecord) -> list[str]:
    """The differences of two identities in words."""
    return [
        f"{word}: {getattr(one, name)} and {getattr(other, name)}"
        if name in ("qemu", "memory_mib", "cgroup", "fs")
        else word
        for name, word in _MEANT.items()
        if getattr(one, name) != getattr(other, name)
    ]


def law(growth: GrowthRecord | None) -> str:
    """The growth law of a count, or why there is none."""
    if growth is None:
        return "unknown: fewer than three numbers of CPUs"
    if not growth.law:
        return f"no law: {growth.text}"
    how = growth.law if growth.law == "constant" else f"grows with {growth.law}"
    return f"{growth.text} ({how}, {100 * growth.sure:.0f} % sure)"


def interval(prediction: PredictionRecord) -> str:
    """A predicted throughput with its interval."""
    low, high = three_digits(prediction.low), three_digits(prediction.high)
    return f"{three_digits(prediction.relative)} ({low} to {high})"


def _limits(prediction: PredictionRecord) -> str:
    return first_n(
        [f"{limit.object or limit.kind} {100 * limit.share:.0f} %" for limit in prediction.limits], 2
    )


def predicted(prediction: PredictionRecord) -> str:
    """A sentence of a prediction."""
    of_all = 100 * prediction.relative / prediction.tasks
    limited = _limits(prediction)
    return (
        f"predicted for {prediction.tasks} tasks on {prediction.machine}: {interval(prediction)} times "
        "the throughput of one, "
        f"{of_all:.0f} % of perfect scaling" + (f"; limited by {limited}" if limited else "")
    )


def ignorable(
    accesses: float, cpus: int, total: GrowthRecord | None, found: Sequence[PredictionRecord]
) -> tuple[str, str]:
    """Whether a count may be ignored: the answer and its reason."""
    made = [one for one in found if not one.refused]
    if made:
        worst = min(made, key=lambda one: one.relative / one.tasks)
        share = worst.relative / worst.tasks
        answer = "Yes" if share >= _EFFICIENCIES[0] else "No" if share < _EFFICIENCIES[1] else "Up to a point"
        return answer, f"{predicted(worst)[0].upper()}{predicted(worst)[1:]}."
    if accesses < _SHADES[0]:
        return "Yes", (
            f"With {cpus} CPUs fewer than {_SHADES[0]:g} accesses per operation go to shared cache lines: "
            "operations do not wait for each other."
        )
    if total and total.law and total.law != "constant":
        return "No", f"It grows with the number N of CPUs: {total.text}."
    refused = next((one.refused for one in found if one.refused), "")
    why = f" There is no prediction: {refused}." if refused else " There is no prediction here."
    return "It depends", (
        f"{short_count(accesses)} accesses per operation go to cache lines that other CPUs write. Each may "
        "wait for "
        "another CPU; "
        f"the cost depends on how much else each operation does.{why}"
    )


def names(kernels: Sequence[KernelRecord]) -> str:
    """The names of kernels in words; "" if there are none."""
    return join_and([kernel.name for kernel in kernels])


def subject(one: ChangeRecord) -> str:
    """What a change is of."""
    return {"lines": "all shared cache lines", "instructions": "instructions"}.get(one.what, one.name)
