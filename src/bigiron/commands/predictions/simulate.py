"""`bigiron simulate`: run designs on simulated machines, and list the designs."""

from pathlib import Path
from typing import Annotated

import typer

from bigiron.commands.common.measure import measure_study
from bigiron.commands.common.options import RunByDefault, doublings, numbers
from bigiron.commands.common.output import InListFormat, print_list
from bigiron.commands.setup.fleet import Certificates, FleetAddress, pools
from bigiron.errors import UserError
from bigiron.report.formats.listing import Listing
from bigiron.study import simulated

app = typer.Typer(
    cls=RunByDefault,
    no_args_is_help=True,
    help="Simulate a design on a machine of any size: `bigiron simulate DESIGN --machine MACHINE -o DIR`.",
)


@app.command("list")
def list_(
    format: InListFormat = "text",
) -> None:
    """List the designs and their parameters."""
    columns = {"design": "design", "name": "", "default": "default", "meaning": "what it is"}
    print_list(Listing(columns, simulated.listing()), format)


@app.command()
def run(
    design: Annotated[str, typer.Argument(help="a design (`bigiron simulate list`)")],
    machine: Annotated[
        str | None, typer.Option(help="a machine to simulate (`bigiron machine list`), or a TOML file")
    ] = None,
    cpus: Annotated[
        str | None,
        typer.Option(help="CPU counts: 2,4,8, or 2..512 by doubling  [default: all CPUs of the machine]"),
    ] = None,
    tasks: Annotated[str, typer.Option(help="task counts: 'all' (one per CPU), or numbers: 1,8")] = "all",
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="NAME=VALUE, or NAME=V1,V2 for one variant per value; may be repeated",
        ),
    ] = None,
    seeds: Annotated[
        int, typer.Option(min=1, max=1000, help="runs of every cell, each with another random seed")
    ] = 1,
    ranges: Annotated[
        bool,
        typer.Option("--ranges", help="sample the machine from its file's ranges for each further seed"),
    ] = False,
    warmup: Annotated[float, typer.Option(help="virtual milliseconds before counting starts")] = 100,
    duration: Annotated[
        float, typer.Option(help="virtual milliseconds to count; 0: until the design ends by itself")
    ] = 100,
    timeline: Annotated[
        float, typer.Option(help="virtual microseconds after the warmup to keep as a Perfetto timeline")
    ] = 0,
    jobs: Annotated[int, typer.Option(min=0, help="simulations to run at once; 0: one per core")] = 0,
    fleet: FleetAddress = "",
    certificates: Certificates = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="the study's folder: a new one, or one to continue")
    ] = None,
) -> None:
    """Simulate a design on a machine of any size, and keep the results in a study.

    Example: `bigiron simulate rcu-flat --machine altix-512 --set mask=0,3,7 --seeds 3 -o s`
    """
    if not machine:
        raise UserError("no machine: give --machine altix-512, or one of `bigiron machine list`")
    if output is None:
        raise UserError("no folder for the study: give -o FOLDER")
    spec = simulated.asking(
        design,
        machine,
        doublings("--cpus", cpus) if cpus is not None else None,
        "all" if tasks == "all" else numbers("--tasks", tasks),
        set_,
        seeds=seeds,
        warmup_ms=warmup,
        duration_ms=duration,
        timeline_us=timeline,
        ranges=ranges,
    )
    with pools(fleet, certificates, jobs) as where:
        measure_study(spec, output, jobs, fleet=where)
