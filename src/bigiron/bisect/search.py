"""Bisecting (docs/howto/bisect.md): measures candidates one after the other until the culprit is known.

The folder contains `bisect.json` with the question and the outcome of each candidate, the study of the
measured candidates, and for commits a log for git. The next candidate depends only on these, so a killed
bisection can continue.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import msgspec

from bigiron.bisect import bisection, target
from bigiron.bisect.bisection import CandidateGraph, Culprit, Measured, Search, SearchResult, Value
from bigiron.bisect.speculative import SpeculativeBuilds
from bigiron.bisect.target import CandidateCells, Target
from bigiron.bisect.timed_bisection import MOST_CANDIDATES, Chances, TimedSearch
from bigiron.errors import BuildHostError, MachineError, UserError
from bigiron.study.spec import Variant
from bigiron.util import decode
from bigiron.util.cache_dir import write_whole

FORMAT = 3


class CannotMeasureError(Exception):
    """A candidate does not build or boot."""

    def __init__(
        self, reason: str, console: str = "", *, is_input: bool = False, is_lasting: bool = False
    ) -> None:
        """`is_lasting`: the candidate itself is the cause, so that it will fail again."""
        super().__init__(reason)
        self.reason, self.console, self.is_input, self.is_lasting = reason, console, is_input, is_lasting


class Candidates(Protocol):
    """The candidates of a bisection."""

    @property
    def question(self) -> dict[str, Any]:
        """Identifies the candidates, as values of JSON."""

    @property
    def history(self) -> CandidateGraph:
        """The candidates and their parents, without the old end."""

    @property
    def old(self) -> str:
        """The end with the old value."""

    @property
    def new(self) -> str:
        """The end with the new value."""

    @property
    def merge_bases(self) -> tuple[str, ...]:
        """The merge bases of the ends, if neither end contains the other; they must have the old value."""

    def variant(self, name: str) -> Variant:
        """The variant of a candidate, built if necessary. CannotMeasureError if it does not build."""

    def build_command(self, name: str) -> list[str]:
        """The arguments of `bigiron` that build a candidate in advance; empty if nothing is to be built."""

    def image(self, variant: Variant) -> str:
        """Equal for two variants that run the same image with the same settings."""

    def idle(self, name: str, images: Sequence[Variant]) -> bool:
        """Whether it cannot change anything, judging by the variants that were built."""

    def same_as(self, name: str, others: Mapping[str, Variant | None]) -> str | None:
        """The other candidate that has the same image, as far as known without building.

        A None variant failed.
        """

    def title(self, name: str) -> str:
        """Its name for people."""

    def reverted(self, name: str) -> Variant | str:
        """The new end without the candidate; or why there is none.

        CannotMeasureError if it does not build.
        """

    def log(self, culprit: str, measured: Mapping[str, Measured]) -> str:
        """How the culprit was found, as a log for git; empty if the candidates are not commits."""


class CandidateOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a candidate: measured, the same as another one, or not measurable."""

    variant: Variant | None = None
    same_as: str = ""
    why: str = ""
    """Why it is the same as the other one, or why it failed."""
    is_input: bool = False
    is_lasting: bool = False
    """Whether it will fail again; if not, the next run tries it again."""
    console: str = ""

    @property
    def failed(self) -> bool:
        """Whether it has no value."""
        return not (self.variant or self.same_as)


class BisectionState(msgspec.Struct, kw_only=True):
    """bisect.json."""

    format: int = FORMAT
    question: dict[str, Any]
    by: str = ""
    """The target, once it is known."""
    outcomes: dict[str, CandidateOutcome] = {}


@dataclass(frozen=True)
class Result:
    """The result of a bisection."""

    target: Target | None
    """None: the ends do not differ."""
    before: Value
    after: Value
    findings: list[SearchResult]
    reverts: Mapping[str, Value | str]
    """By culprit: the value of the new end without it, or why it is unknown."""
    values: Mapping[str, Measured]
    outcomes: Mapping[str, CandidateOutcome]
    idle: int
    """How many candidates cannot change anything."""

    @property
    def boots(self) -> int:
        """How many candidates were measured, without reverts."""
        return sum(outcome.variant is not None for outcome in self.outcomes.values())


