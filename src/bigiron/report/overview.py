"""What `bigiron show` prints: what a study asks, and every cell's identity and state."""

from collections.abc import Callable, Iterator
from typing import Any

from bigiron import probes
from bigiron.probes.metrics import MetricsOptions
from bigiron.report.formats.listing import Listing, json_text
from bigiron.study import spec as specs
from bigiron.study.caveats import losses
from bigiron.study.spec import Spec
from bigiron.study.store import CellRecord, Study
from bigiron.util.sanitize import sanitize

_COLUMNS = {
    "cell": "cell",
    "state": "state",
    "seconds": "seconds",
    "kernel": "kernel",
    "qemu": "QEMU",
    "accelerator": "accelerator",
    "started": "measured (UTC)",
    "bigiron": "bigiron",
}


def as_text(study: Study) -> str:
    """The question in a few lines, then a table of the cells."""
    spec = study.spec
    lines = [
        f"study       {study.folder}",
        *(_simulated(spec) if spec.engine.is_model else _question(spec)),
    ]
    lost = "\n".join(losses(study.all_records()))
    return "\n".join(lines) + "\n\n" + _cells(study).as_text() + (f"\n{lost}\n" if lost else "")


def _question(spec: Spec) -> list[str]:
    if spec.engine.is_imported:
        variants = [f"variant     {variant.name}" for variant in spec.variant]
        return [
            f"workload    {spec.workload}, measured elsewhere",
            f"figures     {spec.options[MetricsOptions].metric}",
            *variants,
        ]
    if spec.runs_program:
        lines = [*_program(spec), f"probes      {', '.join(_probe(spec, one) for one in spec.probes)}"]
    elif spec.command:
        lines = [
            f"command     {sanitize(spec.command)}",
            f"metric      {spec.options[MetricsOptions].metric}",
        ]
    else:
        lines = [
            f"workload    {spec.workload} ({spec.mode} mode, {spec.operations} operations per task)",
            f"probes      {', '.join(_probe(spec, one) for one in spec.probes)}",
        ]
    if spec.file_system:
        lines.append(f"file system {sanitize(str(spec.file_system))}")
    if spec.cgroup:
        lines.append(f"cgroup      {spec.cgroup}")
    if spec.address:
        lines.append(f"machine     {spec.address}")
    if spec.look:
        looks = ", ".join(str(look.repetitions) for look in spec.look)
        lines.append(f"repetitions {spec.repetitions}, and then up to {looks} where something was undecided")
    for variant in spec.variant:
        details = "".join(
            [f", boot {variant.boot}" if variant.boot else "", *(f", {sanitize(s)}" for s in variant.set)]
        )
        lines.append(f"variant     {variant.name}: kernel {variant.kernel}{details}")
    return lines


def _program(spec: Spec) -> Iterator[str]:
    """A program in a virtual machine: where it runs, beside what, which part is recorded, and the unit."""
    yield f"command     {sanitize(spec.command)}"
    yield f"root        {spec.root} ({spec.root_sha256[:12]})"
    for number, service in enumerate(spec.service):
        ready = spec.ready[number] if number < len(spec.ready) else ""
        yield f"service     {sanitize(service)}" + (f", ready: {sanitize(ready)}" if ready else "")
    if spec.ready_port:
        yield f"ready       when something listens on {', '.join(map(str, spec.ready_port))}"
    places = {"user": spec.user, "folder": spec.folder, "command on CPUs": spec.command_cpus,
              "services on CPUs": spec.service_cpus, "environment": sanitize(" ".join(spec.env))}  # fmt: skip
    if given := [f"{what} {value}" for what, value in places.items() if value]:
        yield f"runs        {', '.join(given)}"
    parts = {
        "from a line that matches": sanitize(spec.begin_at),
        "after": f"{spec.warm_up_s:g} s" if spec.warm_up_s else "",
        "to a line that matches": sanitize(spec.end_at),
        "for": f"{spec.record_s:g} s" if spec.record_s else "",
    }
    part = ", ".join(f"{what} {value}" for what, value in parts.items() if value)
    marked = "between the program's own marks" if spec.marked else "the whole command"
    yield f"recorded    {part or marked}"
    metric = spec.options[MetricsOptions]
    of_metric = f"{metric.unit or 'operation'} that {metric.metric} reads"
    yield f"counts      per {spec.per.replace('-', ' ') or of_metric}"


