"""A program in a virtual machine: checking what is asked of it, and the agent's job for it."""

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from bigiron import compile, probes
from bigiron.architectures import architecture
from bigiron.errors import UserError
from bigiron.machines import limits
from bigiron.machines.vm import dilation
from bigiron.probes.conflicts import ConflictsOptions
from bigiron.probes.metrics import MetricsOptions
from bigiron.probes.options import whole_number
from bigiron.probes.recording import PER_INSTRUCTION, PER_SYSTEM_CALL
from bigiron.study.spec import MOST_CPUS, Spec, points
from bigiron.util import lazy
from bigiron.util.english import plural

if TYPE_CHECKING:
    from bigiron import readers
else:
    readers = lazy.LazyModule("bigiron.readers")

KEYS = (
    "root", "service", "ready", "ready_port", "env", "user", "folder", "command_cpus", "service_cpus",
    "begin_at", "end_at", "warm_up_s", "record_s", "marked", "per", "time_slice_instructions",
)  # fmt: skip
"""What only a program in a virtual machine can be asked."""

_TEXTS = ("user", "folder", "begin_at", "end_at")
_TASKS = "{tasks}"
_MEANT_TASKS = re.compile(r"(?<!\$)\{(?:tasks?|threads?|cpus?|jobs?|nproc)\}", re.IGNORECASE)
_CPUS = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")
_MOST_S = 1e6
_TIME_SLICE = 5000  # instructions: with 20,000 QEMU's own clock ends many time slices of other CPUs too


def refuse_without_root(spec: Spec) -> None:
    """UserError for what only a program in a virtual machine can be asked."""
    default = Spec(variant=[])
    given = [key for key in KEYS if getattr(spec, key) != getattr(default, key)]
    if given and not spec.runs_program:
        options = " and ".join(f"--{key.removesuffix('_s').replace('_', '-')}" for key in given)
        needs = "--command" if spec.root else "--root and --command, in a virtual machine"
        raise UserError(f"{options} needs {needs}")


def checked(spec: Spec) -> Spec:
    """The question with its probes. UserError for what cannot be asked of a program."""
    if spec.machine != "vm":
        raise UserError(f"--root is for virtual machines: leave it out, or --machine {spec.machine}")
    if not architecture(spec.arch).programs:
        raise UserError(f"--root is not supported on {spec.arch} yet: use --arch x86_64 or ppc64le")
    if spec.workload_file:
        raise UserError("both --command and --workload-file: give one of them")
    default = probes.by_default("program", spec.arch, in_vm=True)
    slices = spec.time_slice_instructions or _TIME_SLICE
    whole_number("time_slice_instructions", slices, 1 << 30)
    spec = msgspec.structs.replace(spec, probes=spec.probes or default, time_slice_instructions=slices)
    for probe in probes.named(spec.probes):
        if "program" not in probe.measures:
            raise UserError(f"probe {probe.name} cannot measure a program: use {', '.join(default)}")
    if spec.options[ConflictsOptions].scope != "kernel":
        raise UserError("--scope user is for workloads: a program's own memory has no names yet")
    _check_per(spec)
    _check_words(spec)
    _check_part(spec)
    return spec


def check_cpus(spec: Spec) -> None:
    """UserError for CPUs that the machines do not have."""
    for key in ("command_cpus", "service_cpus"):
        _check_cpus(key, getattr(spec, key), spec.cpus)


def check_times(spec: Spec) -> None:
    """UserError for a recorded part that ends after the time that the agent gives the command."""
    asked = spec.warm_up_s + spec.record_s
    for cpus, tasks in points(spec):
        is_slowed = spec.clock == "instructions" or cpus >= dilation.SLOWED_FROM
        slower = dilation.instructions_per_ns(min(tasks, cpus)) if is_slowed else 1
        most = patience_s(spec, cpus) / slower
        if asked > most:
            raise UserError(
                f"--warm-up and --for: the recorded part ends after {asked:g} s of VM time, and with "
                f"{plural(cpus, 'CPU')} the command may take {most:.3g} s: see --deadline"
            )


def patience_s(spec: Spec, cpus: int) -> int:
    """How long a stage may take; by a clock that follows instructions, a second is 10^9 of them."""
    return spec.engine.deadline_s(cpus) // (1 if spec.command and not spec.engine.emulated else 2)


def _check_per(spec: Spec) -> None:
    asked = spec.options[MetricsOptions]
    if asked.less_is_better:
        raise UserError("--less-is-better is for real machines: in a virtual machine no time is measured")
    if asked.metric and spec.per:
        raise UserError(f"both --metric {asked.metric} and --per {spec.per}: counts are per one of them")
    if asked.metric:
        readers.operations(asked.metric, asked.unit)
        if not is_whole(spec):
            raise UserError(
                "--metric reads the operations of the whole command, and a part of it is recorded: "
                "give --per system-call"
            )
    elif not spec.per:
        raise UserError("counts per what? Give --metric, --per system-call, --per instruction or --per NAME")
    elif spec.per not in (PER_SYSTEM_CALL, PER_INSTRUCTION):
        known = compile.system_calls(architecture(spec.arch).compiler)
        if spec.per not in known:
            raise UserError(f"--per {spec.per}: use system-call, instruction or the name of a system call")


