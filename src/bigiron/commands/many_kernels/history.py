"""`bigiron history`: the shared cache lines of many kernels, measured and shown."""

from pathlib import Path
from typing import Annotated

import typer

from bigiron.commands.common.complaints import stopped
from bigiron.commands.common.options import Jobs, choice, numbers
from bigiron.commands.setup.fleet import Certificates, FleetAddress, pools
from bigiron.errors import UserError
from bigiron.history.database import open_history
from bigiron.report import history as history_report
from bigiron.report.progress import ProgressBar
from bigiron.util.english import plural

app = typer.Typer(
    no_args_is_help=True,
    help="Measure many workloads on many kernels, and follow the results across releases.",
)

_Folder = Annotated[Path, typer.Argument(help="the history's folder or its database file")]


@app.command()
def add(
    kernel: Annotated[list[str], typer.Argument(help="one or more kernels: debian/6.12, a name or a path")],
    cpus: Annotated[str, typer.Option(help="CPU counts, separated by commas")] = "8,32",
    workloads: Annotated[
        list[str] | None,
        typer.Option(
            help="workloads that match a pattern: 'open*', 'fxmark/*@ext4'; may be repeated  [default: 24 of "
            "will-it-scale's kind, fxmark's and hackbench's]"
        ),
    ] = None,
    arch: Annotated[
        str, typer.Option(help="architecture of the kernels: x86_64, aarch64 or ppc64le")
    ] = "x86_64",
    jobs: Jobs = 0,
    fleet: FleetAddress = "",
    certificates: Certificates = None,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="the history's folder: a new one, or one to continue")
    ] = Path("history"),
) -> None:
    """Measure what a history lacks of these kernels. The same command again runs only what is missing.

    Example: `bigiron history add debian/6.1 debian/6.12 -o history`
    """
    from bigiron.history import measure  # imported here, as `show` does not need it

    question = measure.HistoryRequest(kernel, numbers("--cpus", cpus), measure.chosen(workloads or []), arch)
    try:
        with pools(fleet, certificates, jobs) as workers, ProgressBar([]) as bar:
            done = measure.add(output, question, jobs, workers, bar)
    except KeyboardInterrupt:
        raise stopped(output) from None
    refused = f", {done.refused} refused" if done.refused else ""
    measured = plural(done.measured, "cell")
    print(f"{measured} measured, {done.failed} failed{refused}: see `bigiron history show {output}`")
    if done.failed:
        raise typer.Exit(3)


@app.command()
def show(
    history: _Folder = Path("history"),
    workload: Annotated[
        str, typer.Option(help="show one workload on all kernels: open1, fxmark/DWAL@ext4")
    ] = "",
    object: Annotated[
        str,
        typer.Option(
            help='show the workloads that share a cache line of this object: "struct aa_label.count"'
        ),
    ] = "",
    kernel: Annotated[str, typer.Option(help="show what changed with this kernel")] = "",
    format: Annotated[str, choice(history_report.FORMATS, "output format")] = "text",
) -> None:
    """Show a history: all workloads by kernel, or one workload, object or kernel.

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
    print(history_report.FORMATS[format](view), end="")


@app.command()
def site(
    history: _Folder = Path("history"),
    output: Annotated[
        Path, typer.Option("-o", "--output", help="the site's folder; an older site there is replaced")
    ] = Path("site"),
) -> None:
    """Write a history as HTML pages that need no server and no network.

    Example: `bigiron history site history -o site`
    """
    from bigiron.report.site import site as pages  # imported here, as its templates take time to load

    count, size = pages.write(open_history(history), output)
    print(f"{count} pages, {size / 1e6:.1f} MB: open {output / 'index.html'}")
