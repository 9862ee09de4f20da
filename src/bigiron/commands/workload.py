"""`bigiron workload`: the workloads to run."""

from typing import Annotated

import typer

from bigiron import workloads
from bigiron.commands.options import ListFormat
from bigiron.commands.output import print_list
from bigiron.report.formats.listing import Listing

app = typer.Typer(help="Workloads to run: list, show.", no_args_is_help=True)


@app.command("list")
def list_(format: Annotated[ListFormat, typer.Option(help="how to print it")] = ListFormat.text) -> None:
    """List the built-in workloads and what each exercises."""
    rows = [(workload.name, workload.description) for workload in workloads.builtin()]
    print_list(Listing({"workload": "workload", "operation": "one operation"}, rows), format)


@app.command("show")
def show(name: Annotated[str, typer.Argument(help="a built-in workload")]) -> None:
    """Print a workload's C source."""
    print(workloads.find(name).source.read_text(encoding="utf-8"), end="")
