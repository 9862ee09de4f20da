"""Bisecting (docs/bisect.md): candidates are measured one after the other, until the culprit is known.

In the folder are `bisect.json`, what was asked and what became of each candidate, the study of those that
were measured, and for commits a log that git takes. What is measured next depends on nothing else, so that a
bisection that was killed goes on where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import msgspec

from bigiron.bisect import bisection, target
from bigiron.bisect.bisection import Culprit, Finding, History, Measured, Search, Value
from bigiron.bisect.speculative import SpeculativeBuilds
from bigiron.bisect.target import Cells, LookedAt
from bigiron.bisect.timed_bisection import MOST_CANDIDATES, Chances, TimedSearch
from bigiron.errors import CannotBuildError, MachineError, UserError
from bigiron.study import store
from bigiron.study.spec import Variant
from bigiron.util import decode

FORMAT = 3


class CannotMeasureError(Exception):
    """A candidate that does not build or boot, and why."""

    def __init__(
        self, reason: str, console: str = "", *, is_input: bool = False, is_lasting: bool = False
    ) -> None:
        """`is_lasting`: the candidate itself fails, and will again."""
        super().__init__(reason)
        self.reason, self.console, self.is_input, self.is_lasting = reason, console, is_input, is_lasting


class Candidates(Protocol):
    """What is bisected."""

    @property
    def question(self) -> dict[str, Any]:
        """What tells them from others, as JSON has it."""

    @property
    def history(self) -> History:
        """They and their parents, without the old end."""

    @property
    def old(self) -> str:
        """The end that has the old value."""

    @property
    def new(self) -> str:
        """The end that has the new one."""

    @property
    def parted_at(self) -> tuple[str, ...]:
        """Where the ends part, if neither comes after the other: what is there must have the old value."""

    def variant(self, name: str) -> Variant:
        """What to measure of a candidate, built if it has to be. CannotMeasureError if it cannot be."""

    def build_command(self, name: str) -> list[str]:
        """What builds a candidate beforehand, after `bigiron`; empty where nothing has to be, or can be."""

    def image(self, variant: Variant) -> str:
        """What tells whether two variants run the very same."""

    def idle(self, name: str, images: Sequence[Variant]) -> bool:
        """Whether it cannot change anything, as far as these that were built tell."""

    def same_as(self, name: str, others: Mapping[str, Variant | None]) -> str | None:
        """Which of the others is known to be the same without its being built. None: it does not build."""

    def title(self, name: str) -> str:
        """What people call it."""

    def reverted(self, name: str) -> Variant | str:
        """The new end without it; or why there is none. CannotMeasureError if it does not build."""

    def log(self, culprit: str, measured: Mapping[str, Measured]) -> str:
        """How it was found, as a log that git takes; nothing where git knows nothing of candidates."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a candidate: it is measured, the same as another one, or cannot be measured."""

    variant: Variant | None = None
    same_as: str = ""
    why: str = ""
    """Why it is the same, or what failed."""
    is_input: bool = False
    is_lasting: bool = False
    """Whether what failed will fail again; what will not is tried again by the next run."""
    console: str = ""

    @property
    def failed(self) -> bool:
        """Whether there is no value."""
        return not (self.variant or self.same_as)


class State(msgspec.Struct, kw_only=True):
    """bisect.json."""

    format: int = FORMAT
    question: dict[str, Any]
    by: str = ""
    """What is looked at, once that is known."""
    outcomes: dict[str, Outcome] = {}


@dataclass(frozen=True)
class Result:
    """What a bisection has found."""

    looked_at: LookedAt | None
    """None: nothing differs between the ends."""
    before: Value
    after: Value
    findings: list[Finding]
    reverts: Mapping[str, Value | str]
    """By culprit: the new end's value without it, or why that is not known."""
    values: Mapping[str, Measured]
    outcomes: Mapping[str, Outcome]
    idle: int
    """How many candidates cannot matter."""

    @property
    def boots(self) -> int:
        """How many were measured, reverts not counted."""
        return sum(outcome.variant is not None for outcome in self.outcomes.values())


