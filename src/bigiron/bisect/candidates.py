"""What is bisected: a list of variants, the commits of a git tree, or options of its configuration; and the
study that measures them.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec

from bigiron import kernels
from bigiron.analysis.comparison import model
from bigiron.bisect.bisection import History, Measured
from bigiron.bisect.search import CannotMeasureError
from bigiron.bisect.target import Cells
from bigiron.errors import CannotBuildError, DoesNotBuildError, UserError
from bigiron.kernels import Kernel
from bigiron.kernels.commits import Commits, build_commit, configured_by, contents_of, name_of_commit
from bigiron.results import measurements, metrics, prediction
from bigiron.simulator import machine_files
from bigiron.study import run as runner
from bigiron.study import store
from bigiron.study.plan import Cell
from bigiron.study.spec import Spec, Variant, check_variant
from bigiron.study.store import CellRecord, Study
from bigiron.util.lazy import polars as pl
from bigiron.workloads import Workload


class _Listed:
    """Candidates in a row, of which git knows nothing."""

    parted_at: tuple[str, ...] = ()

    def idle(self, name: str, images: Sequence[Variant]) -> bool:
        """Nothing is known of those that were not measured."""
        return False

    def build_command(self, name: str) -> list[str]:
        """None is built before it is needed."""
        return []

    def same_as(self, name: str, others: Mapping[str, Variant | None]) -> str | None:
        """None is known to be the same before it is there: see `image`."""
        return None

    def title(self, name: str) -> str:
        """Its name."""
        return name

    def log(self, culprit: str, measured: Mapping[str, Measured]) -> str:
        """No log."""
        return ""


class ListOfVariants(_Listed):
    """Variants in an order: the first is the old end, the last the new one."""

    def __init__(self, variants: Sequence[Variant], arch: str) -> None:
        if len(variants) < 2:
            raise UserError(
                "nothing to bisect: give two kernels or more, --boot-sweep or --set-sweep, or --linux TREE"
            )
        names = [variant.name for variant in variants]
        if len(set(names)) < len(names):
            raise UserError(f"candidates need names that differ, and these are {', '.join(names)}")
        for variant in variants:
            check_variant(variant)
        self._variants, self._arch = {variant.name: variant for variant in variants}, arch
        self.question: dict[str, Any] = {"candidates": [msgspec.to_builtins(one) for one in variants]}
        self.history = History.linear(names)
        self.old, self.new = names[0], names[-1]

    def variant(self, name: str) -> Variant:
        """As it was given."""
        return self._variants[name]

    def image(self, variant: Variant) -> str:
        """Its kernel, boot parameters and settings."""
        kernel = kernels.find(variant.kernel, self._arch).sha256
        return " ".join([kernel, variant.boot, *variant.set])

    def reverted(self, name: str) -> Variant | str:
        """A list has nothing to take back."""
        return ""


class OptionsOfConfiguration(_Listed):
    """Options of the configuration, each set on top of those before it; the old end has none of them."""

    old = "none of the options"

    def __init__(
        self,
        tree: Path,
        options: Sequence[str],
        fragments: Sequence[Path],
        variant: Variant,
        arch: str,
        on_step: Callable[[str], None],
    ) -> None:
        """`variant`: what all have, its boot parameters and settings."""
        for option in options:
            if not _OPTION.fullmatch(option):
                raise UserError(f'--config-option {option}: give CONFIG_NAME=y, =n, a number or "text"')
        if len({option.partition("=")[0] for option in options}) < len(options):
            raise UserError("--config-option: an option is given twice: give each with the value it gets")
        self._tree, self._options, self._fragments = tree, list(options), list(fragments)
        self._all, self._arch, self._on_step = variant, arch, on_step
        self.question: dict[str, Any] = {
            "linux": str(tree),
            "options": self._options,
            "config": _checksums(fragments),
            "boot": variant.boot,
            "set": variant.set,
        }
        self.history = History.linear([self.old, *options])
        self.new = self._options[-1]

    def variant(self, name: str) -> Variant:
        """The kernel with the options up to this one, built."""
        return self._built([] if name == self.old else self._options[: self._options.index(name) + 1])

    def image(self, variant: Variant) -> str:
        """The image's checksum."""
        return kernels.find(variant.kernel, self._arch).sha256

    def reverted(self, name: str) -> Variant | str:
        """All options but this one."""
        if name == self.new:
            return "it is the last option: without it, there are those before it"
        return self._built([option for option in self._options if option != name])

    def _built(self, options: Sequence[str]) -> Variant:
        text = "".join(f"{option}\n" for option in options)
        called = hashlib.sha256(
            f"{self._tree.resolve()}\n{self.question['config']}\n{text}".encode()
        ).hexdigest()
        with tempfile.TemporaryDirectory() as folder:
            fragment = Path(folder) / "options.config"
            fragment.write_text(text, encoding="utf-8")
            with _as_cannot_measure():
                kernel = kernels.build(
                    str(self._tree),
                    [],
                    [*self._fragments, fragment],
                    self._arch,
                    f"options-{called[:12]}",
                    self._on_step,
                    replace=True,
                )
        return msgspec.structs.replace(self._all, name=kernel.name, kernel=kernel.name)


