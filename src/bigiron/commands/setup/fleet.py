"""`bigiron fleet`: a fleet's processes and certificates; and how other commands open a fleet."""

import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bigiron.errors import UserError
from bigiron.util.host_memory import host_mib

if TYPE_CHECKING:
    from bigiron.study.pool import Pools

app = typer.Typer(no_args_is_help=True, help="Run a study's cells on several machines.")

FleetAddress = Annotated[
    str, typer.Option("--fleet", help="run cells on a fleet: local:N (N workers here) or tls://HOST:PORT")
]
Certificates = Annotated[
    Path | None,
    typer.Option("--certificates", help="folder with the fleet's certificates (`bigiron fleet init`)"),
]


def require_dask() -> None:
    """UserError unless the optional dependencies of a fleet are installed."""
    for module in ("distributed", "cryptography"):
        if importlib.util.find_spec(module) is None:
            raise UserError(
                f"a fleet needs {module}, which is not installed: ./setup.sh fleet in a checkout, "
                "or pip install 'bigiron[fleet]'"
            )


@contextmanager
def pools(address: str, certificates: Path | None, jobs: int) -> "Iterator[Pools | None]":
    """The pools of the fleet at an address, while it is connected; None without an address."""
    if not address:
        if certificates:
            raise UserError("--certificates needs a fleet: give --fleet tls://HOST:PORT too")
        yield None
        return
    if jobs:
        raise UserError(
            "--jobs does not apply to a fleet, whose workers set their own number of cells: leave it out"
        )
    require_dask()
    from bigiron.fleet.controller import Fleet  # imported here, so that only fleets need Dask

    with Fleet(address, certificates) as fleet:
        yield fleet.pool


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(help="a new folder for the certificates")],
    days: Annotated[int, typer.Option(min=1, max=3650, help="days that the certificates are valid")] = 90,
) -> None:
    """Make a temporary certificate authority and the certificate that a fleet's machines share.

    Example: `bigiron fleet init certificates`
    """
    require_dask()
    from bigiron.fleet import authority

    authority.create(folder, days)
    print(
        f"{folder}: anyone with these files can join the fleet and run programs on its machines "
        f"for {days} days"
    )


@app.command()
def scheduler(
    listen: Annotated[
        str, typer.Option(help="the address that workers and `bigiron run` connect to")
    ] = "tls://127.0.0.1:8786",
    certificates: Certificates = None,
    dashboard: Annotated[
        int,
        typer.Option(
            min=0,
            max=65535,
            help="port of Dask's dashboard, reachable from this machine only; 0: no dashboard",
        ),
    ] = 0,
) -> None:
    """Run the scheduler of a fleet until it is stopped.

    Example: `bigiron fleet scheduler --listen tls://0.0.0.0:8786 --certificates certificates`
    """
    require_dask()
    from bigiron.fleet import address, serve

    serve.schedule(address.parse(listen), certificates, dashboard)


@app.command()
def worker(
    address: Annotated[str, typer.Argument(help="the scheduler's address: tls://HOST:PORT")],
    certificates: Certificates = None,
    cpus: Annotated[int, typer.Option(min=0, help="cells to run at once; 0: one per core")] = 0,
    memory: Annotated[int, typer.Option(min=0, help="MiB of memory for cells; 0: half of the host's")] = 0,
    host: Annotated[str, typer.Option(help="name of this host in results  [default: its host name]")] = "",
) -> None:
    """Run cells for a fleet until its scheduler ends or this worker is stopped.

    Example: `bigiron fleet worker tls://build1:8786 --certificates certificates`
    """
    require_dask()
    from bigiron.fleet import address as addresses
    from bigiron.fleet import identity, serve

    serve.work(
        addresses.parse(address),
        certificates,
        host or identity.host_name(),
        cpus or len(os.sched_getaffinity(0)),
        memory or host_mib() // 2,
    )
