"""Replays programs on a machine whose figures are ranges: many samples, each a complete machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from bigiron import _sim
from bigiron.analysis.lines.line_costs import line_costs
from bigiron.analysis.replay.program import ReplayProgram
from bigiron.errors import UserError
from bigiron.simulator import fitted, machine_files
from bigiron.util.english import plural
from bigiron.util.lazy import Floats
from bigiron.util.lazy import numpy as np
from bigiron.util.numbers import rate
from bigiron.util.threads import StoppedError, is_stopped

FITTED = ("crossing of nodes", "contended transfers", "keeping a line", "code under locks")
"""The unknowns of processors in general, in the order of `fitted.Constants`."""

SPEED = "speed of kernel code"
"""The error of the machine file, where no measured rate corrects it."""

LEFT_OUT = "what the model leaves out"
OVERLAPPED = "reads overlapped"
OVERLAPPED_NS = fitted.Constant(40, 2)
"""How much of the time that a read waits for its line a core spends on other instructions, as it executes out
of order. Not fitted: reorder buffers hold 192 (Haswell) to 512 instructions (Golden Cove, Intel's and others'
descriptions), of which kernel code has one or two done in a cycle until a read stalls them."""

Source: TypeAlias = "Callable[[np.random.Generator], ReplayProgram]"
"""What gives a program for each sample: always the same from a trace, another order each time from counts."""


_LEAST_KEPT = 0.01  # of a task's time, where contention takes nearly all of it
_REACHED = 0.02  # relative error of a known rate in a sample that has it


@dataclass(frozen=True)
class KnownRate:
    """A variant's known throughput on the machine."""

    variant: str
    tasks: int
    throughput: float  # operations per second


@dataclass(frozen=True)
class ReplayOptions:
    """What to replay, and how often."""

    machine: _sim.Machine
    tasks: Sequence[int]
    samples: int
    seed: int = 1
    known: KnownRate | None = None
    lock: str | None = None  # what spinlocks are; else those of the machine
    spread: bool = False
    constants: fitted.Constants = fitted.FITTED


@dataclass(frozen=True)
class Draws:
    """The results: a row per sample, a column per number of tasks."""

    throughput: Floats  # operations per second
    programs: Sequence[ReplayProgram]  # what was replayed in each sample
    spent: Sequence[
        Sequence[Sequence[float]]
    ]  # shares of the tasks' time, in the order of `ReplayProgram.objects`

    @property
    def shares(self) -> list[list[dict[tuple[str, str], float]]]:
        """The shares of the tasks' time, by kind and name of what took it."""
        return [
            [_by_object(program, shares) for shares in of_sample]
            for program, of_sample in zip(self.programs, self.spent, strict=True)
        ]

    def kept(self, first: int) -> Floats:
        """What tasks keep of their time for instructions, of what they keep at the column `first`."""
        kept = np.median([[work for work, *_ in of_sample] for of_sample in self.spent], axis=0)
        return np.asarray(kept / max(kept[first], _LEAST_KEPT))

    def line_costs(self, column: int) -> list[dict[str, float]]:
        """The same at one number of tasks, by the object in each cache line, with its locks."""
        return [
            line_costs(program, of_sample[column])
            for program, of_sample in zip(self.programs, self.spent, strict=True)
        ]


@dataclass(frozen=True)
class Replayed:
    """All variants on the same machines."""

    tasks: list[int]
    variants: Mapping[str, Draws]
    unknowns: Mapping[str, Floats]  # where in its range each was, 0 to 1, by sample
    slower: Floats  # what instructions took, of what the machine's file says
    missed: int = 0  # samples that miss the known rate


