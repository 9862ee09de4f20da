"""What the formats of profiles have in common: lines that are kept in mind if they were not understood."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import dropwhile
from typing import TypeAlias

from bigiron.errors import UserError
from bigiron.readers.figure import Reading, lines
from bigiron.util.english import join_and
from bigiron.util.measured import MeasuredPart, MeasuredProfile, MeasuredThing, ProfileKind, is_time, symbol

LEAVES_CPU = re.compile(
    r"(__|io_|preempt_)?schedule(_timeout\w*|_hrtimeout\w*|_preempt_disabled|_irq|_common|_notrace|_idle)?"
    r"|finish_task_switch|__switch_to(_asm)?|_*cond_resched|__traceiter_\w+|__bpf_trace_\w+|bpf_(prog|trace)_\w+"
)
"""Functions with which a stack ends whose task left its CPU, and those of what traced it."""

_ENTRY = re.compile(
    r"entry_SYSCALL|asm_exc_|asm_sysvec_|asm_common_|do_syscall_64|el0t?_|system_call|ret_from_fork"
    r"|page_fault$|secondary_startup"
)
_IDLE = re.compile(
    r"(intel|mwait|default|acpi|poll|do|cpu_do|arch_cpu|psci_enter|power\d+|call_cpu)_?idle\w*|cpuidle_\w+"
    r"|cpu_(idle_poll|startup_entry)|\w*safe_halt|acpi_processor_ffh_cstate_enter|snooze_loop"
)
_QUOTE = re.compile(r"^(?:> ?)+", re.MULTILINE)
NANOSECONDS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9, "m": 60e9, "h": 3600e9}
_SHOWN = 120  # characters of a line that was not understood
_MOST = 1000  # such lines that are kept
_LONGEST = 100_000  # characters of a line: stacks of C++ have tens of thousands


class ProfileText:
    """The lines of a profile with their numbers, and those that were not understood."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.not_read: list[tuple[int, str]] = []

    def __iter__(self) -> Iterator[tuple[int, str]]:
        for at, written in lines(self._text):
            if len(written) > _LONGEST:
                raise UserError(f"line {at}: it has {len(written)} characters: at most {_LONGEST} are read")
            yield at, written

    def skip(self, at: int, written: str) -> None:
        """Keep in mind that a line was not understood."""
        if written.strip() and len(self.not_read) < _MOST:
            self.not_read.append((at, written.strip()[:_SHOWN]))


def without_quotes(text: str) -> str:
    r"""A text as it was before a mail quoted it.

    >>> without_quotes("> # Index\n> >   0  0x40")
    '# Index\n  0  0x40'
    """
    return _QUOTE.sub("", text)


def measured(
    kind: ProfileKind,
    unit: str,
    things: Iterable[MeasuredThing],
    text: ProfileText,
    notes: Iterable[str] = (),
) -> MeasuredProfile:
    """The profile, its largest things first."""
    ranked = sorted(things, key=lambda thing: -thing.weight)
    return MeasuredProfile(kind, unit, tuple(ranked), tuple(text.not_read), tuple(notes))


@dataclass(frozen=True)
class Stack:
    """A call stack: names of functions, outermost first, and from which of them on they are the kernel's."""

    frames: tuple[str, ...]
    kernel_from: int  # len(frames) if none is

    @classmethod
    def of(cls, frames: Sequence[str], at: int) -> Stack:
        """A stack as a profiler printed it, which may mark the kernel's functions, or their beginning.

        >>> Stack.of(["cat", "read", "-", "entry_SYSCALL_64", "vfs_read_[k]"], 1)
        Stack(frames=('cat', 'read', 'entry_SYSCALL_64', 'vfs_read'), kernel_from=2)
        """
        if not all(name.isprintable() for name in frames):
            raise UserError(f"line {at}: a function's name has characters that cannot be printed")
        named = [name for name in frames if name.strip("-")]
        first = next(
            (at for at, name in enumerate(named) if name.endswith("_[k]") or _ENTRY.match(name)), len(named)
        )
        return cls(tuple(symbol(name.removesuffix("_[k]")) for name in named), first)

    @property
    def waits_in(self) -> tuple[str, ...]:
        """The kernel's functions, innermost first, without the scheduler's; empty for a task on its CPU."""
        names = [name for name in reversed(self.frames[self.kernel_from :]) if name]
        if not names or not LEAVES_CPU.fullmatch(names[0]):
            return ()
        return tuple(dropwhile(LEAVES_CPU.fullmatch, names))


