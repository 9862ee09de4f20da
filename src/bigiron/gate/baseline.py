"""A baseline on disk (docs/howto/ci.md): a TOML file with one line for each cache line, to be kept in git."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec

from bigiron.analysis.comparison.limits import INSTRUCTIONS_TOLERANCE, Tolerance
from bigiron.errors import UserError
from bigiron.gate.check_lines import (
    BaselineFunction,
    BaselineInstructions,
    BaselineLine,
    BaselinePoint,
    CountedProbe,
)
from bigiron.probes.conflicts import ConflictsOptions
from bigiron.study.spec import Spec
from bigiron.util import decode
from bigiron.util.cache_dir import write_whole

FORMAT = 2
_HEADER = """\
# A baseline of `bigiron check`: shared cache lines, and instructions, per operation.
# `bigiron check STUDY --record FILE` updates the counts that have changed. Each count can have its own
# tolerance.
"""
_HEAD = ("variant", "kernel", "cpus", "tasks")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


class Baseline(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """The counts that a study is compared with."""

    format: int = FORMAT
    workload: str
    workload_sha256: str
    mode: str
    scope: str = "kernel"
    arch: str
    time_slice: str = "time"
    """What ended the time slices of the machines' CPUs."""
    clock: str = "host"
    """What the machines' clock follows."""
    cgroup: str = "none"
    """The control group of the tasks."""
    fs: str = ""
    """The file system that the workload uses, in words; empty: the machine's own."""
    tolerance: float = Tolerance.absolute
    relative_tolerance: float = Tolerance.relative
    instructions_tolerance: float = INSTRUCTIONS_TOLERANCE.absolute
    relative_instructions_tolerance: float = INSTRUCTIONS_TOLERANCE.relative
    probes: Annotated[list[CountedProbe], msgspec.Meta(min_length=1)] = msgspec.field(
        default_factory=lambda: ["conflicts"]
    )
    """The probes whose counts it has."""
    point: list[BaselinePoint] = []

    @property
    def tolerances(self) -> Tolerance:
        """By how much writes and accesses may exceed their counts."""
        return Tolerance(self.tolerance, self.relative_tolerance)

    @property
    def instructions_tolerances(self) -> Tolerance:
        """By how much instructions may exceed their count."""
        return Tolerance(self.instructions_tolerance, self.relative_instructions_tolerance)


def read(path: Path) -> Baseline:
    """Read a baseline. UserError names what is wrong with the file."""
    try:
        baseline = decode.from_toml(path.read_bytes(), Baseline)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not a baseline: {str(error).replace('$.', '')}") from None
    if baseline.format != FORMAT:
        raise UserError(
            f"{path} has format {baseline.format}, but this bigiron reads {FORMAT}: "
            "record a new baseline (--record)"
        )
    if any(
        len(line.boot_writes) != len(line.boot_accesses) for point in baseline.point for line in point.lines
    ):
        raise UserError(
            f"{path} is not a baseline: a cache line has not as many boot_writes as boot_accesses"
        )
    return baseline


def write(path: Path, baseline: Baseline) -> None:
    """Write a baseline completely or not at all."""
    write_whole(path, as_toml(baseline).encode())


def as_toml(baseline: Baseline) -> str:
    """The file's content. Each cache line is on one line, so that git shows its change as one line."""
    usual = {"clock": "host", "cgroup": "none", "fs": ""}
    left_out = {"point", *(name for name, value in usual.items() if getattr(baseline, name) == value)}
    scalars = [(name, getattr(baseline, name)) for name in baseline.__struct_fields__ if name not in left_out]
    parts = [_HEADER + "".join(f"{name} = {_value(value)}\n" for name, value in scalars)]
    for point in baseline.point:
        values = ((name, getattr(point, name)) for name in _HEAD)
        head = [f"{name} = {_value(value)}" for name, value in values if value is not None]
        if point.boots > 1:
            head.append(f"boots = {point.boots}")
        if point.memory_mib:
            head.append(f"memory_mib = {point.memory_mib}")
        if point.clock_slower > 1:
            head.append(f"clock_slower = {point.clock_slower}")
        for name in ("topology", "qemu", "recorder", "guest"):
            if known := getattr(point, name):
                head.append(f"{name} = {_value(known)}")
        if point.instructions:
            head.append(f"instructions = {_value(_fields(point.instructions))}")
        tables = [
            line
            for name in ("lines", "functions")
            if (rows := getattr(point, name))
            for line in (f"{name} = [", *(f"    {_value(_fields(row))}," for row in rows), "]")
        ]
        parts.append("\n".join(["[[point]]", *head, *tables, ""]))
    return "\n".join(parts)


def _fields(line: BaselineLine | BaselineInstructions | BaselineFunction) -> dict[str, object]:
    """The fields that do not have their default."""
    default: dict[str, object] = {
        **{"most_writes": 0.0, "most_accesses": 0.0, "most": 0.0, "tolerance": None},
        **{"boot_writes": [], "boot_accesses": []},
    }
    fields = msgspec.structs.asdict(line)
    return {name: value for name, value in fields.items() if name not in default or value != default[name]}


def _value(value: object) -> str:
    """A value in TOML. A JSON string is also a TOML string."""
    match value:
        case str():
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case Mapping():
            pairs = (f"{_key(str(name))} = {_value(item)}" for name, item in value.items())
            return "{ " + ", ".join(pairs) + " }"
        case list():
            return f"[{', '.join(map(_value, value))}]"
        case float():
            return f"{value:.3f}" if round(value, 3) == value else repr(value)
        case _:
            return str(value)


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _value(name)


def refuse_another(baseline: Baseline, path: Path, spec: Spec) -> None:
    """UserError if the baseline does not belong to the question of a study, or to its workload's source."""
    refuse_another_question(baseline, path, spec)
    if baseline.workload_sha256 != spec.workload_sha256:
        raise UserError(
            f"baseline {path} was recorded with another version of workload {baseline.workload}: "
            "record a new baseline (--record)"
        )


def refuse_another_question(baseline: Baseline, path: Path, spec: Spec) -> None:
    """UserError if the baseline does not belong to the question of a study."""
    for what, old, new in (
        ("workload", baseline.workload, spec.workload),
        ("mode", baseline.mode, spec.mode),
        ("scope", baseline.scope, spec.options[ConflictsOptions].scope),
        ("architecture", baseline.arch, spec.arch),
        ("clock", baseline.clock, spec.clock),
        ("file system", baseline.fs or "none", str(spec.file_system or "none")),
    ):
        if old != new:
            raise UserError(
                f"baseline {path} was recorded with {what} {old}, the study with {new}: use another file"
            )