def replay(sources: Mapping[str, Source], options: ReplayOptions) -> Replayed:
    """Replay each variant on machines sampled from all ranges.

    A known rate sets how fast instructions are, for the other variants too: its variant is replayed first.
    UserError if most samples miss it.
    """
    names = [*(name for name, *_ in options.machine.unknowns), *FITTED, LEFT_OUT, OVERLAPPED]
    places = machine_files.sobol_points(len(names) + 1, options.samples, options.seed)
    *columns, speed = places.T
    unknowns = dict(zip(names, columns, strict=True))
    drawn = [_drawn(options, place[:-1]) for place in places]
    tasks = sorted({1, *options.tasks})
    found: dict[str, Draws] = {}
    slower, missed = np.ones(options.samples), 0
    if not options.known:
        unknowns[SPEED] = speed
        slower = np.array([options.constants.instructions.at(float(place)) for place in speed])
    for variant in sorted(sources, key=lambda variant: not _known(options, variant)):
        source, known = sources[variant], _known(options, variant)
        programs = [
            source(np.random.default_rng([options.seed, sample])) for sample in range(options.samples)
        ]
        curves = [
            _sim.Curve(
                machine,
                _replayable(variant, program),
                tasks,
                seed=options.seed * 1000 + sample,
                spinlocks=options.lock,
                spread=options.spread,
                slower=float(slower[sample]),
                **core,
                known=known,
            )
            for sample, ((machine, core), program) in enumerate(zip(drawn, programs, strict=True))
        ]
        outcomes = _replayed(curves)
        for outcome in outcomes:
            if "error" in outcome:
                raise UserError(f"{variant}: the replay failed: {outcome['error']}")
        if known:
            slower = np.array([outcome["slower"] for outcome in outcomes])
            missed = _missed(variant, known, np.array([outcome["reached"] for outcome in outcomes]))
        replayed = np.array([outcome["throughput"] for outcome in outcomes])
        draws = Draws(replayed, programs, [outcome["shares"] for outcome in outcomes])
        found[variant] = replace(draws, throughput=_off(options, tasks, draws, unknowns[LEFT_OUT]))
    return Replayed(tasks, {variant: found[variant] for variant in sources}, unknowns, slower, missed)


def _replayed(curves: Sequence[_sim.Curve]) -> list[dict[str, Any]]:
    """It ends with KeyboardInterrupt on the main thread and with StoppedError on others."""
    try:
        return _sim.replay(curves, is_stopped)
    except InterruptedError:
        raise StoppedError from None


def _known(options: ReplayOptions, variant: str) -> tuple[int, float] | None:
    """The tasks and the throughput of a variant whose rate is known."""
    known = options.known
    return (known.tasks, known.throughput) if known and known.variant == variant else None


def _missed(variant: str, known: tuple[int, float], reached: Floats) -> int:
    """The samples that do not have the known rate, however fast instructions are; UserError if most do not.

    >>> _missed("v", (1, 2e6), np.array([1.0, 1.01, 0.64]))
    1
    """
    missed = int((abs(reached - 1) > _REACHED).sum())
    if 2 * missed > len(reached):
        tasks, given = known
        median = float(np.median(reached)) * given
        raise UserError(
            f"{variant}: {missed} of {len(reached)} samples miss the given rate of {plural(tasks, 'task')}, "
            f"{rate(given)}/s, at every speed of instructions that was tried ({rate(median)}/s in the "
            "median): check the rate, or leave it out"
        )
    return missed


def _replayable(variant: str, program: ReplayProgram) -> _sim.Program:
    try:
        return _sim.Program(program.lines, program.locks, program.operations)
    except ValueError as error:
        raise UserError(f"{variant}: its trace cannot be replayed: {error}") from None


def _off(options: ReplayOptions, tasks: Sequence[int], draws: Draws, places: Floats) -> Floats:
    """The replayed rates with the model's error, which is zero where tasks do not disturb each other."""
    from scipy.special import ndtri  # here, as no other command should wait for it

    kept = draws.kept(tasks.index(options.known.tasks if options.known else 1))
    deviations = options.constants.model_error * fitted.share_of_error(kept)
    off = np.exp(np.outer(ndtri(np.clip(places, 0.005, 0.995)), deviations))
    return np.asarray(draws.throughput * off)


def _by_object(program: ReplayProgram, shares: Sequence[float]) -> dict[tuple[str, str], float]:
    by_object: dict[tuple[str, str], float] = {}
    for object, share in zip(program.objects, shares, strict=True):
        by_object[object] = by_object.get(object, 0.0) + share
    return by_object


def _drawn(options: ReplayOptions, places: Floats) -> tuple[_sim.Machine, dict[str, float]]:
    """A machine, and properties of its cores that its file does not give."""
    of = options.constants
    figures, (*constants, _, overlapped) = places[: -len(FITTED) - 2], places[-len(FITTED) - 2 :]
    ranges = (of.crossing, of.contended, of.kept_ns, of.under_locks)
    crossing, contended, kept, under_locks = (
        one.at(float(place)) for one, place in zip(ranges, constants, strict=True)
    )
    overlapped_ns = OVERLAPPED_NS.at(float(overlapped))
    core = {"kept_ns": kept, "overlapped_ns": overlapped_ns, "under_locks": under_locks}
    return options.machine.at([float(place) for place in figures], crossing, contended), core
