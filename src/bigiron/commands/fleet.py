"""`bigiron fleet`: a fleet's processes and certificates; and what opens one for the commands that use it."""

import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bigiron.errors import UserError
from bigiron.machines.vm.vm import host_mib

if TYPE_CHECKING:
    from bigiron.study.pool import Pools

app = typer.Typer(no_args_is_help=True, help="Machines that run a study's cells together.")

FleetAddress = Annotated[
    str, typer.Option("--fleet", help="where cells run: local:N for N workers here, or tls://HOST:PORT")
]
Certificates = Annotated[
    Path | None, typer.Option("--certificates", help="the fleet's, of `bigiron fleet init`")
]


def require_dask() -> None:
    """UserError where the extra is not installed."""
    for module in ("distributed", "cryptography"):
        if importlib.util.find_spec(module) is None:
            raise UserError(
                f"a fleet needs {module}, which is not installed: ./setup.sh fleet in a checkout, "
                "or pip install 'bigiron[fleet]'"
            )


@contextmanager
def pools(address: str, certificates: Path | None, jobs: int) -> "Iterator[Pools | None]":
    """The fleet at an address as a place to run cells, while it is connected; None without one."""
    if not address:
        if certificates:
            raise UserError("--certificates are a fleet's: give --fleet tls://HOST:PORT too")
        yield None
        return
    if jobs:
        raise UserError("--jobs is how many machines run here, and a fleet's workers know that: leave it out")
    require_dask()
    from bigiron.fleet.controller import Fleet  # here, as nobody else should need or wait for Dask

    with Fleet(address, certificates) as fleet:
        yield fleet.pool


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(help="a new folder for the certificates")],
    days: Annotated[int, typer.Option(min=1, max=3650, help="how long they are valid")] = 90,
) -> None:
    """Make a throw-away authority and the certificate that a fleet's machines share.

    Example: `bigiron fleet init certificates`
    """
    require_dask()
    from bigiron.fleet import authority

    authority.create(folder, days)
    print(
        f"{folder}: who has these files is of the fleet, and can run programs on its machines for {days} days"
    )


@app.command()
def scheduler(
    listen: Annotated[
        str, typer.Option(help="where workers and `bigiron run` reach it")
    ] = "tls://127.0.0.1:8786",
    certificates: Certificates = None,
    dashboard: Annotated[
        int, typer.Option(min=0, max=65535, help="port of Dask's pages, for this machine alone; 0: none")
    ] = 0,
) -> None:
    """Run the scheduler of a fleet, until it is ended.

    Example: `bigiron fleet scheduler --listen tls://0.0.0.0:8786 --certificates certificates`
    """
    require_dask()
    from bigiron.fleet import address, serve

    serve.schedule(address.parse(listen), certificates, dashboard)


@app.command()
def worker(
    address: Annotated[str, typer.Argument(help="the scheduler's: tls://HOST:PORT")],
    certificates: Certificates = None,
    cpus: Annotated[int, typer.Option(min=0, help="cells side by side; 0: as many as cores")] = 0,
    memory: Annotated[int, typer.Option(min=0, help="MiB that they may take; 0: half of all")] = 0,
    host: Annotated[str, typer.Option(help="what this host is called  [default: its own name]")] = "",
) -> None:
    """Run cells for a fleet, until its scheduler goes or this is ended.

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
