"""The list of all objects that CPUs share on any kernel."""

from bigiron.report.site import address
from bigiron.report.site.page import SitePage
from bigiron.report.site.reading import HistoryReader, ObjectAtPoint


def page(reading: HistoryReader) -> SitePage:
    """The list, the objects with the most accesses on the newest kernel first."""
    return SitePage(
        address="objects",
        title="Everything that CPUs share",
        template="objects.html",
        values={"reading": reading, "rows": rows(reading), "even": reading.is_even},
        columns=("object", "page", *(f"accesses_on_{kernel.name}" for kernel in reading.kernels)),
        rows=[
            (name, f"{address.object(name)}.html", *(round(sum_, 4) for sum_ in sums))
            for name, sums, _ in rows(reading)
        ],
    )


def rows(reading: HistoryReader) -> list[tuple[str, list[float], int]]:
    """An object, its accesses on each kernel over all workloads with their most CPUs, and in how many."""
    return [
        (
            name,
            [_sum(reading, uses, kernel.id) for kernel in reading.kernels],
            len({u.point.workload for u in uses}),
        )
        for name, uses in reading.objects.items()
    ]


def _sum(reading: HistoryReader, uses: list[ObjectAtPoint], kernel: int) -> float:
    return sum(
        use.accesses
        for use in uses
        if use.point.kernel == kernel
        and use.point.cpus == reading.most_cpus(reading.workload(use.point.workload))
    )
