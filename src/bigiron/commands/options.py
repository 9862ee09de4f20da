"""What several commands' options may be, and how their text is read."""

import inspect
from collections.abc import Callable, Iterable
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperGroup
from typer.models import ParameterInfo

from bigiron import probes
from bigiron.analysis.lines import conflicts
from bigiron.errors import UserError
from bigiron.probes.options import words

Jobs = Annotated[int, typer.Option("--jobs", min=0, help="machines side by side; 0: by cores and memory")]
ForMachine = Annotated[
    str | None,
    typer.Option(
        "--machine", help="rank lines by what they are predicted to cost there (`bigiron machine list`)"
    ),
]
OneTask = Annotated[
    float | None,
    typer.Option(help="operations a second of one task of the first variant there, where that is known"),
]
MeasuredThere = Annotated[
    Path | None,
    typer.Option(help="a CSV file with tasks and throughput of the first variant, measured there"),
]
Fragments = Annotated[
    list[Path] | None,
    typer.Option("--config", help="a fragment of kernel configuration to add, or a whole .config; repeat it"),
]


class RunByDefault(TyperGroup):
    """A group of commands with `run`, whose name may be left out: `bigiron matrix KERNEL`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put `run` before arguments that do not begin with a command's name."""
        if args and args[0] not in self.commands and args[0] != "--help":
            args = ["run", *args]
        return super().parse_args(ctx, args)


class Format(StrEnum):
    """How a comparison is printed."""

    text = "text"
    markdown = "markdown"
    csv = "csv"
    json = "json"


class ListFormat(StrEnum):
    """How a list is printed."""

    text = "text"
    csv = "csv"
    json = "json"


class Context(StrEnum):
    """On whose behalf the kernel ran."""

    process = "process"
    interrupt = "interrupt"
    kthread = "kthread"
    all = "all"


def refuse_rate(one_task: float | None) -> None:
    """UserError for a rate of one task that is none."""
    if one_task is not None and not one_task > 0:
        raise UserError(f"--one-task {one_task}: use operations a second, more than none")


def choice(names: Iterable[str], help: str) -> Any:
    """An option that takes one of some names; which there are is known when the program starts."""
    known = list(names)

    def parsed(text: str) -> str:
        if text not in known:
            raise typer.BadParameter(f"{text!r} is not one of {', '.join(map(repr, known))}.")
        return text

    return typer.Option(
        parser=parsed, metavar=f"<{'|'.join(known)}>", autocompletion=lambda: known, help=help
    )


def grouped(*more: type) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a command for typer of a function whose parameters are dataclasses of options.

    Each field is an option of the command. `more`: classes whose values it takes as its `*args`.
    """

    def decorated(function: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(function)
        groups = [
            hints[name]
            for name, parameter in inspect.signature(function).parameters.items()
            if parameter.kind is not parameter.VAR_POSITIONAL
        ]
        fields = {kind: _options(kind) for kind in (*groups, *more)}

        @wraps(function)
        def command(**given: Any) -> None:
            function(*(kind(**{one.name: given[one.name] for one in fields[kind]}) for kind in fields))

        parameters = [one for each in fields.values() for one in each]
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {one.name: one.annotation for one in parameters}
        return command

    return decorated


def _options(kind: type) -> list[inspect.Parameter]:
    """A command's parameters for the fields of a class that are annotated as such; all have a default."""
    defaults = kind()
    return [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=getattr(defaults, name), annotation=hint
        )
        for name, hint in get_type_hints(kind, include_extras=True).items()
        if any(isinstance(one, ParameterInfo) for one in getattr(hint, "__metadata__", ()))
    ]


def numbers(option: str, text: str) -> list[int]:
    """Whole numbers with commas between them."""
    given = words(text)
    if not given or not all(word.isdecimal() for word in given):
        raise UserError(f"{option} {text!r}: use whole numbers with commas, for instance 2,4,8")
    return [int(word) for word in given]


def probe_names(text: str) -> list[str]:
    """Names of probes with commas between them."""
    if not (given := words(text)):
        raise UserError(f"no probe: use {', '.join(probe.name for probe in probes.probes())}")
    return given


def doublings(option: str, text: str) -> list[int]:
    """Numbers, or FIRST..LAST: the first, its doubles, and the last."""
    first, dots, last = text.partition("..")
    if not dots:
        return numbers(option, text)
    if not (first.isdecimal() and last.isdecimal()) or not 0 < int(first) <= int(last):
        raise UserError(f"{option} {text!r}: use FIRST..LAST, for instance 2..512, or numbers with commas")
    doubles = range((int(last) // int(first)).bit_length())
    return list(dict.fromkeys([*(int(first) << power for power in doubles), int(last)]))


def contexts(context: Context) -> tuple[str, ...]:
    """Those that the recorder knows."""
    return conflicts.CONTEXTS if context is Context.all else (context.value,)
