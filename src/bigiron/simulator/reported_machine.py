"""Makes a machine file from a report that only gives CPUs, sockets, processor and memory."""

import re
from dataclasses import dataclass

from bigiron.errors import UserError
from bigiron.readers.robot_mail import ReportedMachine
from bigiron.readers.robot_mail.processor import has_four_sockets_or_more
from bigiron.simulator import machine_files
from bigiron.util.english import plural

_GENERATIONS = {
    "ivy bridge": "ivybridge-ex-x8",
    "haswell": "xeon-e7-8895v3-x4",
    "broadwell": "xeon-e5-2690v4-x2",
    "skylake": "skylake-20c-x2",
    "cascade lake": "cascade-lake-20c-x2",
    "cooper lake": "cooper-lake-28c-x4",
    "ice lake": "ice-lake-32c-x2",
    "sapphire rapids": "sapphire-rapids-56c-x2",
    "emerald rapids": "emerald-rapids-64c-x2",
    "granite rapids": "granite-rapids-128c-x2",
    "sierra forest": "sierra-forest-144c-x2",
    "knights": "xeon-phi-288",
    "rome": "epyc-7742-x2",
    "milan": "epyc",
    "genoa": "epyc-9654-x2",
    "bergamo": "epyc-9754-x2",
}
"""The machine file of each generation, by its code name."""

_AMD = (
    (r"epyc 97\d4", "bergamo"),
    (r"epyc 7\w\w2", "rome"),
    (r"epyc 7\w\w3", "milan"),
    (r"epyc 9\w\w4", "genoa"),
)
"""Model numbers of AMD's EPYC and the generation, which is their last digit."""

_INTEL = (
    (r"xeon(\(r\))? phi", "knights"),
    (r"\be[57]-\d{4}\w? v2", "ivy bridge"),
    (r"\be[57]-\d{4}\w? v3", "haswell"),
    (r"\be[57]-\d{4}\w? v4", "broadwell"),
    (r"xeon(\(r\))? 6\d{3}e\b", "sierra forest"),
    (r"xeon(\(r\))? 6\d{3}p\b", "granite rapids"),
    (r"\b[3-9]1\d\d[a-z+]*", "skylake"),
    (r"\b[3-9]2\d\d[a-z+]*", "cascade lake"),
    (r"\b[3-9]3\d\dhl?\b", "cooper lake"),
    (r"\b[3-9]3\d\d[a-z+]*", "ice lake"),
    (r"\b[3-9]4\d\d[a-z+]*", "sapphire rapids"),
    (r"\b[3-9]5\d\d[a-z+]*", "emerald rapids"),
)
"""Model numbers and the generation: the second digit of Intel's Xeon Scalable.

The first that matches counts. Ice Lake and Cooper Lake share a digit; the letter H is Cooper Lake's.
"""

_OTHERS = {1: "x86-2s", 2: "x86-2s"}
_MANY_SOCKETS = "x86-8s"
_OF_MOST = {"ivybridge-ex-x8": 2, "xeon-e7-8895v3-x4": 2}
"""Sockets of most machines of a generation where its file is of a larger one."""
_OF_LARGE = 4  # sockets that a machine for several of them has at least
_FEW = 17  # active cores: no file's clock rates have a row beyond, but for that of all cores
_LEVEL = r'(name = "(?:{})"\ncount = )(\d+|\[.*\])'
_DIRECTLY = 4  # sockets of Ivy Bridge and its like that are linked with each other
_HOPS = r"(^#.*\n)*^hops = \[\n( .*\n)*\]\n"
_BY_HOPS = r"^(transfer_ns|memory_ns|distance) = \[([\d.]+), .*\]$"
_RANGE = 'of = "node bandwidth"\n'
_SOCKET = "socket|chip"  # what files call this level


@dataclass(frozen=True)
class Likeness:
    """A machine file's text, and the built-in machine file that its figures are from."""

    toml: str
    base: str
    assumed: str = ""
    """The number of sockets that is assumed, and why that one; "": the report implies it."""


