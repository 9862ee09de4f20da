"""What `bigiron show` prints: what a study asks, and every cell's identity and state."""

from rich.table import Table

from bigiron.study.store import Study


def show(study: Study) -> list[Table | str]:
    """The question in a few lines, then a table of the cells."""
    spec = study.spec
    lines = [
        f"study       {study.folder}",
        f"workload    {spec.workload} ({spec.mode} mode, {spec.operations} operations a task)",
        f"probes      {', '.join(spec.probes)}",
    ]
    for variant in spec.variant:
        details = "".join(
            [f", boot {variant.boot}" if variant.boot else "", *(f", {s}" for s in variant.set)]
        )
        lines.append(f"variant     {variant.name}: kernel {variant.kernel}{details}")
    return ["\n".join(lines) + "\n", _cells(study)]


def _cells(study: Study) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("cell", "state", "seconds", "kernel", "QEMU", "accelerator", "measured (UTC)", "bigiron"):
        table.add_column(column, overflow="fold")
    for cell in study.plan():
        record = study.record(cell)
        if record is None:
            table.add_row(cell.id, "missing")
            continue
        environment = record.environment
        table.add_row(
            cell.id,
            f"failed: {record.failure.reason}" if record.failure else "measured",
            f"{record.seconds:.1f}",
            f"{environment['kernel_release']} ({environment['kernel_sha256'][:12]})",
            str(environment["qemu"]),
            str(environment["accelerator"]),
            record.started,
            str(environment["bigiron"]),
        )
    return table
