"""Makes a machine file from a report that only gives CPUs, sockets, processor and memory."""

import re
from dataclasses import dataclass

from bigiron.errors import UserError
from bigiron.readers.robot_mail import Machine
from bigiron.simulator import machine_files

_GENERATIONS = {
    "ivy bridge": "ivybridge-ex-x8",
    "haswell": "xeon-e7-8895v3-x4",
    "broadwell": "xeon-e5-2690v4-x2",
    "skylake": "skylake-20c-x2",
    "cascade lake": "cascade-lake-20c-x2",
    "cooper lake": "cascade-lake-20c-x2",
    "ice lake": "ice-lake-32c-x2",
    "sapphire rapids": "ice-lake-32c-x2",
    "emerald rapids": "ice-lake-32c-x2",
    "granite rapids": "ice-lake-32c-x2",
    "rome": "epyc-7742-x2",
    "milan": "epyc",
    "genoa": "epyc-9654-x2",
}
"""The machine file of each generation; of the newest, the last one that has two threads a core."""

_OTHERS = {1: "x86-2s", 2: "x86-2s"}
_MANY_SOCKETS = "x86-8s"
_FEW = 17  # active cores: no file's clock rates have a row beyond, but for that of all cores
_LEVEL = r'(name = "{}"\ncount = )(\d+)'


@dataclass(frozen=True)
class Likeness:
    """A machine file's text, and the built-in machine file that its figures are from."""

    toml: str
    base: str


def like(machine: Machine) -> Likeness:
    """The file of the processor's generation with the CPUs, sockets and memory of the report.

    UserError where the CPUs do not divide among sockets and threads.
    """
    name = next((file for words, file in _GENERATIONS.items() if words in machine.processor.lower()), "")
    name = name or _OTHERS.get(machine.sockets or 2, _MANY_SOCKETS)
    text = machine_files.text(name)
    sockets = machine.sockets or _count(text, "socket")
    threads = _count(text, "thread") if re.search(_LEVEL.format("thread"), text) else 1
    of_socket, rest = divmod(machine.cpus, sockets * threads)
    if rest or not of_socket:
        raise UserError(
            f"{machine.cpus} CPUs do not divide among {sockets} sockets and {threads} threads a core ({name})"
        )
    text = _with_count(text, "socket", sockets)
    if re.search(_LEVEL.format("group"), text):
        groups, rest = divmod(of_socket, _count(text, "core"))
        if rest or not groups:
            raise UserError(f"{of_socket} cores do not divide into groups of {_count(text, 'core')} ({name})")
        text = _with_count(text, "group", groups)
    else:
        text = _with_count(text, "core", of_socket)
    text = re.sub(r"(turbo_ghz = .*\[)\d+(, [\d.]+\]\])", rf"\g<1>{max(of_socket, _FEW)}\g<2>", text)
    if machine.memory_gib:
        text = re.sub(r"^memory_gib(_source)? = .*\n", "", text, flags=re.MULTILINE)
        memory = f'memory_gib = {machine.memory_gib:g}\nmemory_gib_source = "published: the report"\n'
        text = re.sub(r"^node = .*\n", lambda found: found[0] + memory, text, count=1, flags=re.MULTILINE)
    text = re.sub(r'^name = ".*"', 'name = "reported"', text, count=1)
    return Likeness(text, name)


def _count(text: str, level: str) -> int:
    found = re.search(_LEVEL.format(level), text)
    assert found, level
    return int(found[2])


def _with_count(text: str, level: str, count: int) -> str:
    return re.sub(_LEVEL.format(level), rf"\g<1>{count}", text)
