"""Candidates of a bisection in a list: variants, or options of a kernel's configuration."""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from bigiron import kernels
from bigiron.bisect.bisection import CandidateGraph, Measured
from bigiron.bisect.search import CannotMeasureError
from bigiron.errors import BuildHostError, SourceBuildError, UserError
from bigiron.kernels.commits import contents_of
from bigiron.study.resolve import check_variant
from bigiron.study.spec import Variant


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
            "config": checksums(fragments),
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
            with as_cannot_measure():
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
def as_cannot_measure() -> Iterator[None]:
    """Turn build errors of the source or the configuration into those of a candidate."""
    try:
        yield
    except SourceBuildError as error:
        raise CannotMeasureError(str(error), is_input=True, is_lasting=True) from None
    except BuildHostError:
        raise  # the build host is broken, so skipping this candidate would skip all of them
    except UserError as error:
        raise CannotMeasureError(str(error), is_input=True) from None


def checksums(fragments: Sequence[Path]) -> list[str]:
    return [f"{name} {hashlib.sha256(content).hexdigest()}" for name, content in contents_of(fragments)]