_OPTION = re.compile(r"CONFIG_\w+=\S.*")


@contextmanager
def _as_cannot_measure() -> Iterator[None]:
    """What is the source's or the configuration's fault, as that of a candidate."""
    try:
        yield
    except DoesNotBuildError as error:
        raise CannotMeasureError(str(error), is_input=True, is_lasting=True) from None
    except CannotBuildError:
        raise  # nor will any other build: the search would go astray
    except UserError as error:
        raise CannotMeasureError(str(error), is_input=True) from None


def _checksums(fragments: Sequence[Path]) -> list[str]:
    return [f"{name} {hashlib.sha256(content).hexdigest()}" for name, content in contents_of(fragments)]


class CommitsOfTree:
    """Commits, whose kernels are built."""

    def __init__(
        self,
        commits: Commits,
        fragments: Sequence[Path],
        variant: Variant,
        arch: str,
        on_step: Callable[[str], None],
    ) -> None:
        """`variant`: what all have, its boot parameters and settings."""
        self._commits, self._fragments, self._all = commits, fragments, variant
        self._arch, self._on_step = arch, on_step
        self._configured = configured_by(fragments)
        self.question: dict[str, Any] = {
            "linux": str(commits.tree),
            "good": commits.good,
            "bad": commits.bad,
            "config": _checksums(fragments),
            "boot": variant.boot,
            "set": variant.set,
        }
        self.history = History(commits.parents)
        self.old, self.new, self.parted_at = commits.good, commits.bad, commits.bases
        self._kernels: dict[str, Kernel] = {}
        self._files: dict[tuple[str, ...], frozenset[str] | None] = {}
        self._idle: dict[frozenset[str] | None, dict[str, bool]] = {}

    def variant(self, name: str) -> Variant:
        """Its kernel, built."""
        return self._built(name)

    def build_command(self, name: str) -> list[str]:
        """What `variant` does, as a command."""
        fragments = [f"--config={fragment}" for fragment in self._fragments]
        called = name_of_commit(name, self._configured)
        return [
            *("kernel", "build", f"{self._commits.tree}@{name}", "--arch", self._arch, "--name", called),
            *fragments,
        ]

    def image(self, variant: Variant) -> str:
        """The image's checksum."""
        return self._kernel(variant).sha256

    def idle(self, name: str, images: Sequence[Variant]) -> bool:
        """Whether it changes nothing that kernels are made of that were built from commits around it."""
        compiled = self._compiled(images)
        known = self._idle.setdefault(compiled, {})
        if name not in known:
            known[name] = self._commits.cannot_matter(name, self._arch, compiled)
        return known[name]

    def same_as(self, name: str, others: Mapping[str, Variant | None]) -> str | None:
        """One from which it differs in nothing that that one's image was made of."""
        for other, variant in others.items():
            if self._commits.same_image(
                other, name, self._arch, self._compiled([variant] if variant else [])
            ):
                return other
        return None

    def title(self, name: str) -> str:
        """Its id and its subject."""
        return self._commits.title(name)

    def reverted(self, name: str) -> Variant | str:
        """The bad end without it."""
        if name == self.new:
            return "it is the last commit: without it, the tree is its parent's"
        with tempfile.TemporaryDirectory() as folder:
            patch = Path(folder) / f"revert-{name[:12]}.patch"
            patch.write_bytes(self._commits.revert(name))
            return self._built(self.new, [patch], f"-without-{name[:12]}")

    def log(self, culprit: str, measured: Mapping[str, Measured]) -> str:
        """Git's own, for `git bisect replay`."""
        return _git_log(self._commits, self.history, culprit, measured)

    def _built(self, commit: str, patches: Sequence[Path] = (), without: str = "") -> Variant:
        tree, called = self._commits.tree, f"{without}{self._configured}"
        with _as_cannot_measure():
            kernel = build_commit(tree, commit, self._fragments, self._arch, self._on_step, patches, called)
        return msgspec.structs.replace(self._all, name=kernel.name, kernel=kernel.name)

    def _compiled(self, images: Sequence[Variant]) -> frozenset[str] | None:
        """All files that any of these was compiled from; None where that is not known of one."""
        key = tuple(variant.kernel for variant in images)
        if key not in self._files:
            of_all = [kernels.compiled_from(self._kernel(variant)) for variant in images]
            known = [files for files in of_all if files is not None]
            whole = known and len(known) == len(of_all)
            self._files[key] = frozenset[str]().union(*known) if whole else None
        return self._files[key]

    def _kernel(self, variant: Variant) -> Kernel:
        """Found once: each time, its image's checksum would be verified."""
        name = variant.kernel
        if name not in self._kernels:
            self._kernels[name] = kernels.find(name, self._arch)
        return self._kernels[name]