@dataclass
class Bisection:
    """A bisection whose state is kept in a folder, so that it can be resumed."""

    folder: Path
    candidates: Candidates
    measure: Callable[[Variant], CandidateCells]
    """Boot and measure, or read an existing measurement. CannotMeasureError if that fails."""
    on_step: Callable[[str], None]
    question: dict[str, Any]
    by: Target | None
    _cells: dict[str, CandidateCells] = field(default_factory=dict)
    _values: dict[str, Measured] = field(default_factory=dict)
    _reported: set[str] = field(default_factory=set)
    _speculative: SpeculativeBuilds = field(default_factory=SpeculativeBuilds)
    _search: Callable[[], Search] | None = None
    """Starts the search from the beginning; None until both ends are known."""

    def __post_init__(self) -> None:
        self._state = _read_state(self.folder, self.question)

    def find(self) -> Result:
        """Continue until the culprit is known."""
        try:
            return self._find()
        finally:
            self._speculative.stop()

    def _find(self) -> Result:
        candidates = self.candidates
        old, new = self._end(candidates.old), self._end(candidates.new)
        by = self._target(old, new)
        if by is None:
            return self._result(None, (), (), [], {})
        before, after = by.value(old), by.value(new)
        for name, value in ((candidates.old, before), (candidates.new, after)):
            self._values[name] = value
            self._report(name, by, value)
        for name in candidates.merge_bases:
            if not by.rule.same(by.value(self._end(name)), before):
                raise UserError(
                    f"the merge base {candidates.title(name)} already differs from the good end, so the "
                    "change was made on the good branch: give the merge base as --good or --bad"
                )
        self._search = partial(
            bisection.search, candidates.history, before, candidates.new, after, by.rule, self._idle
        )
        findings = bisection.run(self._search(), lambda name: self._value(name, by))
        self._search = None
        self._speculative.stop()
        for number, one in enumerate(findings, 1):
            if isinstance(one, Culprit):
                self._write_log(one.name, number)
        reverts = {one.name: self._reverted(one, by) for one in findings if isinstance(one, Culprit)}
        return self._result(by, before, after, findings, reverts)

    def _result(
        self,
        by: Target | None,
        before: Value,
        after: Value,
        findings: list[SearchResult],
        reverts: dict[str, Value | str],
    ) -> Result:
        idle = sum(self._idle(name) for name in self.candidates.history.names)
        return Result(by, before, after, findings, reverts, self._values, self._state.outcomes, idle)

    def _target(self, old: CandidateCells, new: CandidateCells) -> Target | None:
        by = self.by
        if by:
            by.check(old, new)
        elif self._state.by:
            by = target.parse(self._state.by)
        elif by := target.most_changed(old, new):
            self._state.by = by.option
            self._save()
            self.on_step(f"bisecting on {by.option}, which differs most between the ends")
        return by

    def _end(self, name: str) -> CandidateCells:
        """The measurement of an end. Raises if it cannot be measured."""
        outcome = self._outcome(name)
        if outcome.failed:
            failed = CannotMeasureError(outcome.why, outcome.console, is_input=outcome.is_input)
            raise _of_end(self.candidates.title(name), failed)
        try:
            return self._measured(name)
        except CannotMeasureError as error:
            raise _of_end(self.candidates.title(name), error) from None

    def _measured(self, name: str) -> CandidateCells:
        outcome = self._state.outcomes[name]
        if outcome.same_as:
            return self._measured(outcome.same_as)
        assert outcome.variant
        if name not in self._cells:
            self._cells[name] = self.measure(outcome.variant)
        return self._cells[name]

    def _value(self, name: str, by: Target) -> Measured:
        if name not in self._values:
            value = None
            if not self._outcome(name).failed:
                try:
                    value = by.value(self._measured(name))
                except CannotMeasureError as error:  # its measurement was deleted
                    self._state.outcomes[name] = _failure(error)
            self._values[name] = value
            self._report(name, by, value)
        return self._values[name]

    def _outcome(self, name: str) -> CandidateOutcome:
        """The outcome of a candidate, which is tried unless its outcome is known."""
        if name not in self._state.outcomes:
            try:
                self._state.outcomes[name] = self._try(name)
            except CannotMeasureError as error:
                self._state.outcomes[name] = _failure(error)
            self._save()
        return self._state.outcomes[name]

    def _try(self, name: str) -> CandidateOutcome:
        measured = self._variants()
        unbuilt = {other: None for other, outcome in self._state.outcomes.items() if outcome.failed}
        if same := self.candidates.same_as(name, {**unbuilt, **measured}):
            if same in unbuilt:
                failed = self._state.outcomes[same]
                raise CannotMeasureError(
                    f"same as {self.candidates.title(same)}: {failed.why}", is_lasting=failed.is_lasting
                )
            return CandidateOutcome(same_as=same, why="no file of its image differs")
        self._speculative.finish(name)
        variant = self.candidates.variant(name)
        image = self.candidates.image(variant)
        for other, theirs in measured.items():
            if self.candidates.image(theirs) == image:
                return CandidateOutcome(same_as=other, why="its image is the same")
        self._build_speculatively(name)
        self._cells[name] = self.measure(variant)
        return CandidateOutcome(variant=variant)

    def _build_speculatively(self, name: str) -> None:
        """Build what is needed next while this candidate boots, for either result of this one."""
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
                self._speculative.start(other, command)

    def _variants(self) -> dict[str, Variant]:
        return {name: outcome.variant for name, outcome in self._state.outcomes.items() if outcome.variant}

    def _idle(self, name: str) -> bool:
        return self.candidates.idle(name, list(self._variants().values()))

    def _reverted(self, culprit: Culprit, by: Target) -> Value | str:
        """The value of the new end without the culprit, or why it is unknown."""
        try:
            variant = self.candidates.reverted(culprit.name)
            return variant if isinstance(variant, str) else by.value(self.measure(variant))
        except BuildHostError:
            raise
        except (CannotMeasureError, UserError) as error:
            return str(error)

    def _report(self, name: str, by: Target, value: Measured) -> None:
        """Report each candidate once."""
        if name in self._reported:
            return
        self._reported.add(name)
        outcome, title = self._state.outcomes[name], self.candidates.title(name)
        if value is None:
            self.on_step(f"{title}: skipped: {outcome.why}")
            return
        free = (
            f" (same as {self.candidates.title(outcome.same_as)}: {outcome.why})" if outcome.same_as else ""
        )
        self.on_step(f"{title}: {by.words(value)}{free}")

    def _write_log(self, culprit: str, number: int) -> None:
        if text := self.candidates.log(culprit, self._values):
            name = "bisect.log" if number == 1 else f"bisect-{number}.log"
            write_whole(self.folder / name, text.encode())

    def _save(self) -> None:
        """Save the state without failures of the ends, and without failures that may not happen again."""
        ends = self.candidates.old, self.candidates.new
        lasting = {
            name: outcome
            for name, outcome in self._state.outcomes.items()
            if not outcome.failed or (outcome.is_lasting and name not in ends)
        }
        _save_state(self.folder, msgspec.structs.replace(self._state, outcomes=lasting))


