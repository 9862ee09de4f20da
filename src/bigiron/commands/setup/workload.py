"""`bigiron workload`: list and show workloads."""

from typing import Annotated

import typer

from bigiron import workloads
from bigiron.commands.common.output import InListFormat, print_list
from bigiron.report.formats.listing import Listing

app = typer.Typer(help="List and show workloads to run.", no_args_is_help=True)


@app.command("list")
def list_(format: InListFormat = "text") -> None:
    """List the built-in workloads and what one operation of each does."""
    rows = [(workload.name, workload.description) for workload in workloads.builtin()]
    print_list(Listing({"workload": "workload", "operation": "one operation"}, rows), format)


@app.command("show")
def show(name: Annotated[str, typer.Argument(help="a built-in workload")]) -> None:
    """Print a workload's C source."""
    print(workloads.find(name).source.read_text(encoding="utf-8"), end="")