def of_stacks(weights: Mapping[Stack, float], text: ProfileText, *, are_times: bool = False) -> Reading:
    """Samples by the innermost function of each stack; waits, if most tasks had left their CPU."""
    waits: dict[tuple[str, ...], float] = {}
    for stack, weight in weights.items():
        if names := stack.waits_in:
            waits[names] = waits.get(names, 0.0) + weight
    if 2 * sum(waits.values()) > sum(weights.values()):
        things = [
            MeasuredThing(names[0], weight, (MeasuredPart(names[0], weight, callers=names[1:]),))
            for names, weight in waits.items()
        ]
        unit = "time off the CPU" if are_times else "weight of their stacks"
        return Reading([], measured=measured("waits", unit, things, text))
    samples: SampleWeights = {}
    for stack, weight in weights.items():
        of = stack.frames[-1], stack.kernel_from < len(stack.frames)
        samples[of] = samples.get(of, 0.0) + weight
    return of_functions(samples, "samples", text)


SampleWeights: TypeAlias = dict[tuple[str, bool], float]
"""Of functions, by their names, and whether they are the kernel's."""


@dataclass
class SampledEvent:
    """What was sampled, by function."""

    name: str = ""
    samples: float = 0.0
    weights: SampleWeights = field(default_factory=dict)

    def add(self, name: str, is_kernel: bool, weight: float) -> None:
        """More of a function."""
        of = symbol(name), is_kernel
        self.weights[of] = self.weights.get(of, 0.0) + weight


def of_events(events: Iterable[SampledEvent], unit: str, text: ProfileText) -> Reading:
    """The functions of one event: one that follows a clock if there is, and then that with most samples."""
    there = [event for event in events if any(event.weights.values())]
    read = max(
        there, key=lambda event: (is_time(f"{unit} of {event.name}"), event.samples), default=SampledEvent()
    )
    others = [event.name for event in there if event is not read and event.name]
    notes = [f"Only samples of {read.name} are shown, not those of {join_and(others)}."] if others else []
    return of_functions(read.weights, f"{unit} of {read.name}" if read.name else unit, text, notes)


def of_functions(
    weights: Mapping[tuple[str, bool], float], unit: str, text: ProfileText, notes: Iterable[str] = ()
) -> Reading:
    """Functions with their weights, but for those without a symbol, and those of idle CPUs.

    UserError if there are none, or if most lines were not understood.
    """
    things = [
        MeasuredThing(name, weight, (MeasuredPart(name, weight, is_kernel=is_kernel),))
        for (name, is_kernel), weight in weights.items()
        if name and not (is_kernel and _IDLE.fullmatch(name))
    ]
    if not sum(thing.weight for thing in things):
        raise UserError(
            "no function but those of idle CPUs has a share of the samples: "
            "is the file whole, and were symbols found?"
        )
    if len(text.not_read) > max(len(things), sum(weights.values())):
        at, written = text.not_read[0]
        raise UserError(f"line {at}: most lines are not of this format, such as {written[:60]!r}")
    return Reading([], measured=measured("functions", unit, things, text, [*notes, *_left_out(weights)]))


def _left_out(weights: Mapping[tuple[str, bool], float]) -> Iterator[str]:
    """What the kernel's functions lack, where it is a hundredth or more."""
    kernel = {name: weight for (name, is_kernel), weight in weights.items() if is_kernel}
    total = sum(kernel.values()) or 1.0
    idle = sum(weight for name, weight in kernel.items() if _IDLE.fullmatch(name))
    for weight, why in (kernel.get("", 0.0), "has no symbol"), (idle, "is of idle CPUs"):
        if weight >= total / 100:
            yield f"{weight / total:.0%} of what was measured in the kernel {why}, and is left out."
