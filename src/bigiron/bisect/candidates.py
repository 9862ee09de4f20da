"""The candidates of a bisection, and the study that measures them.

Candidates are a list of variants, the commits of a git tree, or options of its configuration.
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
from bigiron.bisect.bisection import CandidateGraph, Measured
from bigiron.bisect.search import CannotMeasureError
from bigiron.bisect.target import CandidateCells
from bigiron.errors import BuildHostError, SourceBuildError, UserError
from bigiron.kernels import Kernel
from bigiron.kernels.commits import Commits, build_commit, configured_by, contents_of, name_of_commit
from bigiron.results import measurements, metrics, prediction
from bigiron.simulator import machine_files
from bigiron.study import caveats, store
from bigiron.study import run as runner
from bigiron.study.extend import extended
from bigiron.study.plan import Cell
from bigiron.study.pool import Pools, Progress, missing
from bigiron.study.resolve import check_variant
from bigiron.study.spec import Spec, Variant
from bigiron.study.store import CellRecord, Study
from bigiron.util.lazy import polars as pl
from bigiron.workloads import Workload


class _Listed:
    """Candidates in a list, outside git."""

    merge_bases: tuple[str, ...] = ()

    def idle(self, name: str, images: Sequence[Variant]) -> bool:
        """False: nothing is known about candidates that were not measured."""
        return False

    def build_command(self, name: str) -> list[str]:
        """Empty: no candidate is built in advance."""
        return []

    def same_as(self, name: str, others: Mapping[str, Variant | None]) -> str | None:
        """None: sameness is only known from the image."""
        return None

    def title(self, name: str) -> str:
        """Its name."""
        return name

    def log(self, culprit: str, measured: Mapping[str, Measured]) -> str:
        """Empty: there is no log."""
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
            raise UserError(f"candidates need different names: {', '.join(names)}")
        for variant in variants:
            check_variant(variant)
        self._variants, self._arch = {variant.name: variant for variant in variants}, arch
        self.question: dict[str, Any] = {"candidates": [msgspec.to_builtins(one) for one in variants]}
        self.history = CandidateGraph.linear(names)
        self.old, self.new = names[0], names[-1]

    def variant(self, name: str) -> Variant:
        """The variant as it was given."""
        return self._variants[name]

    def image(self, variant: Variant) -> str:
        """Its kernel, boot parameters and settings."""
        kernel = kernels.find(variant.kernel, self._arch).sha256
        return " ".join([kernel, variant.boot, *variant.set])

    def reverted(self, name: str) -> Variant | str:
        """Empty: a variant of a list cannot be reverted."""
        return ""


class OptionsOfConfiguration(_Listed):
    """Options of the configuration, each added to those before it. The old end has none of them."""

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
        """`variant`: the boot parameters and settings of all candidates."""
        for option in options:
            if not _OPTION.fullmatch(option):
                raise UserError(f'--config-option {option}: give CONFIG_NAME=y, =n, a number or "text"')
        if len({option.partition("=")[0] for option in options}) < len(options):
            raise UserError("--config-option: an option is given twice: give each option once")
        self._tree, self._options, self._fragments = tree, list(options), list(fragments)
        self._all, self._arch, self._on_step = variant, arch, on_step
        self.question: dict[str, Any] = {
            "linux": str(tree),
            "options": self._options,
            "config": _checksums(fragments),
            "boot": variant.boot,
            "set": variant.set,
        }
        self.history = CandidateGraph.linear([self.old, *options])
        self.new = self._options[-1]

    def variant(self, name: str) -> Variant:
        """The kernel with the options up to this one, built."""
        return self._built([] if name == self.old else self._options[: self._options.index(name) + 1])

    def image(self, variant: Variant) -> str:
        """The image's checksum."""
        return kernels.find(variant.kernel, self._arch).sha256

    def reverted(self, name: str) -> Variant | str:
        """The kernel with all options but this one, built."""
        if name == self.new:
            return "it is the last option added: leaving it out is the step before, which was measured"
        return self._built([option for option in self._options if option != name])

    def _built(self, options: Sequence[str]) -> Variant:
        text = "".join(f"{option}\n" for option in options)
        digest = hashlib.sha256(
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
                    f"options-{digest[:12]}",
                    self._on_step,
                    replace=True,
                )
        return msgspec.structs.replace(self._all, name=kernel.name, kernel=kernel.name)


