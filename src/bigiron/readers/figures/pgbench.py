"""What pgbench prints."""

import re

from bigiron.readers.figure import Figure, Format, Pattern, Reading, count, figures_in, lines

_TASKS = re.compile(r"number of clients: (\S+)")
_DONE = re.compile(r"number of transactions actually processed: (\d{1,18})")
_FIGURES: tuple[Pattern, ...] = (
    (re.compile(r"latency average = (\S+) ms"), "latency, mean", "ms", "less"),
    # Before version 14, another line has the figure "including connections establishing".
    (
        re.compile(r"tps = (\S+) \((?:without|excluding|including reconnection)"),
        "transactions",
        "transactions/s",
        "more",
    ),
)


def _read(text: str) -> Reading:
    """Transactions per second and mean latency."""
    figures: list[Figure] = []
    tasks, done = None, 0
    for line, written in lines(text):
        if found := _TASKS.match(written):
            tasks = count(found[1], line, "clients")
        elif found := _DONE.match(written):
            done += int(found[1])
        figures += figures_in(written, line, _FIGURES, tasks)
    return Reading(figures, operations=done, operation="transaction")


FORMAT = Format("pgbench", "what pgbench prints", _read)
