"""What `perf bench` prints, in its default format."""

import re

from bigiron.readers.figure import Figure, Format, Pattern, Reading, count, figures_in, label, lines, number

_BENCHMARK = re.compile(r"# Running '?([\w/ -]+?)'? benchmark:")
_EXECUTED = re.compile(r"# Executed ([\d,]+) (.+?)(?: operations| calls)?(?: between .*)?$")
_FUNCTION = re.compile(r"# function '(.+?)'")
_TASKS = re.compile(
    r"# \d+ groups == (\d+) (?:processes|threads) run|Run summary \[PID \d+\]: .*?(\d+) threads"
)
_FIGURES: tuple[Pattern, ...] = (
    (re.compile(r" *Total time: (\S+) \[sec\]"), "time", "s", "less"),
    (re.compile(r" +(\S+) usecs/op$"), "time of an operation", "us", "less"),
    (re.compile(r" +(\S+) ops/sec$"), "operations", "operations/s", "more"),
    (re.compile(r"Averaged (\S+) operations/sec"), "operations", "operations/s", "more"),
    (re.compile(r"(?:Wokeup|Requeued) .* in (\S+) ms \("), "time", "ms", "less"),
)
# Of the memory benchmarks, in units of 1024; perf prints a stray "d" before KB, and of several threads more.
_SPEED = re.compile(r" +([\d.]+)d? (bytes|KB|MB|GB)/sec(?:/thread\b.*)?$")
_IN_GB = {"bytes": 1024**3, "KB": 1024**2, "MB": 1024, "GB": 1}


def _read(text: str) -> Reading:
    r"""Every benchmark and function is a metric of its own.

    >>> _read("# Running 'sched/pipe' benchmark:\n     Total time: 0.125 [sec]").figures
    [Figure(metric='sched/pipe: time', unit='s', better='less', value=0.125, tasks=None, run=1)]
    """
    figures: list[Figure] = []
    tasks, benchmark, done, operation = None, "perf bench", 0, "operation"
    for line, written in lines(text):
        if found := _BENCHMARK.match(written):
            benchmark, tasks = label(found[1], line), None
        elif found := _EXECUTED.match(written):
            done += int(found[1].replace(",", ""))
            operation = label(found[2].replace("()", ""), line)
        elif found := _FUNCTION.match(written):
            benchmark = f"{benchmark.partition(' ')[0]} {label(found[1], line)}"
        elif found := _TASKS.match(written):
            tasks = count(found[1] or found[2], line)
        elif found := _SPEED.match(written):
            speed = number(found[1], line, "speed") / _IN_GB[found[2]]
            figures.append(Figure(f"{benchmark}: copied", "GB/s", "more", speed, tasks))
        figures += figures_in(written, line, _FIGURES, tasks, f"{benchmark}: ")
    return Reading(figures, operations=done, operation=operation)


FORMAT = Format(
    "perf-bench",
    "what `perf bench` prints",
    _read,
    operations_need="not all of its benchmarks print one: give --per instead",
)
