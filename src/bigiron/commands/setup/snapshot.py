"""`bigiron snapshot`: list and drop the stored booted machines."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from bigiron.commands.common.output import InListFormat, print_list
from bigiron.errors import UserError
from bigiron.machines.vm import snapshot
from bigiron.report.formats.listing import Listing

_COLUMNS = ("snapshot", "kernel", "CPUs", "nodes", "memory, MiB", "boot line", "size, MiB", "last used (UTC)")

app = typer.Typer(
    help="List and drop the booted virtual machines from which cells resume.", no_args_is_help=True
)


@app.command("list")
def list_(format: InListFormat = "text") -> None:
    """List the snapshots, the most recently used first."""
    print_list(Listing(_COLUMNS, [_row(kept) for kept in snapshot.list_snapshots()]), format)


@app.command("drop")
def drop(
    name: Annotated[str | None, typer.Argument(help="a snapshot's name, or the start of it")] = None,
    all_: Annotated[bool, typer.Option("--all", help="drop all snapshots")] = False,
) -> None:
    """Drop a snapshot: the next cell of its machine boots and makes a new one.

    Example: `bigiron snapshot drop --all`
    """
    if (name is None) != all_:
        raise UserError("give the name of a snapshot (`bigiron snapshot list`), or --all")
    dropped = snapshot.drop(name)
    print(
        "\n".join(f"dropped {one.name}: {one.size >> 20} MiB" for one in dropped) or "there were no snapshots"
    )


def _row(kept: snapshot.SnapshotInfo) -> tuple[str, ...]:
    machine = kept.machine
    if machine is None:
        return kept.name, "damaged", "", "", "", "", f"{kept.size >> 20}", _time(kept.used)
    return (
        kept.name,
        f"{machine.kernel} {machine.arch}",
        str(machine.sockets * machine.cores * machine.threads),
        str(machine.nodes),
        str(machine.memory_mib),
        machine.boot,
        str(kept.size >> 20),
        _time(kept.used),
    )


def _time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M}"
