"""will-it-scale's CSV, as its runtest.py prints it."""

from bigiron.errors import UserError
from bigiron.readers.figure import Figure, Format, Reading, count, lines, number

_MODES = ("processes", "threads")
_COLUMNS = ["tasks", "processes", "processes_idle", "threads", "threads_idle", "linear"]
_FAILED = "-1"  # in place of what a program that failed did not print


def _read(text: str) -> Reading:
    r"""Operations per second of all tasks, as processes and as threads.

    >>> _read("tasks,processes,processes_idle,threads,threads_idle,linear\n"
    ...       "0,0,100,0,100,0\n1,400,50.00,300,50.00,400\n").figures[0]
    Figure(metric='processes', unit='operations/s', better='more', value=400.0, tasks=1, run=1)
    """
    figures, seen = [], set()
    for line, written in lines(text):
        row = written.split(",")
        if line == 1 and row != _COLUMNS:
            raise UserError(f"line 1: will-it-scale's CSV begins with {','.join(_COLUMNS)}")
        if line == 1 or not written:
            continue
        if len(row) != len(_COLUMNS):
            raise UserError(f"line {line}: {len(row)} columns, not {len(_COLUMNS)}")
        values = dict(zip(_COLUMNS, row, strict=True))
        if values["tasks"] == "0":
            continue
        tasks = count(values["tasks"], line)
        if tasks in seen:
            raise UserError(f"line {line}: {tasks} tasks are there twice")
        seen.add(tasks)
        for mode in _MODES:
            if values[mode] != _FAILED:
                value = number(values[mode], line, mode)
                figures.append(Figure(mode, "operations/s", "more", value, tasks))
    return Reading(figures)


FORMAT = Format(
    "will-it-scale", "the CSV that will-it-scale's runtest.py prints", _read, file_is_workload=True
)
