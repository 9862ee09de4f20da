"""What one step of a series does: the images compared, the workloads that reach the change, their counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from bigiron import kernels
from bigiron.analysis.probes import instructions as executed
from bigiron.kernels import Kernel, image_functions
from bigiron.kernels.image_equality import Sameness, sameness
from bigiron.kernels.image_functions import FunctionDifferences, Image
from bigiron.patch import compared as comparing
from bigiron.patch import outlook
from bigiron.patch.bench import Bench, Subject, Wanted
from bigiron.patch.compared import ALL, SCREEN, Compared
from bigiron.patch.outlook import Effect, Grown
from bigiron.patch.series import Step
from bigiron.util.english import first_n, join_and, plural

_MOST_GROWN = 4  # changes whose growth is measured
_MOST_CALLS = 8  # system calls that are named
_SYSTEM_CALL = "__x64_sys_"
_NAMED = 6  # functions


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
    compared: tuple[Compared, ...] = ()  # the workloads that ran
    not_reached: tuple[Subject, ...] = ()
    system_calls: tuple[str, ...] = ()  # that lead to the change by direct calls, where no workload does
    tables: tuple[str, ...] = ()  # variables that hold a pointer to a function that leads there
    grown: tuple[Grown, ...] = ()
    effects: tuple[Effect, ...] = ()
    why_not: str = ""  # why there is no kernel: it does not build

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
        """How many workloads ran, in any mode."""
        return len({one.subject.name for one in self.compared})

    @property
    def workloads(self) -> int:
        """How many workloads there are, in any mode."""
        return len({one.subject.name for one in self.compared} | {one.name for one in self.not_reached})


@dataclass
class Examiner:
    """Compares kernels of one series, whose base shows which workload executes which function."""

    bench: Bench
    base: Kernel
    subjects: Sequence[Subject]
    cpus: Sequence[int]  # for the growth
    say: Callable[[str], None]
    _images: dict[str, Image | None] = field(default_factory=dict)
    _reach: dict[str, set[str]] = field(default_factory=dict)

    def examine(
        self, before: tuple[Step, Kernel], after: tuple[Step, Kernel], files: Sequence[str]
    ) -> Examined:
        """Compare two kernels. `files`: those in which their sources differ."""
        steps, both = (before[0], after[0]), (before[1], after[1])
        names = both[0].name, both[1].name
        left_out = _not_compiled(both, files)
        if same := sameness(*both):
            self.say(f"{names[0]} and {names[1]}: the images are the same")
            return Examined(*steps, names, same, not_compiled=left_out)
        functions = self._differences(*both)
        self.say(_in_words(functions))
        reaching, others = self._reaching(functions)
        if not reaching:
            assert functions
            calls, tables = self._leading_to(both[0], functions)
            return Examined(
                *steps, names, "", functions, left_out, (), tuple(others), tuple(calls), tuple(tables)
            )
        return self._counted(steps, both, functions, left_out, reaching, others)

    def _counted(
        self,
        steps: tuple[Step, Step],
        both: tuple[Kernel, Kernel],
        functions: FunctionDifferences | None,
        left_out: tuple[str, ...],
        reaching: Sequence[Subject],
        others: Sequence[Subject],
    ) -> Examined:
        """Run what reaches the change on both kernels, and follow what changed."""
        counted = self._compare(both, functions, reaching)
        changed = list(outlook.most_changed(counted).values())[:_MOST_GROWN]
        grown: list[Grown] = []
        effects: list[Effect] = []
        if changed:
            self.say(f"growth of {plural(len(changed), 'change')}, and predictions")
            grown = outlook.grown(self.bench, changed, *both, self.cpus)
            effects = outlook.effects(self.bench, changed[0][0].subject, *both)
        return Examined(
            *steps,
            (both[0].name, both[1].name),
            "",
            functions,
            left_out,
            tuple(counted),
            tuple(others),
            grown=tuple(grown),
            effects=tuple(effects),
        )

    def _compare(
        self, both: tuple[Kernel, Kernel], functions: FunctionDifferences | None, reaching: Sequence[Subject]
    ) -> list[Compared]:
        """All reaching workloads after few boots, then those that seem to differ after more."""
        before, after = both
        runs = (one for one in reaching if not self.bench.why_failed(one, before))
        if (first := next(runs, None)) is not None:
            self.bench.require_boot(first, after)
        for kernel, boots in zip(both, SCREEN, strict=True):
            self.bench.measure([Wanted(one, [kernel], boots) for one in reaching])
        changed = functions.names if functions else ()
        compare = partial(comparing.compare, self.bench, before=before, after=after, changed=changed)
        counted = [compare(one, boots=SCREEN) for one in reaching]
        seem = [one.subject for one in counted if one.may_differ]
        self.say(f"{len(seem)} of {plural(len(reaching), 'workload')} may differ")
        self.bench.measure([Wanted(one, [before, after], ALL) for one in seem])
        return [compare(one.subject, boots=(ALL, ALL)) if one.may_differ else one for one in counted]

    def _reaching(self, functions: FunctionDifferences | None) -> tuple[list[Subject], list[Subject]]:
        """The workloads that execute a changed function on the base, and the others.

        Where the base has none, because only data and new functions differ, or nothing is known of functions,
        all may. So may a workload that fails on the base: comparing it tells why.
        """
        if not (functions and functions.of_base):
            return list(self.subjects), []
        if not self._reach:
            self.bench.require_boot(self.subjects[0], self.base)
            self.bench.measure([Wanted(one, [self.base], [1], reach=True) for one in self.subjects])
            self._reach = {
                one.title: {*map(executed.same_function, self.bench.functions(one, self.base))}
                for one in self.subjects
            }
        changed = {*map(executed.same_function, functions.of_base)}
        reaching = [
            one
            for one in self.subjects
            if one.always
            or self.bench.why_failed(one, self.base)
            or not changed.isdisjoint(self._reach[one.title])
        ]
        others = [one for one in self.subjects if one not in reaching]
        self.say(
            f"{len({one.name for one in reaching})} of {len({one.name for one in self.subjects})} workloads "
            "reach a changed function"
        )
        return reaching, others

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
    return f"{plural(len(named), 'function')} {verb}: {_named(named)}"


def _named(functions: list[str]) -> str:
    return first_n(functions, _NAMED) if len(functions) > _NAMED else join_and(functions)
