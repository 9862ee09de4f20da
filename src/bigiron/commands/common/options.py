"""Options that several commands share, and how their text is read."""

import inspect
from collections.abc import Callable, Iterable
from copy import copy
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperGroup
from typer.models import OptionInfo, ParameterInfo

from bigiron import probes
from bigiron.analysis.lines import conflicts
from bigiron.errors import UserError
from bigiron.probes.options import words

Jobs = Annotated[
    int, typer.Option("--jobs", min=0, help="cells to run at once; 0: as many as cores and memory allow")
]
ForMachine = Annotated[
    str | None,
    typer.Option(
        "--machine", help="rank cache lines by their predicted cost on this machine (`bigiron machine list`)"
    ),
]
WithProfile = Annotated[
    Path | None,
    typer.Option(
        "--with",
        help="a profile of a real machine: the text of perf c2c, perf lock, perf report, perf script or perf "
        "mem, /proc/lock_stat, klockstat, offcputime, bpftrace's or folded stacks, a function graph, or a "
        "study that `bigiron import` made of one",
    ),
]
Base = Annotated[str | None, typer.Option("--base", help="the variant to compare with  [default: the first]")]
OneTask = Annotated[
    float | None,
    typer.Option(
        help="known throughput of one task of the first variant on that machine, in operations per second"
    ),
]
MeasuredThere = Annotated[
    Path | None,
    typer.Option(
        help="CSV file with columns tasks and throughput: the first variant, measured on that machine"
    ),
]
Fragments = Annotated[
    list[Path] | None,
    typer.Option(
        "--config", help="a kernel configuration fragment to add, or a complete .config; may be repeated"
    ),
]


# Headings of --help, in this order
WORKLOAD = "What to run"
PROGRAM = "A program in a virtual machine"
KERNELS = "Which kernels"
MACHINE = "Which machine"
RECORD = "What to record"
STATISTICS = "Statistics"
RESULTS = "Running, and where results go"
PANELS = (WORKLOAD, PROGRAM, KERNELS, MACHINE, RECORD, STATISTICS, RESULTS)


class RunByDefault(TyperGroup):
    """A group of commands whose default is `run`: `bigiron matrix KERNEL` is `bigiron matrix run KERNEL`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put `run` before arguments that do not start with a command's name."""
        if args and args[0] not in self.commands and args[0] != "--help":
            args = ["run", *args]
        return super().parse_args(ctx, args)


class Context(StrEnum):
    """The context in which the kernel ran."""

    process = "process"
    interrupt = "interrupt"
    kthread = "kthread"
    all = "all"


InContext = Annotated[
    Context, typer.Option("--context", help="count what the kernel executes in this context")
]


def refuse_rate(one_task: float | None) -> None:
    """UserError for a rate that is not positive."""
    if one_task is not None and not one_task > 0:
        raise UserError(f"--one-task {one_task}: give operations per second, more than 0")


def choice(names: Iterable[str], help: str) -> Any:
    """An option that takes one of several names, which are known when the program starts."""
    known = list(names)

    def parsed(text: str) -> str:
        if text not in known:
            raise typer.BadParameter(f"{text!r} is not one of {', '.join(map(repr, known))}.")
        return text

    return typer.Option(
        parser=parsed, metavar=f"<{'|'.join(known)}>", autocompletion=lambda: known, help=help
    )


def grouped(*more: type, panel: str | None = None) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a typer command of a function whose parameters are dataclasses of options.

    Typer reads options from a signature, so each annotated field becomes a parameter. A class attribute
    `panel` is the heading of its options in --help (a field may name another). `more`: classes whose values
    the function takes as its `*args`; `panel`: their heading.
    """

    def decorated(function: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(function)
        groups = [
            hints[name]
            for name, parameter in inspect.signature(function).parameters.items()
            if parameter.kind is not parameter.VAR_POSITIONAL
        ]
        fields = {kind: _options(kind, getattr(kind, "panel", panel)) for kind in (*groups, *more)}

        @wraps(function)
        def command(**given: Any) -> None:
            function(*(kind(**{one.name: given[one.name] for one in fields[kind]}) for kind in fields))

        parameters = sorted((one for each in fields.values() for one in each), key=_panel_number)
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {one.name: one.annotation for one in parameters}
        return command

    return decorated


def _options(kind: type, panel: str | None) -> list[inspect.Parameter]:
    """A command's parameters for the annotated fields of a class; all have a default."""
    defaults = kind()
    return [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=getattr(defaults, name), annotation=shown
        )
        for name, hint in get_type_hints(kind, include_extras=True).items()
        if (shown := _in_panel(hint, panel))
    ]


def _in_panel(hint: Any, panel: str | None) -> Any:
    """The annotation of an option or argument, shown in a panel unless it names its own; None of others."""
    for info in getattr(hint, "__metadata__", ()):
        if isinstance(info, ParameterInfo):
            shown = copy(info)  # commands that share an option show it in different panels
            if isinstance(info, OptionInfo):
                shown.rich_help_panel = info.rich_help_panel or panel
            return Annotated[hint.__origin__, shown]
    return None


def _panel_number(parameter: inspect.Parameter) -> int:
    """Typer shows panels in the order of their first option."""
    panel = parameter.annotation.__metadata__[0].rich_help_panel
    return PANELS.index(panel) if panel in PANELS else -1


def numbers(option: str, text: str) -> list[int]:
    """Whole numbers, separated by commas."""
    given = words(text)
    if not given or not all(word.isdecimal() for word in given):
        raise UserError(f"{option} {text!r}: use whole numbers separated by commas, for instance 2,4,8")
    return [int(word) for word in given]


def probe_names(text: str) -> list[str]:
    """Names of probes, separated by commas."""
    if not (given := words(text)):
        raise UserError(f"no probe: use {', '.join(probe.name for probe in probes.probes())}")
    return given


def doublings(option: str, text: str) -> list[int]:
    """Numbers, or FIRST..LAST: the first number, its doubles, and the last number."""
    first, dots, last = text.partition("..")
    if not dots:
        return numbers(option, text)
    if not (first.isdecimal() and last.isdecimal()) or not 0 < int(first) <= int(last):
        raise UserError(
            f"{option} {text!r}: use FIRST..LAST, for instance 2..512, or numbers separated by commas"
        )
    doubles = range((int(last) // int(first)).bit_length())
    return list(dict.fromkeys([*(int(first) << power for power in doubles), int(last)]))


def contexts(context: Context) -> tuple[str, ...]:
    """The recorder's contexts that an option stands for."""
    return conflicts.CONTEXTS if context is Context.all else (context.value,)