@dataclass
class Bisection:
    """One that goes on in a folder."""

    folder: Path
    candidates: Candidates
    measure: Callable[[Variant], Cells]
    """Boot and measure, or read what was measured. CannotMeasureError if that fails."""
    on_step: Callable[[str], None]
    question: dict[str, Any]
    by: LookedAt | None
    _cells: dict[str, Cells] = field(default_factory=dict)
    _values: dict[str, Measured] = field(default_factory=dict)
    _told: set[str] = field(default_factory=set)
    _speculative_builds: SpeculativeBuilds = field(default_factory=SpeculativeBuilds)
    _search: Callable[[], Search] | None = None
    """The search from its start, once both ends are known."""

    def __post_init__(self) -> None:
        self._state = _read_state(self.folder, self.question)

    def find(self) -> Result:
        """Go on until it is known what changes the value."""
        try:
            return self._find()
        finally:
            self._speculative_builds.stop()

    def _find(self) -> Result:
        candidates = self.candidates
        old, new = self._end(candidates.old), self._end(candidates.new)
        by = self._looked_at(old, new)
        if by is None:
            return self._result(None, (), (), [], {})
        before, after = by.value(old), by.value(new)
        for name, value in ((candidates.old, before), (candidates.new, after)):
            self._values[name] = value
            self._tell(name, by, value)
        for name in candidates.parted_at:
            if not by.rule.same(by.value(self._end(name)), before):
                raise UserError(
                    f"{candidates.title(name)}, where the two part, has not the value of the good end: what "
                    "changed it came after that on the good one's side; give that commit as --good or --bad"
                )
        self._search = partial(
            bisection.search, candidates.history, before, candidates.new, after, by.rule, self._idle
        )
        findings = bisection.run(self._search(), lambda name: self._value(name, by))
        self._search = None
        self._speculative_builds.stop()
        for number, one in enumerate(findings, 1):
            if isinstance(one, Culprit):
                self._write_log(one.name, number)
        reverts = {one.name: self._reverted(one, by) for one in findings if isinstance(one, Culprit)}
        return self._result(by, before, after, findings, reverts)

    def _result(
        self,
        by: LookedAt | None,
        before: Value,
        after: Value,
        findings: list[Finding],
        reverts: dict[str, Value | str],
    ) -> Result:
        idle = sum(self._idle(name) for name in self.candidates.history.names)
        return Result(by, before, after, findings, reverts, self._values, self._state.outcomes, idle)

    def _looked_at(self, old: Cells, new: Cells) -> LookedAt | None:
        by = self.by
        if by:
            by.check(old, new)
        elif self._state.by:
            by = target.parse(self._state.by)
        elif by := target.most_changed(old, new):
            self._state.by = by.option
            self._save()
            self.on_step(f"looking at {by.option}, which differs most between the ends")
        return by

    def _end(self, name: str) -> Cells:
        """What was measured of an end; it must be there."""
        outcome = self._outcome(name)
        if outcome.failed:
            failed = CannotMeasureError(outcome.why, outcome.console, is_input=outcome.is_input)
            raise _of_end(self.candidates.title(name), failed)
        try:
            return self._measured(name)
        except CannotMeasureError as error:
            raise _of_end(self.candidates.title(name), error) from None

    def _measured(self, name: str) -> Cells:
        outcome = self._state.outcomes[name]
        if outcome.same_as:
            return self._measured(outcome.same_as)
        assert outcome.variant
        if name not in self._cells:
            self._cells[name] = self.measure(outcome.variant)
        return self._cells[name]

    def _value(self, name: str, by: LookedAt) -> Measured:
        if name not in self._values:
            value = None
            if not self._outcome(name).failed:
                try:
                    value = by.value(self._measured(name))
                except CannotMeasureError as error:  # what was measured is there no more
                    self._state.outcomes[name] = _failure(error)
            self._values[name] = value
            self._tell(name, by, value)
        return self._values[name]

    def _outcome(self, name: str) -> Outcome:
        """What becomes of a candidate, found out unless it is known."""
        if name not in self._state.outcomes:
            try:
                self._state.outcomes[name] = self._try(name)
            except CannotMeasureError as error:
                self._state.outcomes[name] = _failure(error)
            self._save()
        return self._state.outcomes[name]

    def _try(self, name: str) -> Outcome:
        there = self._variants()
        unbuilt = {other: None for other, outcome in self._state.outcomes.items() if outcome.failed}
        if same := self.candidates.same_as(name, {**unbuilt, **there}):
            if same in unbuilt:
                failed = self._state.outcomes[same]
                raise CannotMeasureError(
                    f"as {self.candidates.title(same)}: {failed.why}", is_lasting=failed.is_lasting
                )
            return Outcome(same_as=same, why="nothing that its image is made of differs")
        self._speculative_builds.finish(name)
        variant = self.candidates.variant(name)
        image = self.candidates.image(variant)
        for other, theirs in there.items():
            if self.candidates.image(theirs) == image:
                return Outcome(same_as=other, why="its image is the same")
        self._build_ahead(name)
        self._cells[name] = self.measure(variant)
        return Outcome(variant=variant)

    def _build_ahead(self, name: str) -> None:
        """Build what is needed next while this one boots: it may turn out to be as either end is."""
        candidates = self.candidates
        following: set[str | None] = set()
        if name == candidates.old:
            following = {candidates.new}
        elif name == candidates.new:
            following = {bisection.first_needed(candidates.history, name, self._idle)}
        elif self._search:
            ends = (self._values[end] for end in (candidates.old, candidates.new))
            following = {bisection.needed_next(self._search(), {**self._values, name: end}) for end in ends}
        for other in [other for other in following if other and other not in self._state.outcomes]:
            command = self.candidates.build_command(other)
            if command and not self.candidates.same_as(other, self._variants()):
                self._speculative_builds.start(other, command)

    def _variants(self) -> dict[str, Variant]:
        return {name: outcome.variant for name, outcome in self._state.outcomes.items() if outcome.variant}

    def _idle(self, name: str) -> bool:
        return self.candidates.idle(name, list(self._variants().values()))

    def _reverted(self, culprit: Culprit, by: LookedAt) -> Value | str:
        """The new end's value without the culprit."""
        try:
            variant = self.candidates.reverted(culprit.name)
            return variant if isinstance(variant, str) else by.value(self.measure(variant))
        except CannotBuildError:
            raise
        except (CannotMeasureError, UserError) as error:
            return str(error)

    def _tell(self, name: str, by: LookedAt, value: Measured) -> None:
        """A line for each candidate, once."""
        if name in self._told:
            return
        self._told.add(name)
        outcome, title = self._state.outcomes[name], self.candidates.title(name)
        if value is None:
            self.on_step(f"{title}: skipped: {outcome.why}")
            return
        free = f" (as {self.candidates.title(outcome.same_as)}: {outcome.why})" if outcome.same_as else ""
        self.on_step(f"{title}: {by.words(value)}{free}")

    def _write_log(self, culprit: str, number: int) -> None:
        if text := self.candidates.log(culprit, self._values):
            name = "bisect.log" if number == 1 else f"bisect-{number}.log"
            store.write_whole(self.folder / name, text.encode())

    def _save(self) -> None:
        """Without what may succeed next time, and without failures of the ends."""
        ends = self.candidates.old, self.candidates.new
        lasting = {
            name: outcome
            for name, outcome in self._state.outcomes.items()
            if not outcome.failed or (outcome.is_lasting and name not in ends)
        }
        _save_state(self.folder, msgspec.structs.replace(self._state, outcomes=lasting))


