"""What `bigiron show` prints: what a study asks, and every cell's identity and state."""

from collections.abc import Callable

import msgspec

from bigiron.report.listing import Listing, as_json
from bigiron.study.store import Study

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


def text(study: Study) -> str:
    """The question in a few lines, then a table of the cells."""
    spec = study.spec
    lines = [
        f"study       {study.folder}",
        f"workload    {spec.workload} ({spec.mode} mode, {spec.operations} operations a task)",
        f"probes      {', '.join(spec.probes)}{' (scope user)' if spec.scope == 'user' else ''}",
    ]
    for variant in spec.variant:
        details = "".join(
            [f", boot {variant.boot}" if variant.boot else "", *(f", {s}" for s in variant.set)]
        )
        lines.append(f"variant     {variant.name}: kernel {variant.kernel}{details}")
    return "\n".join(lines) + "\n\n" + _cells(study).text()


def as_csv(study: Study) -> str:
    """The cells."""
    return _cells(study).as_csv()


def as_document(study: Study) -> str:
    """The question as study.toml has it, and each cell's cell.json; of one that is missing, its id."""
    cells = [study.record(cell) or {"id": cell.id, "missing": True} for cell in study.plan()]
    return as_json({"study": study.name, "asks": msgspec.to_builtins(study.spec), "cells": cells})


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
                f"{environment['kernel_release']} ({environment['kernel_sha256'][:12]})",
                str(environment.get("qemu", "-")),
                str(environment.get("accelerator", "-")),
                record.started,
                str(environment["bigiron"]),
            )
        )
    return Listing(_COLUMNS, rows)


FORMATS: dict[str, Callable[[Study], str]] = {"text": text, "csv": as_csv, "json": as_document}
