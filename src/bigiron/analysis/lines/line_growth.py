"""The shared cache lines of several numbers of CPUs as series: each line found again at every number."""

from collections.abc import Mapping, Sequence

from bigiron.analysis.comparison.model import ProbedCell
from bigiron.analysis.lines import matching, merging, shared_lines
from bigiron.analysis.statistics.growth import CountSeries


def series(
    cells: Mapping[int, Sequence[ProbedCell]], contexts: tuple[str, ...]
) -> tuple[list[CountSeries], CountSeries]:
    """A series for each line, and one for all of them; alike lines are added up.

    `cells` has the repetitions of the probe conflicts at each number of CPUs.
    """
    lines = {cpus: _mean(repetitions, contexts) for cpus, repetitions in cells.items()}
    return series_of(lines), _series("", "", lines)


def series_of(lines: Mapping[int, Sequence[matching.SharedLine]]) -> list[CountSeries]:
    """A series for each line, by number of CPUs."""
    rows = matching.match({str(cpus): merging.merge_similar(here) for cpus, here in lines.items()})
    return [
        _series(
            row.object,
            ", ".join(row.functions),
            {cpus: [row.lines[str(cpus)]] if str(cpus) in row.lines else [] for cpus in lines},
        )
        for row in rows
    ]


def _mean(repetitions: Sequence[ProbedCell], contexts: tuple[str, ...]) -> list[matching.SharedLine]:
    return matching.mean([shared_lines.lines_in(cell, contexts) for cell in repetitions])


def _series(name: str, what: str, lines: Mapping[int, Sequence[matching.SharedLine]]) -> CountSeries:
    return CountSeries(
        name,
        what,
        {cpus: round(sum(line.accesses_per_op for line in here), 6) for cpus, here in lines.items()},
        {cpus: round(sum(line.all_per_op for line in here), 6) for cpus, here in lines.items()},
    )
