"""`bigiron simulate`: designs on machines of any size, and which there are."""

from pathlib import Path
from typing import Annotated

import typer

from bigiron.commands.fleet import Certificates, FleetAddress, pools
from bigiron.commands.measure import measure_study
from bigiron.commands.options import ListFormat, RunByDefault, doublings, numbers
from bigiron.commands.output import print_list
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
    format: Annotated[ListFormat, typer.Option(help="how to print it")] = ListFormat.text,
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
        str | None, typer.Option(help="numbers of CPUs: 2,4,8, or 2..512 by doubling  [default: all]")
    ] = None,
    tasks: Annotated[str, typer.Option(help="'all' (one a CPU), or numbers: 1,8")] = "all",
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="NAME=VALUE of a parameter, or NAME=VALUE,VALUE: a variant each; repeat"),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="runs of every cell, by chance apart")] = 1,
    ranges: Annotated[
        bool,
        typer.Option(
            "--ranges", help="a machine sampled from the ranges of its file for every seed but the first"
        ),
    ] = False,
    warmup: Annotated[float, typer.Option(help="virtual ms before anything is counted")] = 100,
    duration: Annotated[
        float, typer.Option(help="virtual ms that are counted; 0: to the design's own end")
    ] = 100,
    timeline: Annotated[
        float, typer.Option(help="virtual us after the warmup to keep a Perfetto timeline of")
    ] = 0,
    jobs: Annotated[int, typer.Option(min=0, help="runs side by side; 0: by cores")] = 0,
    fleet: FleetAddress = "",
    certificates: Certificates = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="the study's folder; made, or gone on with")
    ] = None,
) -> None:
    """Simulate a design on a machine of any size, and keep what it did in a study.

    Example: `bigiron simulate rcu-flat --machine altix-512 --set mask=0,3,7 --seeds 3 -o s`
    """
    if not machine:
        raise UserError("no machine: give --machine altix-512, or another (`bigiron machine list`)")
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
