"""The options given on the command line, without defaults, as keys of study.toml."""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from typer.main import get_current_context  # type: ignore[attr-defined]

from bigiron.commands.common.options import numbers, probe_names
from bigiron.errors import UserError
from bigiron.kernels import shown
from bigiron.machines.vm import cgroup, topology
from bigiron.study.spec import Variant
from bigiron.study.sweep import sweep

_NOT_ASKED = {
    "workload", "jobs", "fleet", "certificates", "fresh_boot", "output", "until_decided", "max_time",
}  # fmt: skip
"""Options that say how a study is run, not what it measures."""
_OF_VARIANTS = {"kernel", "boot", "set_", "boot_sweep", "set_sweep"}
_KEYS = {"probe": "probes", "reps": "repetitions", "memory": "memory_mib", "disk": "disk_mib",
         "deadline": "deadline_s", "warm_up": "warm_up_s", "for_": "record_s"}  # fmt: skip
_READ: Mapping[str, Callable[[Any], object]] = {
    "probe": probe_names,
    "cpus": lambda text: numbers("--cpus", text),
    "tasks": lambda text: text if text == "all" else numbers("--tasks", text),
    "topology": lambda text: str(topology.parse(text)),
    "cgroup": lambda text: str(cgroup.parse(text)),
    "workload_file": str,
}


def _as_it_is(value: object) -> object:
    return value


def question() -> dict[str, Any]:
    """What the current command's options ask of an existing study."""
    context = get_current_context()
    given = {
        name: value
        for name, value in context.params.items()
        if (source := context.get_parameter_source(name)) and source.name == "COMMANDLINE"
    }
    asked: dict[str, Any] = {}
    for name, value in given.items():
        if name in _NOT_ASKED | _OF_VARIANTS:
            continue
        plain = value.value if isinstance(value, Enum) else value
        asked[_KEYS.get(name, name)] = _READ.get(name, _as_it_is)(plain)
    if "machine" in asked and asked["machine"].startswith("ssh://"):
        asked |= {"machine": "ssh", "address": asked["machine"]}
    if not _OF_VARIANTS.isdisjoint(given):
        asked["variant"] = _variants(given)
    return asked


def _variants(given: Mapping[str, Any]) -> list[Variant]:
    """The variants to add."""
    if not given.get("kernel"):
        names = ", ".join(f"--{name.strip('_').replace('_', '-')}" for name in _OF_VARIANTS & set(given))
        raise UserError(f"{names}: give --kernel too, for the variant to add to the study")
    kernels = [
        Variant(name=shown(name), kernel=name, boot=given.get("boot", ""), set=given.get("set_", []))
        for name in given["kernel"]
    ]
    return sweep(kernels, given.get("boot_sweep", []), given.get("set_sweep", []))