def _git_log(commits: Commits, history: History, culprit: str, measured: Mapping[str, Measured]) -> str:
    """What `git bisect log` would say of a search that came to this culprit."""
    bit = history.mask([culprit])
    lines = ["git bisect start"]

    def told(answer: str, commit: str) -> None:
        subject = commits.subjects.get(commit, "")
        lines.extend([f"# {answer}: [{commit}] {subject}", f"git bisect {answer} {commit}"])

    told("bad", commits.bad)
    told("good", commits.good)
    for commit, value in measured.items():
        if commit in (commits.bad, commits.good, culprit):
            continue
        if value is None:
            told("skip", commit)
        else:
            told("bad" if history.ancestors(commit) & bit else "good", commit)
    if culprit != commits.bad:
        told("bad", culprit)
    lines.append(f"# first bad commit: [{culprit}] {commits.subjects[culprit]}")
    return "\n".join(lines) + "\n"


Watch = Callable[[list[Cell]], AbstractContextManager[runner.Progress]]
"""What shows how cells get on."""


@dataclass
class MeasuredByStudy:
    """Measures candidates as variants of one study, each when it is asked for."""

    folder: Path
    spec: Spec  # without variants
    jobs: int
    watch: Watch
    machine: str = ""
    """To predict for, by name or file; none: nothing is predicted."""
    machine_tasks: int = 0
    """There; 0: one on each of its CPUs."""
    fleet: runner.Pools | None = None
    """Where cells run; None: here."""

    def __call__(self, variant: Variant) -> Cells:
        """What each probe left of it. CannotMeasureError where a cell fails."""
        study, records = self._measured(variant, range(1, self.spec.repetitions + 1))
        found = {
            probe: [measurements.cell(study, record, probe) for record in records]
            for probe in study.spec.probes
        }
        return found | ({"predicted": [self._predicted(study, variant)]} if self.machine else {})

    @property
    def machine_differences(self) -> str:
        """A sentence where candidates' machines differ in what their counts depend on, else ""."""
        return store.machine_differences(store.open_study(self.folder).records())

    def _predicted(self, study: Study, variant: Variant) -> model.Cell:
        """Its throughput on the machine: the middle of all samples, which are the same for each candidate."""
        variants = [one for one in study.spec.variant if one.name == variant.name]
        alone = Study(study.folder, msgspec.structs.replace(study.spec, variant=variants))
        tasks = self.machine_tasks or machine_files.load(self.machine).cpus
        try:
            (curve,) = prediction.predict(alone, self.machine, [tasks]).curves
        except UserError as error:
            raise CannotMeasureError(str(error), is_input=True) from None
        (point,) = [one for one in curve.points if one.tasks == tasks]
        return model.Cell(pl.DataFrame({"throughput": [point.throughput.value]}), {})

    def throughput(self, variant: Variant, repetition: int) -> float:
        """What one of its repetitions gave, the mean of its samples. CannotMeasureError where it fails."""
        study, (record,) = self._measured(variant, [repetition])
        for metric, found in metrics.of_cell(study, record):
            if metric.name == "throughput" and fmean(found) > 0:
                return fmean(found)
        raise CannotMeasureError("its throughput is none")

    def _measured(self, variant: Variant, numbers: Sequence[int]) -> tuple[Study, list[CellRecord]]:
        """The study with these repetitions of the variant; of others, those that were asked for before."""
        study, workload = self._study_with(variant, max(numbers))

        def wanted(cell: Cell) -> bool:
            return cell.variant.name == variant.name and cell.repetition in numbers

        if missing := runner.missing(study, wanted):
            programs = runner.prepare(study.spec, workload, here=not self.fleet)
            where = self.fleet or self.jobs or runner.default_jobs(study.spec)
            with self.watch(missing) as progress:
                runner.run(study, programs, where, progress, wanted)
        records = [record for cell in study.plan() if wanted(cell) and (record := study.record(cell))]
        for failure in (record.failure for record in records if record.failure):
            raise CannotMeasureError(
                failure.reason,
                failure.console,
                is_input=failure.kind == "input",
                is_lasting=failure.kernel_crashed,
            )
        return study, records

    def _study_with(self, variant: Variant, repetitions: int) -> tuple[Study, Workload | None]:
        before = store.open_study(self.folder).spec if (self.folder / "study.toml").exists() else None
        emulated = self.spec.engine.emulated
        known = {
            one.name: msgspec.structs.replace(one, kernel=one.kernel if emulated else "", kernel_sha256="")
            for one in (before.variant if before else ())
        }
        asked = msgspec.structs.replace(
            self.spec,
            variant=[*known.values(), *([variant] if variant.name not in known else [])],
            repetitions=max(repetitions, before.repetitions if before else 1),
        )
        spec, workload = runner.resolve(asked)
        return store.create(self.folder, spec, workload), workload