_OPTION = re.compile(r"CONFIG_\w+=\S.*")


@contextmanager
def _as_cannot_measure() -> Iterator[None]:
    """Turn build errors of the source or the configuration into those of a candidate."""
    try:
        yield
    except SourceBuildError as error:
        raise CannotMeasureError(str(error), is_input=True, is_lasting=True) from None
    except BuildHostError:
        raise  # the build host is broken, so skipping this candidate would skip all of them
    except UserError as error:
        raise CannotMeasureError(str(error), is_input=True) from None


def _checksums(fragments: Sequence[Path]) -> list[str]:
    return [f"{name} {hashlib.sha256(content).hexdigest()}" for name, content in contents_of(fragments)]


class CommitsOfTree:
    """Commits of a git tree, whose kernels are built."""

    def __init__(
        self,
        commits: Commits,
        fragments: Sequence[Path],
        variant: Variant,
        arch: str,
        on_step: Callable[[str], None],
    ) -> None:
        """`variant`: the boot parameters and settings of all candidates."""
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
        self.history = CandidateGraph(commits.parents)
        self.old, self.new, self.merge_bases = commits.good, commits.bad, commits.bases
        self._kernels: dict[str, Kernel] = {}
        self._files: dict[tuple[str, ...], frozenset[str] | None] = {}
        self._idle: dict[frozenset[str] | None, dict[str, bool]] = {}

    def variant(self, name: str) -> Variant:
        """The kernel of the commit, built."""
        return self._built(name)

    def build_command(self, name: str) -> list[str]:
        """The command that builds the kernel of the commit."""
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
        """Whether it changes no file that the kernels of the given variants were compiled from."""
        compiled = self._compiled(images)
        known = self._idle.setdefault(compiled, {})
        if name not in known:
            known[name] = self._commits.cannot_matter(name, self._arch, compiled)
        return known[name]

    def same_as(self, name: str, others: Mapping[str, Variant | None]) -> str | None:
        """A commit that differs from it in no file of the image."""
        for other, variant in others.items():
            if self._commits.same_image(
                other, name, self._arch, self._compiled([variant] if variant else [])
            ):
                return other
        return None

    def title(self, name: str) -> str:
        """Its id and subject."""
        return self._commits.title(name)

    def reverted(self, name: str) -> Variant | str:
        """The kernel of the bad end without the commit, built."""
        if name == self.new:
            return "it is the last commit: without it, the tree is that of its parent"
        with tempfile.TemporaryDirectory() as folder:
            patch = Path(folder) / f"revert-{name[:12]}.patch"
            patch.write_bytes(self._commits.revert(name))
            return self._built(self.new, [patch], f"-without-{name[:12]}")

    def log(self, culprit: str, measured: Mapping[str, Measured]) -> str:
        """A log for `git bisect replay`."""
        return _git_log(self._commits, self.history, culprit, measured)

    def _built(self, commit: str, patches: Sequence[Path] = (), without: str = "") -> Variant:
        tree, called = self._commits.tree, f"{without}{self._configured}"
        with _as_cannot_measure():
            kernel = build_commit(tree, commit, self._fragments, self._arch, self._on_step, patches, called)
        return msgspec.structs.replace(self._all, name=kernel.name, kernel=kernel.name)

    def _compiled(self, images: Sequence[Variant]) -> frozenset[str] | None:
        """All files that the variants were compiled from; None if they are unknown for one of them."""
        key = tuple(variant.kernel for variant in images)
        if key not in self._files:
            of_all = [kernels.compiled_from(self._kernel(variant)) for variant in images]
            known = [files for files in of_all if files is not None]
            whole = known and len(known) == len(of_all)
            self._files[key] = frozenset[str]().union(*known) if whole else None
        return self._files[key]

    def _kernel(self, variant: Variant) -> Kernel:
        """The kernel of a variant. Cached, because finding it verifies the checksum of its image."""
        name = variant.kernel
        if name not in self._kernels:
            self._kernels[name] = kernels.find(name, self._arch)
        return self._kernels[name]


