"""`bigiron machine`: the machines to simulate."""

import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from bigiron.commands.options import ListFormat
from bigiron.commands.output import print_list
from bigiron.report.formats.listing import Listing
from bigiron.simulator import machine_files, machine_measure

app = typer.Typer(help="Machines to simulate: list, show, measure.", no_args_is_help=True)


@app.command("list")
def list_(format: Annotated[ListFormat, typer.Option(help="how to print it")] = ListFormat.text) -> None:
    """List the machines that the simulator knows."""
    columns = {"machine": "machine", "cpus": "CPUs", "nodes": "nodes", "description": "what it is"}
    rows = [
        (machine.name, machine.cpus, machine.nodes, machine.description)
        for machine in machine_files.builtin()
    ]
    print_list(Listing(columns, rows), format)


@app.command("show")
def show(name: Annotated[str, typer.Argument(help="a machine, or a file")]) -> None:
    """Print a machine's file: copy it, change it, and give it to --machine. A wrong file is an error.

    Example: `bigiron machine show altix-512`
    """
    machine_files.load(name)
    print(machine_files.text(name), end="")


@app.command("measure")
def measure(output: Annotated[Path, typer.Option("-o", "--output", help="the file; made anew")]) -> None:
    """Measure how long a cache line takes between the CPUs of this machine, and write it as a machine file.

    It takes some seconds. Nothing else should use the CPUs meanwhile.

    Example: `bigiron machine measure -o here.toml`
    """
    # Threads that wait for each other hear no Ctrl-C, and nothing is written yet that it could harm.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    toml = machine_measure.measure(
        machine_measure.Host.here(), output.stem, lambda step: print(step, file=sys.stderr)
    )
    output.write_text(toml, encoding="utf-8")
    machine = machine_files.load(str(output))
    nodes = "1 node" if machine.nodes == 1 else f"{machine.nodes} nodes"
    print(f"{output}: {machine.cpus} CPUs on {nodes}; see `bigiron machine show {output}`")
