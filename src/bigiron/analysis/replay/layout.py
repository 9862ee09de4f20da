"""One order, sampled at random, of what an operation does: where in it each access and each lock lies."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass

from bigiron.analysis.replay.call_tree import CallNode, CriticalSection
from bigiron.analysis.replay.program import Event, ReplayLock
from bigiron.util.lazy import numpy as np

_HAIR = 1e-3  # of an instruction


def sampled_count(per_op: float, chance: np.random.Generator) -> int:
    return int(per_op + chance.random())


@dataclass
class _Held:
    start: float
    end: float
    section: CriticalSection


class OperationLayout:
    """Where in an operation everything lies, in instructions from its start."""

    def __init__(self, chance: np.random.Generator, locks: list[ReplayLock]) -> None:
        self._chance = chance
        self._locks = locks
        self._events: list[tuple[float, Event]] = []
        self._held: list[_Held] = []

    def place(self, call: CallNode, start: float, times: float) -> float:
        """One of so many calls in an operation, which begins there; how many instructions it has."""
        made = []
        for child in call.needed:
            often = min(times, child.times)
            if self._chance.random() * times < often:
                made.append((child, often))
        gaps = self._gaps(len(made) + 1, call.rest / times)
        order = self._chance.permutation(len(made)).tolist() if len(made) > 1 else range(len(made))
        at = start
        for gap, number in zip(gaps, order, strict=False):
            at += gap
            at += self.place(made[number][0], at, made[number][1])
        whole = at + gaps[-1] - start
        for section in call.sections:
            self._held += self._sections(section, start, whole, times)
        if call.sites:
            done = (call.rates / times + self._chance.random(len(call.sites))).astype(int)
            for number in done.nonzero()[0]:
                for at in self._chance.uniform(start, start + whole, done[number]).tolist():
                    self._events.append((at, call.sites[number].event))
        return whole

    def _gaps(self, count: int, length: float) -> list[float]:
        """A length cut in so many by chance, any way as likely as any other.

        It is Dirichlet's distribution, whose function in numpy takes several times as long for so few.
        """
        drawn = self._chance.standard_exponential(count).tolist()
        whole = 0.0
        for each in drawn:  # sum() of Python 3.12 rounds otherwise than that of 3.11
            whole += each
        share = 1.0 / whole
        return [each * share * length for each in drawn]

    def _sections(self, section: CriticalSection, start: float, whole: float, calls: float) -> list[_Held]:
        times = sampled_count(section.per_op / calls, self._chance)
        held = max(section.held, 4 * _HAIR)
        between = np.sort(self._chance.uniform(0, max(0.0, whole - held * times), times))
        begins = start + between + held * np.arange(times)
        return [_Held(begin, begin + held, section) for begin in begins]

    def events(self) -> list[tuple[float, Event]]:
        """In order, with the locks: no task waits for one that it keeps from others who wait for it."""
        placed = self._events + self._locked()
        return sorted(placed, key=lambda event: event[0])

    def _rank(self, held: _Held) -> tuple[int, int]:
        """The order in which locks nest: who holds one may take those after it."""
        lock = self._locks[held.section.lock]
        return (lock.kind not in ("rwsem", "mutex"), held.section.lock)

    def _locked(self) -> list[tuple[float, Event]]:
        """Who would take a lock against the order takes it after it has given the others back."""
        waiting = [(held.start, number, held) for number, held in enumerate(self._held)]
        heapq.heapify(waiting)
        placed: list[_Held] = []
        while waiting:
            start, number, held = heapq.heappop(waiting)
            placed = [other for other in placed if other.end > start]
            after = max((o.end for o in placed if self._rank(o) >= self._rank(held)), default=start)
            if after > start:
                held.start, held.end = after, after + (held.end - held.start)
                heapq.heappush(waiting, (after, number, held))
                continue
            placed.append(held)
        return [event for held in self._held for event in self._taken(held)]

    def _taken(self, held: _Held) -> Iterator[tuple[float, Event]]:
        how = "read" if held.section.shared else "write"
        lock = held.section.lock
        if held.section.tries_in_vain:
            yield held.start, Event("access", 0.0, self._locks[lock].line, "atomic")
        yield held.start, Event("lock", 0.0, lock, how)
        # What ends at a place comes before what begins there.
        yield held.end - _HAIR, Event("unlock", 0.0, lock, how)


def with_work(events: list[tuple[float, Event]], length: float, system_calls: int) -> Iterator[Event]:
    """The events with the instructions between them, and entering the kernel."""
    yield Event("system call", float(system_calls))
    at, held = 0.0, 0
    for place, event in events:
        if event.kind in ("lock", "unlock") and event.how == "write":
            held += 1 if event.kind == "lock" else -1
        if held and event.how == "atomic":
            # Who has a lock has no need of atomic operations: it is `count++`, and nothing waits for it.
            event = event._replace(how="write")
        if place - at >= 1:
            yield Event("work", place - at)
            at = place
        yield event
    if length > at or math.isclose(at, 0.0):
        yield Event("work", max(length - at, 1.0))
