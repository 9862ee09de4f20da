"""What one step of a series does: the images compared, the workloads that reach the change, their counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from bigiron import kernels
from bigiron.analysis.probes import instructions as executed
from bigiron.errors import MachineError
from bigiron.kernels import Kernel, image_functions
from bigiron.kernels.image_equality import Sameness, sameness
from bigiron.kernels.image_functions import FunctionDifferences, Image
from bigiron.patch import compared as comparing
from bigiron.patch import luck, outlook
from bigiron.patch.bench import Bench, Executed, Subject, Wanted
from bigiron.patch.compared import ALL, SCREEN, Compared
from bigiron.patch.options import off
from bigiron.patch.outlook import Grown, PredictedEffect
from bigiron.patch.series import PatchSeries, Step
from bigiron.util.english import first_n, join_and, plural

_MOST_GROWN = 4  # changes whose growth is measured
_MOST_CALLS = 8  # system calls that are named
_SYSTEM_CALL = "__x64_sys_"
_NAMED = 6  # functions
_WHOLE_FILES = "-U1000000"  # of git diff: lines around a change


@dataclass(frozen=True)
class Examined:
    """What is known of one step, compared with the kernel before it."""

    before: Step
    after: Step
    kernels: tuple[str, str]
    same: Sameness = ""
    functions: FunctionDifferences | None = None
    """Which functions differ; None: the images cannot be compared by function, or are the same."""
    not_compiled: tuple[str, ...] = ()  # changed files that the configuration does not build
    options_off: tuple[tuple[str, ...], ...] = ()
    """Alternatives that changed lines need, where the images are the same."""
    compared: tuple[Compared, ...] = ()  # the workloads that ran
    not_reached: tuple[Subject, ...] = ()
    system_calls: tuple[str, ...] = ()  # that lead to the change by direct calls, where no workload does
    tables: tuple[str, ...] = ()  # variables that hold a pointer to a function that leads there
    ran_anyway: tuple[Subject, ...] = ()
    """That reach no changed function: they were asked for, or what differs may change any."""
    elsewhere: tuple[Subject, ...] = ()  # that reach one only in interrupts and kernel threads
    grown: tuple[Grown, ...] = ()
    effects: tuple[PredictedEffect, ...] = ()
    why_not: str = ""  # why there are no counts: it does not build, or it does not boot

    @property
    def changed(self) -> list[Compared]:
        """The workloads in which something changed."""
        return [one for one in self.compared if one.changes]

    @property
    def worse(self) -> list[Compared]:
        """The workloads that are worse."""
        return [one for one in self.compared if one.worse]

    @property
    def failed(self) -> list[Compared]:
        """The workloads that could not be compared."""
        return [one for one in self.compared if one.failed]

    @property
    def reached(self) -> int:
        """How many workloads reach a changed function, in any mode, or may reach one."""
        return len({one.subject.name for one in self.compared if one.subject not in self.ran_anyway})

    @property
    def workloads(self) -> int:
        """How many workloads there are, in any mode."""
        return len({one.subject.name for one in self.compared} | {one.name for one in self.not_reached})


@dataclass(frozen=True)
class Reach:
    """Which workloads reach a change."""

    run: Sequence[Subject]  # those that reach it or may, and those that run in any case
    others: Sequence[Subject] = ()
    anyway: Sequence[Subject] = ()  # of those that run: they do not reach it
    elsewhere: Sequence[Subject] = ()  # of those that run: they reach it outside of process context only
    calls: Sequence[str] = ()  # system calls that lead there, where no workload does
    tables: Sequence[str] = ()

    @property
    def reached(self) -> set[str]:
        """The names of those that reach it or may."""
        return {one.name for one in self.run if one not in self.anyway}


@dataclass
class Examiner:
    """Compares kernels of one series, whose base shows which workload executes which function."""

    bench: Bench
    base: Kernel
    subjects: Sequence[Subject]
    cpus: Sequence[int]  # for the growth
    say: Callable[[str], None]
    others: Sequence[Subject] = ()  # that are tried where none of the subjects reaches a change
    _images: dict[str, Image | None] = field(default_factory=dict)
    _ran: list[Kernel] = field(default_factory=list)
    """The kernels on which workloads ran, oldest first."""

    def examine(
        self, before: tuple[Step, Kernel], after: tuple[Step, Kernel], series: PatchSeries
    ) -> Examined:
        """Compare two kernels of the series. MachineError if the base runs nothing."""
        steps, both = (before[0], after[0]), (before[1], after[1])
        names = both[0].name, both[1].name
        left_out = _not_compiled(both, series.files(*steps))
        if same := sameness(*both):
            self.say(f"{names[0]} and {names[1]}: the images are the same")
            options = off(series.diff(*steps, _WHOLE_FILES), both)
            return Examined(*steps, names, same, not_compiled=left_out, options_off=options)
        functions = self._differences(*both)
        self.say(_in_words(functions))
        if not self._ran:
            if why := self.bench.why_not_run(self.subjects[0], self.base, reach=True):
                raise MachineError(why)
            self._ran.append(self.base)
        reach = self._reaching(both[0], functions)
        found = Examined(
            *steps,
            names,
            functions=functions,
            not_compiled=left_out,
            not_reached=tuple(reach.others),
            system_calls=tuple(reach.calls),
            tables=tuple(reach.tables),
            ran_anyway=tuple(reach.anyway),
            elsewhere=tuple(reach.elsewhere),
        )
        return self._counted(found, both, reach.run) if reach.run else found

    def _counted(self, found: Examined, both: tuple[Kernel, Kernel], run: Sequence[Subject]) -> Examined:
        """Run what reaches the change on both kernels, and follow what changed."""
        runs = (one for one in run if not self.bench.why_failed(one, both[0]))
        if (first := next(runs, None)) is not None and (why := self.bench.why_not_run(first, both[1])):
            self.say(why)
            return replace(found, why_not=why)
        counted = self._compare(both, found.functions, run)
        self._ran.append(both[1])
        counted = luck.with_alignments(self.bench, counted, *both)
        changed = outlook.most_changed(counted)[:_MOST_GROWN]
        if not changed:
            return replace(found, compared=tuple(counted))
        self.say(f"growth of {plural(len(changed), 'change')}, and predictions")
        return replace(
            found,
            compared=tuple(counted),
            grown=tuple(outlook.grown(self.bench, changed, *both, self.cpus)),
            effects=tuple(outlook.effects(self.bench, changed[0][0], *both)),
        )

    def _compare(
        self, both: tuple[Kernel, Kernel], functions: FunctionDifferences | None, run: Sequence[Subject]
    ) -> list[Compared]:
        """All these workloads after few boots, then those that seem to differ after more."""
        changed = functions.names if functions else ()

        def count(subjects: Sequence[Subject], boots: tuple[Sequence[int], Sequence[int]]) -> list[Compared]:
            compare = partial(comparing.compare, self.bench, boots=boots, changed=changed)
            wanted = [Wanted(one, list(zip(both, boots, strict=True))) for one in subjects]
            return self.bench.count(wanted, lambda one: compare(one, before=both[0], after=both[1]))

        counted = count(run, SCREEN)
        seem = [one.subject for one in counted if one.may_differ]
        self.say(f"{len(seem)} of {plural(len(run), 'workload')} may differ")
        again = {one.subject.title: one for one in count(seem, (ALL, ALL))}
        return [again.get(one.subject.title, one) for one in counted]

    def _reaching(self, before: Kernel, functions: FunctionDifferences | None) -> Reach:
        """The workloads that execute a changed function on the kernel before.

        Where it has none, because only data and new functions differ, or nothing is known of functions, all
        may. So may a workload that fails there: comparing it tells why. If what differs is executed at boot,
        or is a table of functions, all subjects run.
        """
        if not (functions and functions.of_base):
            return Reach(self.subjects)
        changed = {*map(executed.same_function, (*functions.of_base, *functions.users))}
        found = self._reaching_of(self.subjects, before, changed)
        if not found.reached and self.others:
            self.say("no workload reaches a changed function: others are tried")
            found = self._reaching_of([*self.subjects, *self.others], before, changed)
        names = {one.name for one in (*found.run, *found.others)}
        self.say(f"{len(found.reached)} of {plural(len(names), 'workload')} reach a changed function")
        if not found.reached:
            calls, tables = self._leading_to(before, functions)
            found = replace(found, calls=calls, tables=tables)
        if not functions.everywhere:
            return found
        more = [one for one in found.others if one in self.subjects]
        others = [one for one in found.others if one not in self.subjects]
        return replace(found, run=[*found.run, *more], others=others, anyway=[*found.anyway, *more])

    def _reaching_of(self, subjects: Sequence[Subject], before: Kernel, changed: set[str]) -> Reach:
        self.bench.count(
            [Wanted(one, [(self.base, [1])], reach=True) for one in subjects],
            lambda one: self.bench.functions(one, self.base),
        )
        run, others, anyway, elsewhere = (list[Subject]() for _ in range(4))
        for one in subjects:
            ran = self._executed(one)
            may = self.bench.why_failed(one, before) or self.bench.why_failed(one, self.base)
            reaches = bool(may) or not changed.isdisjoint(ran.process)
            is_elsewhere = not reaches and not changed.isdisjoint(ran.elsewhere)
            (run if reaches or is_elsewhere or one.always else others).append(one)
            if is_elsewhere:
                elsewhere.append(one)
            elif one.always and not reaches:
                anyway.append(one)
        return Reach(run, others, anyway, elsewhere)

    def _executed(self, subject: Subject) -> Executed:
        """What a workload executes on the kernel before.

        Where it did not run on that one, no step since the last one on which it ran has changed a function
        that it executes, so it still executes the same ones.
        """
        ran = (self.bench.functions(subject, kernel) for kernel in reversed(self._ran))
        return next(filter(None, ran), Executed())

    def _leading_to(self, kernel: Kernel, functions: FunctionDifferences) -> tuple[list[str], list[str]]:
        """The system calls that are fewest calls away, and the tables of functions on the way."""
        image = self._image(kernel)
        assert image
        distance = image_functions.leads_to(image.callers(), functions.of_base)
        calls = [name for name in distance if name.startswith(_SYSTEM_CALL)]  # nearest first
        found = image.pointers_to([name for name in distance if distance[name] <= 2])
        tables = sorted({table for tables in found.values() for table in tables})
        return [name.removeprefix(_SYSTEM_CALL) for name in calls[:_MOST_CALLS]], tables[:_MOST_CALLS]

    def _differences(self, before: Kernel, after: Kernel) -> FunctionDifferences | None:
        one, other = self._image(before), self._image(after)
        return image_functions.differences(one, other) if one and other else None

    def _image(self, kernel: Kernel) -> Image | None:
        if kernel.sha256 not in self._images:
            self._images[kernel.sha256] = image_functions.read(kernel)
        return self._images[kernel.sha256]


def _not_compiled(both: tuple[Kernel, Kernel], files: Sequence[str]) -> tuple[str, ...]:
    """The files of C that neither kernel was compiled from."""
    known = [kernels.compiled_from(kernel) for kernel in both]
    if None in known:
        return ()
    compiled = frozenset[str]().union(*(one or () for one in known))
    return tuple(file for file in files if file.endswith((".c", ".h", ".S")) and file not in compiled)


def _in_words(functions: FunctionDifferences | None) -> str:
    """Which functions differ.

    >>> _in_words(FunctionDifferences(("f", "g"), ("h",), ()))
    '3 functions differ: f, g and h (new)'
    >>> _in_words(FunctionDifferences(("f",), (), (), everywhere=("f",)))
    '1 function differs: f; f (used at boot, or a table of functions) may change any: every workload runs'
    """
    if functions is None:
        return "the images have no symbols that can be compared: every workload runs"
    if not functions:
        return "no function differs, data does: every workload runs"
    if not functions.of_base:
        names = _named([f"{name} (new)" for name in functions.added])
        return f"only new functions and data differ ({names}): every workload runs"
    named = [*functions.changed, *(f"{name} (new)" for name in functions.added)]
    named += [f"{name} (gone)" for name in functions.removed]
    verb = "differs" if len(named) == 1 else "differ"
    text = f"{plural(len(named), 'function')} {verb}: {_named(named)}"
    if not functions.everywhere:
        return text
    why = f"{_named(list(functions.everywhere))} (used at boot, or a table of functions)"
    return f"{text}; {why} may change any: every workload runs"


def _named(functions: list[str]) -> str:
    return first_n(functions, _NAMED) if len(functions) > _NAMED else join_and(functions)
