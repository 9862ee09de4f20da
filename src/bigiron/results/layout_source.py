"""Changes of a struct's layout as a diff of its declaration in a source tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bigiron.analysis.layout.change import Align, Change, Move, Pad, Split, changed
from bigiron.analysis.layout.structure import Structure, Unit
from bigiron.architectures import architecture
from bigiron.errors import UserError
from bigiron.kernels import declaration
from bigiron.kernels.declaration import Declaration


@dataclass(frozen=True)
class Declared:
    """A struct as a kernel has it, and its declaration."""

    structure: Structure
    declaration: Declaration

    def diff(self, changes: Sequence[Change]) -> str:
        """What `git apply` takes. UserError where the declaration's text does not make plain what to do."""
        after, structure = self.declaration, self.structure
        for one in changes:
            after = _after(after, structure, one)
            structure = changed(structure, [one])
        return self.declaration.diff(after)


def declared(tree: Path, structure: Structure, arch: str) -> Declared:
    """The declaration of a kernel's struct. UserError where the tree has none, or that of another kernel."""
    found = declaration.find(tree, structure.name, architecture(arch).kernel_arch)
    members = [each for one in found.members for each in one.all()]
    where = {name: number for number, one in enumerate(members) for name in one.names}
    what = f"--source {tree}: struct {structure.name} in {found.path} is not the study's"
    last = ("", -1)
    for unit in structure.units:
        known = [(where[name], name) for name in _names(unit) if name in where]
        if not known and not any(one.is_macro for one in members):
            raise UserError(f"{what}: it has no {_names(unit)[0]}")
        for number, name in known[:1]:
            if number < last[1]:
                raise UserError(f"{what}: it has {name} before {last[0]}")
            last = name, number
    return Declared(structure, found)


def _names(unit: Unit) -> list[str]:
    return [name for field in unit.fields for name in field.name.split("|")]


def _after(text: Declaration, structure: Structure, change: Change) -> Declaration:
    def called(field: str) -> str:
        number = structure.unit_of(field)
        return field if number is None else _names(structure.units[number])[0]

    match change:
        case Move():
            return text.moved(called(change.field), change.where, called(change.anchor))
        case Align():
            return text.aligned("", change.bytes)
        case Pad():
            at = structure.unit_of(change.field)
            padded = structure.units[at : at + 2] if at is not None else ()  # it and the next one
            for unit in padded:
                text = text.aligned(_names(unit)[0], change.bytes)
            return text
        case Split():
            fields = list(dict.fromkeys(map(called, change.fields)))
            at = structure.unit_of(fields[0])
            around = structure.units[at].around if at is not None else ()
            beside = [unit for unit in structure.units if unit.around[: len(around)] == around]
            rest = [unit for unit in beside if _names(unit)[0] not in fields]
            for field, anchor in zip(fields, (_names(rest[-1])[0], *fields), strict=False):
                text = text.moved(field, "after", anchor)
            return text.aligned(fields[0], change.bytes)
