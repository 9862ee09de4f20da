"""`bigiron compare`: variants side by side."""

import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from bigiron import probes
from bigiron.analysis.comparison.model import Options
from bigiron.commands.common.options import (
    Base,
    Context,
    ForMachine,
    InContext,
    WithProfile,
    choice,
    contexts,
)
from bigiron.commands.common.profile import beside
from bigiron.errors import UserError
from bigiron.probes import conflicts
from bigiron.report import measured
from bigiron.report.compare import dispatch
from bigiron.results import prediction
from bigiron.study import store
from bigiron.study.spec import Spec


class LineBytes(StrEnum):
    """Whether accesses are added up by cache line or by 128-byte pair of adjacent lines."""

    one = "64"
    pair = "128"


class By(StrEnum):
    """How stacks are added up."""

    function = "function"
    chain = "chain"


InFormat = Annotated[
    str,
    choice(
        (*dispatch.FORMATS, dispatch.C2C),
        help="output format; c2c: the base variant's shared cache lines in the form of `perf c2c report`",
    ),
]
OneProbe = Annotated[
    str | None,
    choice(
        (one.name for one in probes.probes() if one.is_comparable),
        help="the probe to compare  [default: conflicts if recorded, else the first recorded]",
    ),
]
ToleranceOption = Annotated[
    float | None,
    typer.Option(
        help="with --probe throughput: the largest change that does not matter  [default: the study's]"
    ),
]


def compare(
    study: Annotated[Path, typer.Argument(help="the study's folder")],
    base: Base = None,
    format: InFormat = "text",
    context: InContext = Context.process,
    probe: OneProbe = None,
    paths: Annotated[int, typer.Option(help="call paths to show for each cache line, in text")] = 0,
    tolerance: ToleranceOption = None,
    metric: Annotated[
        str | None, typer.Option(help="with --probe throughput: one metric  [default: all]")
    ] = None,
    by: Annotated[By | None, typer.Option(help="add up call stacks by function or by call chain")] = None,
    line: Annotated[
        LineBytes,
        typer.Option(help="with --probe conflicts: 128 shows cache lines shared only with the adjacent line"),
    ] = LineBytes.one,
    machine: ForMachine = None,
    profile: WithProfile = None,
) -> None:
    """Compare a study's variants: one row per shared cache line, lock or function; counts per operation.

    Throughput, which is noisy, gets a verdict: changed, unchanged or undecided. `--with` compares the counts
    with what perf measured on a real machine.

    Example: `bigiron compare s --base debian/6.1 --format markdown`
    """
    opened = store.open_study(study)
    compared, pairs = probe or _recorded(opened.spec), line is LineBytes.pair
    is_c2c = format == dispatch.C2C
    of_lines = {
        f"--line {line.value}": pairs,
        f"--machine {machine}": machine is not None,
        "--format c2c": is_c2c,
    }
    if profile:
        others = {"--probe": probe, "--by": by, "--tolerance": tolerance, "--metric": metric}
        _check_with(is_c2c, {**others, "--paths": paths or None, "--line 128": pairs or None})
        options = Options(opened.base(base), contexts(context))
        print(measured.FORMATS[format](beside(opened, profile, options, machine)), end="")
        return
    if compared != conflicts.PROBE.name or by:
        _check_lines(of_lines)
    costs = prediction.line_costs(opened, machine) if machine else None
    how = dispatch.CompareOptions(
        format,
        base,
        contexts(context),
        paths,
        by.value if by else None,
        tolerance,
        metric,
        pairs,
        costs,
    )
    found, missing = dispatch.compare(opened, compared, how)
    print(found, end="")
    for sentence in missing:
        print(f"bigiron: {sentence}", file=sys.stderr)


def _check_with(is_c2c: bool, others: Mapping[str, object]) -> None:
    """UserError for an option that does not go with a profile."""
    if is_c2c:
        raise UserError("--format c2c prints what was counted: it does not go with --with")
    if given := [option for option, value in others.items() if value is not None]:
        raise UserError(f"{given[0]} does not go with --with: the profile decides what is compared")


def _check_lines(of_lines: Mapping[str, bool]) -> None:
    """UserError for an option of shared cache lines, where something else is compared."""
    if given := [option for option, is_given in of_lines.items() if is_given]:
        raise UserError(
            f"{given[0]} applies only to the shared cache lines of the probe {conflicts.PROBE.name}"
        )


def _recorded(spec: Spec) -> str:
    """The probe to compare where none is given."""
    named = probes.named(spec.probes)
    recorded = [one.name for one in sorted(named, key=lambda one: not one.is_comparable)]
    return recorded[0] if recorded and probes.DEFAULT not in recorded else probes.DEFAULT
