"""`bigiron machine`: list, show and measure machines to simulate."""

import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from bigiron.commands.common.output import InListFormat, print_list
from bigiron.report.formats.listing import Listing
from bigiron.simulator import machine_files, machine_measure

app = typer.Typer(help="List, show and measure machines to simulate or predict for.", no_args_is_help=True)


@app.command("list")
def list_(format: InListFormat = "text") -> None:
    """List the built-in machines."""
    columns = {"machine": "machine", "cpus": "CPUs", "nodes": "nodes", "description": "what it is"}
    rows = [
        (machine.name, machine.cpus, machine.nodes, machine.description)
        for machine in machine_files.builtin()
    ]
    print_list(Listing(columns, rows, width=100), format)


@app.command("show")
def show(name: Annotated[str, typer.Argument(help="a built-in machine or a TOML file")]) -> None:
    """Print a machine file: a copy can be changed and given to --machine. An invalid file is an error.

    Example: `bigiron machine show altix-512`
    """
    machine_files.load(name)
    print(machine_files.text(name), end="")


@app.command("measure")
def measure(
    output: Annotated[
        Path, typer.Option("-o", "--output", help="the file to write; an existing one is replaced")
    ],
) -> None:
    """Measure this machine, and write a machine file.

    Cache-line transfers, memory, bandwidth, clock rates and system calls are measured.

    It takes some seconds. Keep the CPUs otherwise idle meanwhile.

    Example: `bigiron machine measure -o here.toml`
    """
    # The measuring threads do not check for Ctrl-C. Ending at once is safe: nothing is written yet.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    toml = machine_measure.measure(
        machine_measure.Host.here(), output.stem, lambda step: print(step, file=sys.stderr)
    )
    output.write_text(toml, encoding="utf-8")
    machine = machine_files.load(str(output))
    nodes = "1 node" if machine.nodes == 1 else f"{machine.nodes} nodes"
    print(f"{output}: {machine.cpus} CPUs on {nodes}; see `bigiron machine show {output}`")