def _failure(error: CannotMeasureError) -> CandidateOutcome:
    return CandidateOutcome(
        why=error.reason, console=error.console, is_input=error.is_input, is_lasting=error.is_lasting
    )


def _read_state(folder: Path, question: dict[str, Any]) -> BisectionState:
    """The state in the folder. UserError if it belongs to another question."""
    path = folder / "bisect.json"
    try:
        state = decode.from_json(path.read_bytes(), BisectionState)
    except FileNotFoundError:
        return BisectionState(question=question)
    except (OSError, msgspec.DecodeError) as error:
        raise UserError(f"{path} cannot be read: {error}: give another -o, or delete it") from None
    if state.format != FORMAT:
        raise UserError(f"{path} has format {state.format}, but this bigiron reads {FORMAT}: give another -o")
    for key in {**state.question, **question}:
        was, now = state.question.get(key), question.get(key)
        if was != now:
            raise UserError(f"{folder} bisects with {key} = {was}, not {now}: give another -o, or delete it")
    return state


def _save_state(folder: Path, state: BisectionState) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / "bisect.json", msgspec.json.format(msgspec.json.encode(state)) + b"\n")


@dataclass(frozen=True)
class TimedResult:
    """The result of a bisection of throughput."""

    chances: Chances
    runs: Mapping[str, int]
    """The number of runs of each candidate that ran."""
    skipped: Mapping[str, str]
    """Why candidates could not run."""

    @property
    def all_runs(self) -> int:
        """The number of runs of all candidates."""
        return sum(self.runs.values())


@dataclass
class TimedBisection:
    """A bisection of throughput, which is noisy: it ends when it is confident, or after `most_runs`."""

    folder: Path
    candidates: Candidates
    run: Callable[[Variant, int], float]
    """The throughput of one repetition of a variant, measured unless it exists.

    CannotMeasureError if it fails.
    """
    on_step: Callable[[str], None]
    question: dict[str, Any]
    tolerance: float
    most_runs: int

    def find(self) -> TimedResult:
        """Run the most informative candidate, one after the other."""
        candidates = self.candidates
        if (number := len(candidates.history.names)) > MOST_CANDIDATES:
            raise UserError(
                f"{number} candidates, and --by throughput takes at most {MOST_CANDIDATES}: use a count first"
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
    """The error for an end that cannot be measured."""
    reason = f"the end {title} cannot be measured: {error.reason}"
    return UserError(reason) if error.is_input else MachineError(reason, error.console)
