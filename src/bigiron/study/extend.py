"""Extending a study: CPUs, tasks, repetitions, variants, shapes and probes can be added.

Any other change is refused, because the existing cells would not fit the new question.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import replace

from bigiron.errors import UserError
from bigiron.machines.vm.server import server
from bigiron.study.spec import Spec, Variant, document, whole

_ADDS = ("cpus", "tasks", "repetitions", "variant", "check_shape", "probes")

_OTHER_CLOCK = ", with the clock of one busy CPU, for which --tasks 1 asks"

_Item = TypeVar("_Item")


def union_of(old: Spec, asked: Spec) -> Spec | None:
    """The union of two questions; None if the second one changes the first instead of adding to it."""
    both = extended(old, asked)
    if not _can_add(old, "tasks", asked.tasks) or not _can_add(old, "repetitions", asked.repetitions):
        return None
    # `both` contains all of `asked`, so lists of the same length are the same.
    lists = ("cpus", "tasks", "variant", "probes")
    if any(len(getattr(both, key)) != len(getattr(asked, key)) for key in lists):
        return None
    added = {
        key: getattr(both, key) for key in (*lists, "most_boots", "look", "workload_file", "check_shape")
    }
    return both if replace(asked, **added) == both else None


def with_machine(old: Spec, asked: Spec, machine: Path) -> Spec:
    """The old question with the `like_sha256` of the asked one, if the old machine's file has the same shape.

    Virtual machines have none of the other figures.
    """
    changed = old.like == asked.like and old.like_sha256 != asked.like_sha256
    if changed and server(str(machine)) == server(asked.like):
        return replace(old, like_sha256=asked.like_sha256)
    return old


def with_options(spec: Spec, given: Mapping[str, Any], source: str) -> Spec:
    """A study's question extended by options, which are given by their keys in study.toml.

    UserError names the first option that contradicts the study.
    """
    if "variant" in given:
        known = [replace(variant, kernel_sha256="") for variant in spec.variant]
        new = [one for one in given["variant"] if one not in known]
        given = {**given, "variant": new}
    if "cpus" in given and not spec.cpus:
        spec = replace(spec, cpus=spec.engine.cpus([]))  # make them explicit before more are added
    keys = document(spec)
    for key, value in given.items():
        if whole(key, keys[key]) != whole(key, value) and not _can_add(spec, key, value):
            raise UserError(
                f"{source} has {_difference(spec, key, value)}: change it there, or make a new study"
            )
    return extended(spec, replace(spec, **{key: given[key] for key in _ADDS if key in given}))


def _can_add(spec: Spec, key: str, value: Any) -> bool:
    if key == "tasks":
        return spec.tasks == value or "all" not in (spec.tasks, value)
    if key == "repetitions":
        # Repetitions of a throughput that were added later were chosen by the results of the first ones.
        chosen = spec.look and not spec.is_booted_again
        return spec.repetitions == value or bool(value > spec.repetitions and not chosen)
    if key == "variant":
        names = {variant.name: variant for variant in spec.variant}
        return all(names.get(one.name, one) == one for one in value)
    return key in ("cpus", "probes") or (key == "check_shape" and value)


def extended(spec: Spec, asked: Spec) -> Spec:
    """A question with the CPUs, tasks, repetitions, variants, probes and shapes of both."""
    tasks = spec.tasks
    if spec.tasks != "all" and asked.tasks != "all":
        tasks = _added(spec.tasks, asked.tasks)
    repetitions = max(spec.repetitions, asked.repetitions)
    return replace(
        spec,
        cpus=_added(spec.cpus, asked.cpus),
        tasks=tasks,
        repetitions=repetitions,
        most_boots=max(spec.most_boots, asked.most_boots),
        look=[look for look in spec.look if look.repetitions > repetitions],
        variant=_added(spec.variant, asked.variant),
        probes=_added(spec.probes, asked.probes),
        check_shape=spec.check_shape or asked.check_shape,
    )


def _added(there: Iterable[_Item], more: Iterable[_Item]) -> list[_Item]:
    known = list(there)
    return [*known, *(item for item in more if item not in known)]


def _difference(spec: Spec, key: str, value: Any) -> str:
    if key == "variant":
        names = {variant.name for variant in spec.variant}
        return f"another variant called {next(one.name for one in value if one.name in names)}"
    return f"{key} = {document(spec)[key]!r}, not {value!r}"


def first_difference(one: Spec, other: Spec) -> str:
    """What a second question changes of the first; "" if nothing."""
    asked = document(other)
    for key, old in document(one).items():
        if old != asked[key] and key == "variant":
            return _first_difference_of_variants(one.variant, other.variant)
        if old != asked[key] and key not in ("workload_file", "look"):
            # A clock goes by the CPUs that are busy: one, or all, as a program's own number is not known.
            other_clock = key == "tasks" and old == [1] and not other.knows_tasks
            return f"{key} = {old!r}, not {asked[key]!r}{_OTHER_CLOCK if other_clock else ''}"
    return ""


def _first_difference_of_variants(one: list[Variant], other: list[Variant]) -> str:
    names, others = ([variant.name for variant in variants] for variants in (one, other))
    if names != others:
        return f"variants {', '.join(names)}, not {', '.join(others)}"
    for old, new in zip(one, other, strict=True):
        if old.kernel_sha256 != new.kernel_sha256:
            return f"another image of kernel {old.kernel}"
        if old != new:
            return f"variant {old.name} with boot {old.boot!r} and settings {old.set}"
    return ""
