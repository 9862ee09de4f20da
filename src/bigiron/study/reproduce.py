"""The study.toml with which another machine repeats a study."""

from typing import Any

import msgspec

from bigiron import probes
from bigiron.kernels import archives
from bigiron.study.store import Study

_FILLED_IN = ("kernel_sha256", "workload_sha256", "machine_sha256", "like_sha256")
"""Keys that bigiron fills in when a study is created."""


def kernels(study: Study) -> dict[str, str]:
    """Maps each kernel name of the variants to a name that means the same image everywhere.

    `debian/6.12` is the newest of its series, so it names another kernel once Debian publishes a newer one.
    """
    named = {variant.name: variant.kernel for variant in study.spec.variant}
    exact = {kernel: kernel for kernel in named.values() if kernel}
    for record in study.records():
        kernel, version = named[record.variant], record.environment.get("kernel_version")
        if (distribution := archives.of(kernel)) and version:
            release = str(record.environment["kernel_release"])
            exact[kernel] = distribution.exact_name(kernel, release, str(version), study.spec.arch)
    return exact


def fetched_kernels(study: Study) -> list[str]:
    """The names of the study's kernels that any machine can fetch."""
    return [kernel for kernel in dict.fromkeys(kernels(study).values()) if archives.of(kernel)]


def study_file(study: Study) -> str:
    """The content of a study.toml that asks the same question of exactly the same kernels."""
    spec, exact = study.spec, kernels(study)
    document = _without_defaults(spec)
    options = document.pop("options", probes.AllProbeOptions())
    for kind in probes.option_kinds():
        document |= options[kind].given
    document["variant"] = [
        _without_defaults(msgspec.structs.replace(variant, kernel=exact.get(variant.kernel, "")))
        | ({"kernel_sha256": variant.kernel_sha256} if spec.engine.emulated else {})
        for variant in spec.variant
    ]
    if spec.engine.is_model:
        document["simulation"] = _without_defaults(spec.simulation)
    if spec.workload_file:
        document["workload_file"] = "workload.c"
    return "".join(map(_printable, msgspec.toml.encode(document).decode()))


def _printable(character: str) -> str:
    """A character of TOML, in whose strings those that steer a terminal can be written as escapes."""
    if character.isprintable() or character == "\n":
        return character
    return f"\\u{ord(character):04x}" if ord(character) < 1 << 16 else f"\\U{ord(character):08x}"


def _without_defaults(struct: msgspec.Struct) -> dict[str, Any]:
    changed = {}
    for field in msgspec.structs.fields(struct):
        value = getattr(struct, field.name)
        default = field.default_factory() if callable(field.default_factory) else field.default
        if value != default and field.name not in _FILLED_IN:
            changed[field.name] = value
    return changed
