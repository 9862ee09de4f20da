"""`bigiron history`: a history of kernels' shared lines, and what it tells."""

from pathlib import Path
from typing import Annotated

import typer

from bigiron.commands.complaints import complain
from bigiron.commands.fleet import Certificates, FleetAddress, pools
from bigiron.commands.options import Format, Jobs, numbers
from bigiron.errors import UserError
from bigiron.history.database import open_history
from bigiron.report import history as history_report
from bigiron.report.progress import ProgressBar
from bigiron.util.english import plural

app = typer.Typer(no_args_is_help=True, help="Every workload on every kernel: measured once, and kept.")

_Folder = Annotated[Path, typer.Argument(help="the history's folder, or its database alone")]


@app.command()
def add(
    kernel: Annotated[list[str], typer.Argument(help="debian/6.12, another name or a path; one or several")],
    cpus: Annotated[str, typer.Option(help="numbers of CPUs")] = "8,32",
    workloads: Annotated[
        list[str] | None,
        typer.Option(help="only those with such names: 'open*', 'fxmark/*@ext4'; repeat it"),
    ] = None,
    arch: Annotated[str, typer.Option(help="architecture of the kernels")] = "x86_64",
    jobs: Jobs = 0,
    fleet: FleetAddress = "",
    certificates: Certificates = None,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="the history's folder; made, or gone on with")
    ] = Path("history"),
) -> None:
    """Measure what a history lacks of some kernels. Run it again, and only what is missing runs.

    Example: `bigiron history add debian/6.1 debian/6.12 -o history`
    """
    from bigiron.history import measure  # here, as `show` needs nothing of all that measures

    question = measure.Request(kernel, numbers("--cpus", cpus), measure.chosen(workloads or []), arch)
    try:
        with pools(fleet, certificates, jobs) as workers, ProgressBar([]) as bar:
            done = measure.add(output, question, jobs, workers, bar)
    except KeyboardInterrupt:
        raise typer.Exit(complain(f"stopped; run it again and {output} goes on where it was", 130)) from None
    refused = f", {done.refused} refused" if done.refused else ""
    measured = plural(done.measured, "cell")
    print(f"{measured} measured, {done.failed} failed{refused}: see `bigiron history show {output}`")
    if done.failed:
        raise typer.Exit(3)


@app.command()
def show(
    history: _Folder = Path("history"),
    workload: Annotated[str, typer.Option(help="one workload on all kernels: open1, fxmark/DWAL@ext4")] = "",
    object: Annotated[
        str, typer.Option(help='every workload that shares a line of it: "struct aa_label.count"')
    ] = "",
    kernel: Annotated[str, typer.Option(help="what a kernel changed")] = "",
    format: Annotated[Format, typer.Option(help="how to print it")] = Format.text,
) -> None:
    """Show a history: all workloads by kernels; or one workload, object or kernel.

    Example: `bigiron history show history --object "struct aa_label.count"`
    """
    if sum(map(bool, (workload, object, kernel))) > 1:
        raise UserError("give one of --workload, --object and --kernel")
    opened = open_history(history)
    if workload:
        view = history_report.of_workload(opened, workload)
    elif object:
        view = history_report.of_object(opened, object)
    elif kernel:
        view = history_report.of_kernel(opened, kernel)
    else:
        view = history_report.overview(opened)
    print(history_report.FORMATS[format.value](view), end="")


@app.command()
def site(
    history: _Folder = Path("history"),
    output: Annotated[
        Path, typer.Option("-o", "--output", help="the site's folder; one of an older site is replaced")
    ] = Path("site"),
) -> None:
    """Write a history as pages that open without a server and without the network.

    Example: `bigiron history site history -o site`
    """
    from bigiron.report.site import site as pages  # here, as no other command should wait for its templates

    count, size = pages.write(open_history(history), output)
    print(f"{count} pages, {size / 1e6:.1f} MB: open {output / 'index.html'}")