def _probe(spec: Spec, name: str) -> str:
    """Its name, and of its options those that are not the default."""
    kinds = [probe.options for probe in probes.named([name]) if probe.options]
    given = {key: value for kind in kinds for key, value in spec.options[kind].given.items()}
    options = [
        f"{key} {','.join(value) if isinstance(value, list) else value}" for key, value in given.items()
    ]
    return f"{name} ({', '.join(options)})" if options else name


def _simulated(spec: Spec) -> list[str]:
    asked = spec.simulation
    counted = "to the end" if asked.to_the_end else f"{asked.duration_ms:g} ms after {asked.warmup_ms:g} ms"
    lines = [
        f"design      {spec.workload}, simulated",
        f"machine     {asked.machine}",
        f"counted     {counted} of virtual time",
    ]
    return lines + [
        f"variant     {one.name}: {sanitize(', '.join(one.set)) or 'as by default'}" for one in spec.variant
    ]


def as_csv(study: Study) -> str:
    """The cells."""
    return _cells(study).as_csv()


def as_json(study: Study) -> str:
    """The question as study.toml has it, and each cell's cell.json; of one that is missing, its id."""
    cells = [study.record(cell) or {"id": cell.id, "missing": True} for cell in study.plan()]
    return json_text({"study": study.name, "asks": specs.document(study.spec), "cells": cells})


def _cells(study: Study) -> Listing:
    rows: list[tuple[str, ...]] = []
    for cell in study.plan():
        record = study.record(cell)
        if record is None:
            rows.append((cell.id, "missing", *[""] * (len(_COLUMNS) - 2)))
            continue
        environment = record.environment
        rows.append(
            (
                cell.id,
                f"failed: {record.failure.reason}" if record.failure else "measured",
                f"{record.seconds:.1f}",
                *_environment(environment),
                record.started,
                str(environment["bigiron"]),
            )
        )
    return Listing(_COLUMNS, rows)


def times(study: Study) -> Listing:
    """Seconds that each stage of each tried cell took on the machine that measured it."""
    records = study.records()
    stages = list(dict.fromkeys(stage for record in records for stage in record.times))
    rows = [
        (
            record.id,
            *(f"{record.times[stage]:.2f}" if stage in record.times else "" for stage in stages),
            f"{sum(record.times.values()):.2f}",
            _operation_us(record),
        )
        for record in records
    ]
    columns = ("cell", *(sanitize(stage) for stage in stages), "all, s", "us of VM time per operation")
    # Where nothing was recorded, no operation has a time.
    return (
        Listing(columns, rows)
        if any(row[-1] for row in rows)
        else Listing(columns[:-1], [row[:-1] for row in rows])
    )


def _operation_us(record: CellRecord) -> str:
    """The duration of a recorded operation by the machine's clock."""
    counted = (facts["operations"] for facts in record.facts.values() if facts.get("operations"))
    operations = max(next(counted, [0]))
    return f"{record.recorded_ns / 1000 / operations:,.1f}" if record.recorded_ns and operations else ""


def _environment(environment: dict[str, Any]) -> tuple[str, str, str]:
    """Kernel, emulator and accelerator of a cell."""
    if "format" in environment:
        return "", "", f"imported: {environment['file']} ({environment['sha256'][:12]})"
    if "design" in environment:
        return "", "", f"simulated {environment['machine']}"
    if "kernel_release" not in environment:
        return "-", "-", "-"  # it failed before its environment was known
    kernel = f"{environment['kernel_release']} ({environment['kernel_sha256'][:12]})"
    return kernel, str(environment.get("qemu", "-")), str(environment.get("accelerator", "-"))


FORMATS: dict[str, Callable[[Study], str]] = {"text": as_text, "csv": as_csv, "json": as_json}