def is_whole(spec: Spec) -> bool:
    """Whether the whole command is recorded."""
    return not (spec.begin_at or spec.end_at or spec.warm_up_s or spec.record_s or spec.marked)


def _check_words(spec: Spec) -> None:
    if len(spec.service) > limits.MAX_SERVICES:
        raise UserError(f"{len(spec.service)} services: at most {limits.MAX_SERVICES} are possible")
    if len(spec.ready) > len(spec.service):
        raise UserError("each --ready belongs to the --service before it: there are more of them")
    for service in spec.service:
        words_of("service", service)
    for ready in filter(None, spec.ready):
        words_of("ready", ready)
    for port in spec.ready_port:
        if not 0 < port < 1 << 16 or len(spec.ready_port) > limits.MAX_SERVICES:
            raise UserError(f"ready_port = {port}: use at most {limits.MAX_SERVICES} ports from 1 to 65535")
    limits.check("env", spec.env, limits.MAX_VARIABLES)
    for variable in spec.env:
        _check_braces("env", variable)
        if not re.match(r"[A-Za-z_]\w*=", variable):
            raise UserError(f"env {variable!r}: use NAME=VALUE")
    for key in _TEXTS:
        limits.check(key, [getattr(spec, key)], 1)
    if spec.user and not re.fullmatch(r"[\w.-]+", spec.user):
        raise UserError(f"user {spec.user!r}: use the name of a user of the root")
    if spec.folder and not spec.folder.startswith("/"):
        raise UserError(f"folder {spec.folder!r}: use an absolute path in the root")


def _check_part(spec: Spec) -> None:
    if spec.begin_at and spec.warm_up_s:
        raise UserError("both --begin-at and --warm-up: the recorded part begins at one of them")
    if spec.end_at and spec.record_s:
        raise UserError("both --end-at and --for: the recorded part ends at one of them")
    if spec.marked and (spec.begin_at or spec.end_at or spec.warm_up_s or spec.record_s):
        raise UserError("--marked excludes --begin-at, --end-at, --warm-up and --for: the program says both")
    for key in ("warm_up_s", "record_s"):
        if not 0 <= getattr(spec, key) <= _MOST_S:
            raise UserError(f"{key} = {getattr(spec, key)}: use seconds, 0 or more")


def _check_cpus(key: str, text: str, cpus: Sequence[int]) -> None:
    if not text:
        return
    if not _CPUS.fullmatch(text):
        raise UserError(f"{key} = {text!r}: use numbers of CPUs, as in 0-3,8")
    highest = max(int(number) for number in re.findall(r"\d+", text))
    if highest >= min([*cpus, MOST_CPUS]):
        raise UserError(f"{key} = {text!r}: the last of {min([*cpus, MOST_CPUS])} CPUs is {min(cpus) - 1}")
    for first, last in re.findall(r"(\d+)-(\d+)", text):
        if int(first) > int(last):
            raise UserError(f"{key} = {text!r}: {first}-{last} is no range")


def with_tasks(texts: Iterable[str], tasks: int) -> list[str]:
    """The texts with the number of tasks filled in.

    >>> with_tasks(["--threads={tasks}", "${HOME}"], 4)
    ['--threads=4', '${HOME}']
    """
    return [text.replace(_TASKS, str(tasks)) for text in texts]


def _check_braces(what: str, text: str) -> None:
    if wrong := _MEANT_TASKS.search(text.replace(_TASKS, "")):
        raise UserError(f"{what}: {wrong[0]} is not filled in: write {_TASKS} for the number of tasks")


def words_of(what: str, text: str) -> list[str]:
    """The words of a command; no shell interprets it."""
    _check_braces(what, text)
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UserError(f"{what} {text!r}: {error}") from None
    if not words or not text.isprintable():
        raise UserError(f"{what} {text!r}: use one printable line")
    limits.check(f"the {what}'s words", words, limits.MAX_WORDS)
    return words


def with_needed_option(spec: Spec, words: list[str]) -> list[str]:
    """The words of the command, with the option that its figures need."""
    return [*words, *readers.needed_option(spec.options[MetricsOptions].metric, words)]


def job(spec: Spec, words: Sequence[str], tasks: int) -> Iterator[str]:
    """What the agent is to do (docs/contributing/protocol.md), for the command with these words."""
    yield "in_root"
    for number, service in enumerate(spec.service):
        yield "service"
        yield from (f"service_word {word}" for word in with_tasks(words_of("service", service), tasks))
        ready = spec.ready[number] if number < len(spec.ready) else ""
        ready_words = words_of("ready", ready) if ready else []
        yield from (f"ready_word {word}" for word in with_tasks(ready_words, tasks))
    yield from (f"ready_port {port}" for port in spec.ready_port)
    yield from (f"env {variable}" for variable in with_tasks(spec.env, tasks))
    for key in ("user", "folder", "command_cpus", "service_cpus", "begin_at", "end_at"):
        if value := getattr(spec, key):
            yield f"{key} {value}"
    if spec.warm_up_s:
        yield f"warm_up_ms {max(1, round(1000 * spec.warm_up_s))}"
    if spec.record_s:
        yield f"record_ms {max(1, round(1000 * spec.record_s))}"
    if spec.marked:
        yield "marked"
    yield from (f"word {word}" for word in words)