def _failure(error: CannotMeasureError) -> Outcome:
    return Outcome(
        why=error.reason, console=error.console, is_input=error.is_input, is_lasting=error.is_lasting
    )


def _read_state(folder: Path, question: dict[str, Any]) -> State:
    """What there is in the folder; UserError if that is of another question."""
    path = folder / "bisect.json"
    try:
        state = decode.from_json(path.read_bytes(), State)
    except FileNotFoundError:
        return State(question=question)
    except (OSError, msgspec.DecodeError) as error:
        raise UserError(f"{path} cannot be read: {error}: give another -o, or delete it") from None
    if state.format != FORMAT:
        raise UserError(f"{path} has format {state.format} and this bigiron reads {FORMAT}: give another -o")
    for key in {**state.question, **question}:
        was, now = state.question.get(key), question.get(key)
        if was != now:
            raise UserError(f"{folder} bisects with {key} = {was}, not {now}: give another -o, or delete it")
    return state


def _save_state(folder: Path, state: State) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    store.write_whole(folder / "bisect.json", msgspec.json.format(msgspec.json.encode(state)) + b"\n")


@dataclass(frozen=True)
class TimedResult:
    """What a bisection of throughput has found."""

    chances: Chances
    runs: Mapping[str, int]
    """Of each candidate that ran."""
    skipped: Mapping[str, str]
    """Why candidates could not be run."""

    @property
    def all_runs(self) -> int:
        """Of all candidates together."""
        return sum(self.runs.values())


@dataclass
class TimedBisection:
    """One of throughput, which has noise: it goes on until it is confident, or has run often enough."""

    folder: Path
    candidates: Candidates
    run: Callable[[Variant, int], float]
    """One repetition of a variant, or what it gave when it ran. CannotMeasureError if it fails."""
    on_step: Callable[[str], None]
    question: dict[str, Any]
    tolerance: float
    most_runs: int

    def find(self) -> TimedResult:
        """Run, one after the other, what tells most."""
        candidates = self.candidates
        if (number := len(candidates.history.names)) > MOST_CANDIDATES:
            raise UserError(
                f"{number} candidates: at most {MOST_CANDIDATES} with --by throughput: use a count first"
            )
        _save_state(self.folder, _read_state(self.folder, self.question))
        ends = candidates.old, candidates.new
        search = TimedSearch(candidates.history, *ends, self.tolerance)
        runs: dict[str, int] = {}
        skipped: dict[str, str] = {}
        while sum(runs.values()) < self.most_runs and not (search.ready and search.chances.decided):
            name = search.next()
            try:
                value = self.run(candidates.variant(name), runs.get(name, 0) + 1)
            except CannotMeasureError as error:
                if name in ends:
                    raise _of_end(candidates.title(name), error) from None
                skipped[name] = error.reason
                search.skip(name)
                self.on_step(f"{candidates.title(name)}: skipped: {error.reason}")
                continue
            runs[name] = runs.get(name, 0) + 1
            search.add(name, value)
            self.on_step(f"{candidates.title(name)}: {value:.6g} operations/s{self._so_far(search)}")
        return TimedResult(search.chances, runs, skipped)

    def _so_far(self, search: TimedSearch) -> str:
        if not search.ready:
            return ""
        chances = search.chances
        likeliest = max(chances.culprit, key=lambda name: chances.culprit[name])
        return (
            f": {self.candidates.title(likeliest)} {chances.culprit[likeliest]:.0%}, none {chances.none:.0%}"
        )


def _of_end(title: str, error: CannotMeasureError) -> Exception:
    """What an end that cannot be measured ends with."""
    reason = f"{title}, an end, cannot be measured: {error.reason}"
    return UserError(reason) if error.is_input else MachineError(reason, error.console)