def _git_log(
    commits: Commits, history: CandidateGraph, culprit: str, measured: Mapping[str, Measured]
) -> str:
    """The `git bisect log` of a search that ends at this culprit."""
    bit = history.mask([culprit])
    lines = ["git bisect start"]

    def mark(answer: str, commit: str) -> None:
        subject = commits.subjects.get(commit, "")
        lines.extend([f"# {answer}: [{commit}] {subject}", f"git bisect {answer} {commit}"])

    mark("bad", commits.bad)
    mark("good", commits.good)
    for commit, value in measured.items():
        if commit in (commits.bad, commits.good, culprit):
            continue
        if value is None:
            mark("skip", commit)
        else:
            mark("bad" if history.ancestors(commit) & bit else "good", commit)
    if culprit != commits.bad:
        mark("bad", culprit)
    lines.append(f"# first bad commit: [{culprit}] {commits.subjects[culprit]}")
    return "\n".join(lines) + "\n"


Watch = Callable[[list[Cell]], AbstractContextManager[Progress]]
"""Shows the progress of cells."""


@dataclass
class MeasuredByStudy:
    """Measures candidates on demand, as variants of one study."""

    folder: Path
    spec: Spec  # without variants
    jobs: int
    watch: Watch
    machine: str = ""
    """The machine to predict for, by name or file; empty: no prediction."""
    machine_tasks: int = 0
    """The number of tasks on that machine; 0: one per CPU."""
    fleet: Pools | None = None
    """Where cells run; None: on this host."""

    def __call__(self, variant: Variant) -> CandidateCells:
        """The cells of each probe. CannotMeasureError if a cell fails."""
        study, records = self._measured(variant, range(1, self.spec.repetitions + 1))
        found = {
            probe: [measurements.cell(study, record, probe) for record in records]
            for probe in study.spec.probes
        }
        return found | ({"predicted": [self._predicted(study, variant)]} if self.machine else {})

    @property
    def machine_differences(self) -> str:
        """A sentence if the candidates' machines differ in ways that affect their counts, else ""."""
        return caveats.machine_differences(store.open_study(self.folder).records())

    def _predicted(self, study: Study, variant: Variant) -> model.Cell:
        """The median predicted throughput on the machine. All candidates have the same samples."""
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
        """The throughput of one repetition, the mean of its samples. CannotMeasureError if it fails."""
        study, (record,) = self._measured(variant, [repetition])
        for metric, found in metrics.of_cell(study, record):
            if metric.name == "throughput" and fmean(found) > 0:
                return fmean(found)
        raise CannotMeasureError("its throughput is zero")

    def _measured(self, variant: Variant, numbers: Sequence[int]) -> tuple[Study, list[CellRecord]]:
        """The study with these repetitions of the variant, which are measured if they are missing."""
        study, workload = self._study_with(variant, max(numbers))

        def wanted(cell: Cell) -> bool:
            return cell.variant.name == variant.name and cell.repetition in numbers

        if lacking := missing(study, wanted):
            programs = runner.prepare(study.spec, workload, here=not self.fleet)
            where = self.fleet or self.jobs or runner.default_jobs(study.spec)
            with self.watch(lacking) as progress:
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
        known = [
            msgspec.structs.replace(one, kernel=one.kernel if emulated else "", kernel_sha256="")
            for one in (before.variant if before else ())
        ]
        new = [] if variant.name in {one.name for one in known} else [variant]
        asked = extended(
            msgspec.structs.replace(
                self.spec, variant=known, repetitions=before.repetitions if before else 1
            ),
            msgspec.structs.replace(self.spec, variant=new, repetitions=repetitions),
        )
        spec, workload = runner.resolve(asked)
        return store.create(self.folder, spec, workload), workload
