"""fxmark's log, as its run-fxmark.py writes it; and what its program prints for one run."""

import re

from bigiron.errors import UserError
from bigiron.readers.figure import Figure, Format, Reading, count, label, lines, number

_SETTING = re.compile(r"### +(\w+) *= *(.*)")


def _read(text: str) -> Reading:
    r"""A metric for each benchmark, file system, medium and kind of I/O; operations per second of all cores.

    >>> text = "## mem:tmpfs:DWAL:2:bufferedio\n# ncpu secs works works/sec \n2 5.0 100.0 20.0\n"
    >>> [(figure.metric, figure.value, figure.tasks) for figure in _read(text).figures]
    [('DWAL, tmpfs on mem, bufferedio', 20.0, 2)]
    """
    figures, about = [], {}
    metric, columns = "operations", list[str]()
    for line, written in lines(text):
        if setting := _SETTING.match(written):
            about[setting[1].lower()] = setting[2].strip()
        elif written.startswith("## "):
            metric = _metric(written[3:].strip(), line)
        elif written.startswith("# ncpu "):
            columns = written[2:].split()
        elif written[:1].isdecimal():
            row = dict(zip(columns, written.split(), strict=False))
            if "ncpu" not in row or "works/sec" not in row:
                raise UserError(f"line {line}: numbers without ncpu and works/sec in the line before")
            speed = number(row["works/sec"], line, "works/sec")
            figures.append(Figure(metric, "operations/s", "more", speed, count(row["ncpu"], line, "ncpu")))
    kept = ("system", "model_name", "physical_chips", "core_per_chip", "smt_level", "duration")
    return Reading(figures, {name: label(about[name], None) for name in kept if about.get(name)})


def _metric(key: str, line: int) -> str:
    fields = key.split(":")
    if len(fields) != 5:
        raise UserError(f"line {line}: '## {key[:80]}' is not MEDIUM:FILE SYSTEM:BENCHMARK:CORES:I/O")
    medium, file_system, benchmark, _cores, io = fields
    return label(f"{benchmark}, {file_system} on {medium}, {io}", line)


FORMAT = Format("fxmark", "the log that fxmark's run-fxmark.py writes", _read)