def like(machine: ReportedMachine) -> Likeness:
    """The file of the processor's generation with the CPUs, sockets and memory of the report.

    Intel's processors of an unknown generation are taken for Ice Lake's. A socket has one die: a report does
    not tell whether dies are nodes. UserError where no file is of the processor's maker and generation, where
    it is not known which cores share a cache, or where the CPUs do not divide among sockets and threads.
    """
    name = _GENERATIONS.get(generation(machine.processor) or generation(machine.code_name), "")
    called = machine.processor or machine.code_name or "a processor without a name"
    unlike = f"no machine file is like {called}"
    if not name and not _is_intel(machine.processor.lower()):
        raise UserError(unlike)
    name = name or _OTHERS.get(machine.sockets or 2, _MANY_SOCKETS)
    text = _of_one_die(machine_files.text(name))
    assumed, why = _assumed_sockets(machine, name, text)
    sockets = machine.sockets or assumed
    threads = _count(text, "thread") if re.search(_LEVEL.format("thread"), text) else 1
    of_socket, rest = divmod(machine.cpus, sockets * threads)
    if rest or not of_socket:
        raise UserError(
            f"{machine.cpus} CPUs do not divide among {sockets} sockets and {threads} threads a core ({name})"
        )
    if sockets != _count(text, _SOCKET):
        if "\nhops = " in text and sockets > _DIRECTLY:
            raise UserError(f"{unlike}: how its {sockets} sockets are linked is not known")
        text = _of_one_hop(_with_count(text, _SOCKET, sockets))
    if re.search(_LEVEL.format("group"), text):
        if of_socket != _count(text, "group") * _count(text, "core"):
            raise UserError(f"{unlike}: which of its {of_socket} cores share a cache is not known")
    elif re.search(_LEVEL.format("tile"), text):
        tiles, rest = divmod(of_socket, _count(text, "core"))
        if rest or not tiles:
            raise UserError(f"{of_socket} cores do not divide into tiles of {_count(text, 'core')} ({name})")
        text = _with_count(text, "tile", tiles)
    else:
        text = _with_count(text, "core", of_socket)
    text = re.sub(r"(turbo_ghz = .*\[)\d+(, [\d.]+\]\])", rf"\g<1>{max(of_socket, _FEW)}\g<2>", text)
    if machine.memory_gib:
        text = re.sub(r"^memory_gib(_source)? = .*\n", "", text, flags=re.MULTILINE)
        memory = f'memory_gib = {machine.memory_gib:g}\nmemory_gib_source = "published: the report"\n'
        text = re.sub(r"^node = .*\n", lambda found: found[0] + memory, text, count=1, flags=re.MULTILINE)
    text = re.sub(r'^name = ".*"', 'name = "reported"', text, count=1)
    return Likeness(text, name, "" if machine.sockets else f"{plural(sockets, 'socket')}, {why}")


def _assumed_sockets(machine: ReportedMachine, name: str, text: str) -> tuple[int, str]:
    """The number of sockets of a machine whose report implies none, and why that one."""
    if has_four_sockets_or_more(machine.processor):
        return _OF_LARGE, "the fewest that machines with such processors have"
    if name in _OF_MOST:
        return _OF_MOST[name], "as most machines of that generation have"
    return _count(text, _SOCKET), f"as {name} has"


def generation(processor: str) -> str:
    """The code name of a processor's generation: as the report has it, or by the number of its model.

    >>> generation("Intel(R) Xeon(R) Platinum 8480CTDX (Sapphire Rapids)"), generation("Xeon Platinum 8358")
    ('sapphire rapids', 'ice lake')
    >>> generation("Intel(R) Xeon(R) Platinum 8380H CPU @ 2.90GHz"), generation("Intel(R) Xeon(R) 6740E")
    ('cooper lake', 'sierra forest')
    >>> generation("a CPU @ 2.30GHz"), generation("Intel(R) Core(TM) i3-3220 CPU @ 3.30GHz")
    ('', '')
    """
    written = processor.lower()
    if named := next((words for words in _GENERATIONS if words in written), ""):
        return named
    models = _AMD if "epyc" in written else _INTEL if _is_intel(written) else ()
    if "core(tm)" in written:  # whose model numbers are other ones
        models = ()
    return next((words for model, words in models if re.search(model, written)), "")


def _is_intel(written: str) -> bool:
    return "intel" in written or "xeon" in written


def _of_one_die(text: str) -> str:
    """The file with the dies of a socket as one, whose memory bandwidth is that of all."""
    if not re.search(_LEVEL.format("die"), text):
        return text
    dies = _count(text, "die")
    for bandwidth in ("node_gb_per_s = ", _RANGE + "low = ", _RANGE + r"low = .*\nhigh = "):
        text = re.sub(rf"({bandwidth})([\d.]+)", lambda found: f"{found[1]}{float(found[2]) * dies:g}", text)
    return _with_count(text, "die", 1)


def _of_one_hop(text: str) -> str:
    """The file with all sockets linked directly: what takes longer by more hops takes what one hop does."""
    return re.sub(_BY_HOPS, r"\1 = \2", re.sub(_HOPS, "", text, flags=re.MULTILINE), flags=re.MULTILINE)


def _count(text: str, level: str) -> int:
    found = re.search(_LEVEL.format(level), text)
    assert found, level
    return int(found[2])


def _with_count(text: str, level: str, count: int) -> str:
    return re.sub(_LEVEL.format(level), rf"\g<1>{count}", text)
