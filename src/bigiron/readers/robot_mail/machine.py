"""The test machine as a mail's words describe it."""

import re
from dataclasses import replace

from bigiron.errors import UserError
from bigiron.readers.figure import count
from bigiron.readers.robot_mail.model import ReportedMachine
from bigiron.readers.robot_mail.processor import (
    code_name_in,
    code_name_of_group,
    sockets_of_group,
    sockets_of_processor,
)

_MOST_CPUS = 8192
_WORDS = re.compile(
    r"(?P<cpus>\d+) threads(?: (?P<sockets>\d+) sockets?)?(?P<processor>.*?)"
    r"(?:\s+with (?P<memory>\d+(?:\.\d+)?)\s*(?P<unit>[GT])(?:i?B)?(?: (?:of )?memory)?)?\s*$"
)


def machine_of(words: str, called: str) -> ReportedMachine:
    """The machine of a mail's words.

    >>> machine_of("104 threads 2 sockets (Skylake) with 192G memory", "a mail")
    ReportedMachine(cpus=104, sockets=2, processor='(Skylake)', memory_gib=192.0, code_name='Skylake')
    """
    found = _WORDS.match(words)
    if not found:
        raise UserError(f"{called}: the test machine is {words[:80]!r}: it has no number of threads")
    cpus = count(found["cpus"], None, "threads")
    if cpus > _MOST_CPUS:
        raise UserError(f"{called}: a test machine of {cpus} threads: Linux has {_MOST_CPUS} CPUs at most")
    sockets = count(found["sockets"], None, "sockets") if found["sockets"] else None
    gib = float(found["memory"]) * (1024 if found["unit"] == "T" else 1) if found["memory"] else None
    processor = found["processor"].strip()
    return ReportedMachine(cpus, sockets, processor, gib, code_name_in(processor))


def completed(machine: ReportedMachine | None, group: str) -> ReportedMachine | None:
    """With the code name and sockets that names imply where the mail's words have none."""
    if machine is None:
        return None
    return replace(
        machine,
        code_name=machine.code_name or code_name_of_group(group),
        sockets=machine.sockets
        or sockets_of_group(group)
        or sockets_of_processor(machine.processor, machine.cpus),
    )
