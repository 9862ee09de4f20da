"""An LKP result folder: that of a job and kernel, with a folder for each run, or one of these."""

import re

import msgspec

from bigiron.errors import UserError
from bigiron.readers.figure import Figure, Format, Reading, count, label, number
from bigiron.readers.folder import Folder
from bigiron.util import decode
from bigiron.util.numbers import Better

_SETTING = re.compile(r"^\s*(\w+): *(\S.*?) *$", re.MULTILINE)
_TASKS = ("nr_task", "nr_threads")
_AT = re.compile(r"(\d+)\.(.+)")  # will-it-scale's: the number of tasks is part of the name
_LESS = re.compile(
    r"(^|[._])(time|latency|elapsed|seconds|stddev|failures|lat|[num]?s|usecs?|msecs?)([._]|$)"
)
_KEPT = ("testcase", "testbox", "commit", "kconfig", "compiler", "rootfs", "memory", "nr_cpu", *_TASKS)


def _read(folder: Folder) -> Reading:
    """The job's own stats of each run, a repetition each; those of monitors and of time(1) are left out.

    LKP does not say which are better when they are less: those that a name calls times or failures are.
    """
    runs = [""] if folder.has("stats.json") else [f"{n}/" for n in folder.folders() if n.isdecimal()]
    if not runs:
        raise UserError("no stats.json and no folders of runs with one: is it an LKP result folder?")
    figures, settings = [], dict[str, str]()
    for run, place in enumerate(sorted(runs, key=lambda run: (len(run), run)), 1):
        settings = {**dict(reversed(_SETTING.findall(folder.read(f"{place}job.yaml"))))}
        figures += _of_run(folder.read(f"{place}stats.json"), f"{place}stats.json", settings, run)
    about = {name: label(settings[name], None) for name in _KEPT if name in settings}
    cpus = count(settings["nr_cpu"], None, "nr_cpu") if "nr_cpu" in settings else None
    return Reading(figures, about, cpus, settings.get("testcase"))


def _of_run(text: str, file: str, settings: dict[str, str], run: int) -> list[Figure]:
    try:
        stats = decode.from_json(text, dict[str, float | int | str])
    except msgspec.DecodeError as error:
        raise UserError(f"{file}: {error}") from None
    testcase, tasks = settings.get("testcase", ""), _tasks(settings)
    figures = []
    for key, value in stats.items():
        owner, _, name = key.partition(".")
        if owner != testcase or name.startswith("time.") or isinstance(value, str):
            continue
        at = _AT.fullmatch(name)
        if at and at[1] != "0":
            figures.append(_figure(at[2], value, count(at[1], None), run))
        elif not at:
            figures.append(_figure(name, value, tasks, run))
    return figures


def _figure(name: str, value: float, tasks: int | None, run: int) -> Figure:
    better: Better = "less" if _LESS.search(name) else "more"
    return Figure(label(name, None), "", better, number(repr(value), None, name), tasks, run)


def _tasks(settings: dict[str, str]) -> int | None:
    """A number, or a percentage of the CPUs."""
    for name in _TASKS:
        if found := settings.get(name):
            share = found.removesuffix("%")
            if share == found:
                return count(found, None, name)
            cpus = count(settings.get("nr_cpu", ""), None, "nr_cpu")
            return max(1, int(number(share, None, name) * cpus / 100))
    return None


FORMAT = Format("lkp", "an LKP result folder", read_folder=_read)
