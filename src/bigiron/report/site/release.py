"""A kernel's page: what it changed, for worse and for better."""

from bigiron.history.records import ChangeRecord, KernelRecord, PredictionRecord
from bigiron.report import history_changes
from bigiron.report.site import address, home, words
from bigiron.report.site.page import Answers, SitePage
from bigiron.report.site.reading import HistoryReader
from bigiron.report.site.workload import in_words
from bigiron.util.english import plural
from bigiron.util.numbers import short_count

_MOST_ROWS = 100  # of a table: the data beside the page has all


def page(reading: HistoryReader, kernel: KernelRecord) -> SitePage:
    """A kernel's page."""
    changes = reading.changes(kernel)
    worse, better = (home.moved(reading, changes, more) for more in (True, False))
    against = reading.against(kernel)
    return SitePage(
        address=address.release(kernel.name),
        title=kernel.name,
        template="release.html",
        values={
            "reading": reading,
            "kernel": kernel,
            "against": words.names(against),
            "changes": changes,
            "worse": worse,
            "better": better,
            "gone": home.objects_moved(reading, kernel, "gone"),
            "new": home.objects_moved(reading, kernel, "new"),
            "lines": _largest_first(changes, "line"),
            "locks": _largest_first(changes, "lock"),
            "instructions": _largest_first(changes, "instructions"),
            "MOST_ROWS": _MOST_ROWS,
            "answers": _answers(reading, kernel, words.names(against), changes, len(worse), len(better)),
        },
        columns=history_changes.FIGURES,
        rows=[history_changes.figures(one, reading.workload(one.workload)) for one in changes],
        about={
            "kernel": kernel.name,
            "release": kernel.release,
            "version": kernel.version,
            "sha256": kernel.sha256,
            "against": [one.name for one in against],
        },
    )


def _largest_first(changes: list[ChangeRecord], what: str) -> list[ChangeRecord]:
    return history_changes.largest_first(change for change in changes if change.what == what)


def _answers(
    reading: HistoryReader,
    kernel: KernelRecord,
    against: str,
    changes: list[ChangeRecord],
    worse: int,
    better: int,
) -> Answers:
    measured = sum(p.current and p.kernel == kernel.id for p in reading.points)
    what = (
        f"{plural(measured, 'point')} of {kernel.release} ({kernel.architecture}), each a workload with "
        "some "
        "number of CPUs."
    )
    if not against:
        why = (
            "No older kernel was measured with the same setup, so there is nothing to compare with."
            if reading.before(kernel)
            else "This is the oldest kernel here, so there is nothing to compare with."
        )
        return Answers(what, [why], "–", "There is no comparison.")
    unlike = home.incomparable(reading, kernel)
    not_compared = (
        f" {plural(unlike, 'workload')} cannot be compared: no older kernel had the same setup."
        if unlike
        else ""
    )
    return Answers(
        measured=(
            f"{what} Against {against}, of {len(reading.workloads)} workloads {worse} access shared "
            "lines more often "
            f"and {better} less.{not_compared}"
        ),
        why=[f"{one.workload.name}: {in_words(one)}." for one in reading.object_changes(kernel)[:6]]
        or [f"No line changed against {against}."],
        **_ignorable(reading, kernel, against, changes),
    )


def _ignorable(
    reading: HistoryReader, kernel: KernelRecord, against: str, changes: list[ChangeRecord]
) -> dict[str, str]:
    """The answer from predictions, or from counts where there are none."""
    slower, compared = _predicted_slower(reading, kernel)
    if slower:
        name, was, now = slower[0]
        return {
            "ignore": "No",
            "because": (
                f"{plural(len(slower), 'workload')} of {compared} are predicted to scale worse than on "
                f"{against}, beyond "
                f"both intervals; {name} most: predicted for {now.tasks} tasks on {now.machine} "
                f"{words.interval(now)} "
                f"times the throughput of one task, {words.interval(was)} before."
            ),
        }
    more = [c for c in changes if c.what == "lines" and c.count_after > c.count_before]
    if not more:
        return {"ignore": "Yes", "because": "No workload accesses shared cache lines more often than before."}
    worst = max(more, key=lambda change: change.count_after - change.count_before)
    changed = (
        f"{reading.workload(worst.workload).name} changed most: {short_count(worst.count_before)} → "
        f"{short_count(worst.count_after)} accesses per operation with {worst.cpus} CPUs."
    )
    if compared:
        return {
            "ignore": "Up to a point",
            "because": f"No workload is predicted to scale worse, beyond both intervals. {changed}",
        }
    return {"ignore": "It depends", "because": f"{changed} Nothing is predicted here."}


def _predicted_slower(
    reading: HistoryReader, kernel: KernelRecord
) -> tuple[list[tuple[str, PredictionRecord, PredictionRecord]], int]:
    """Workloads that are predicted to scale worse, before and now, the worst first; how many there are."""
    found: dict[str, tuple[float, PredictionRecord, PredictionRecord]] = {}
    compared = set()
    for workload in reading.workloads:
        before = reading.compared(workload, kernel)
        for machine in reading.machines if before else ():
            assert before
            was, now = (reading.prediction(workload, one, *machine) for one in (before, kernel))
            if not was or not now or not reading.have_same_setup(was, now):
                continue
            compared.add(workload.name)
            ratio = now.relative / was.relative if was.relative else 1.0
            if now.high < was.low and ratio < found.get(workload.name, (1.0, was, now))[0]:
                found[workload.name] = ratio, was, now
    ordered = sorted(found.items(), key=lambda one: one[1][0])
    return [(name, was, now) for name, (_, was, now) in ordered], len(compared)
