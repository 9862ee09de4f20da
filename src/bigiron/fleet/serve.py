"""The processes of a fleet: a scheduler, and workers, each until it is ended."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Awaitable
from pathlib import Path
from typing import TypeVar

import dask
from distributed import Scheduler, Security, Worker
from distributed.comm.core import connect

from bigiron.errors import UserError
from bigiron.fleet import authority
from bigiron.fleet.address import Address
from bigiron.fleet.identity import WorkerIdentity, capacity, identity
from bigiron.fleet.worker import HOST, Stops

_PATIENCE_S = 30
_START_S = 600  # for all that a worker does until it can run cells, on a host that is busy
_LOOPBACK = "127.0.0.1"

_Result = TypeVar("_Result")


def schedule(listen: Address, certificates: Path | None, dashboard: int) -> None:
    """Be the scheduler; its address is the first line that it prints."""
    _run(_schedule(listen, certificates, dashboard))


async def _schedule(listen: Address, certificates: Path | None, dashboard: int) -> None:
    listen.refuse_unencrypted(certificates)
    try:
        scheduler = Scheduler(
            host=str(listen),
            security=authority.security(certificates) if certificates else None,
            allowed_failures=0,  # tries are the controller's to count
            # Its pages are not encrypted: only this machine's browsers get them.
            dashboard_address=f"{_LOOPBACK}:{dashboard}",
            dashboard=bool(dashboard),
        )
        await scheduler
    except OSError as error:
        raise UserError(f"cannot listen on {listen}: {error.strerror or error}") from None
    print(scheduler.address, flush=True)
    await _until_ended(scheduler.finished())
    await scheduler.close()


def work(address: Address, certificates: Path | None, host: str, cpus: int, mib: int) -> None:
    """Be a worker of so many cells side by side."""
    os.environ[HOST] = host
    _run(_work(address, certificates, identity(host), cpus, mib))


async def _work(address: Address, certificates: Path | None, me: WorkerIdentity, cpus: int, mib: int) -> None:
    address.refuse_unencrypted(certificates)
    resources = capacity(cpus, mib)
    security = authority.security(certificates) if certificates else None
    try:
        await _reach(address, security)
        worker = Worker(
            str(address),
            security=security,
            host=_LOOPBACK if address.is_loopback else None,
            nthreads=cpus,
            resources=resources,
            memory_limit=0,  # what matters is the machines' memory, which Dask does not see
            plugins=(Stops(),),
            name=f"{me.host}-{os.getpid()}",
            death_timeout=_START_S,
            dashboard_address=f"{_LOOPBACK}:0",
            dashboard=False,
        )
        await worker
    except (TimeoutError, OSError) as error:
        raise UserError(f"no scheduler answers at {address}: {reason(error)}") from None
    has = ", ".join(f"{amount:.0f} {what}" for what, amount in resources.items() if what not in me.qemu)
    boots = f"; boots {', '.join(me.qemu)}" if me.qemu else "; no QEMU, so simulations alone"
    print(f"worker {worker.address} on {me.host}: {has}{boots}", flush=True)
    if await _until_ended(worker.finished()):
        print("bigiron: the scheduler has ended", file=sys.stderr)
    await worker.close(timeout=_PATIENCE_S)


async def _reach(address: Address, security: Security | None) -> None:
    """Wait until the scheduler answers; OSError or TimeoutError where it does not."""
    arguments = security.get_connection_args("worker") if security else {}
    comm = await connect(str(address), timeout=_PATIENCE_S, **arguments)
    await comm.close()


def reason(error: BaseException) -> str:
    """Why there is no answer: the message of the first error."""
    causes = [error]
    while cause := causes[-1].__cause__ or causes[-1].__context__:
        causes.append(cause)
    words = " ".join(str(causes[-1]).split())
    return words or "it timed out"


async def _until_ended(finished: Awaitable[object]) -> bool:
    """Until it ends by itself, which is True, or is told to end."""
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    waiting = [asyncio.ensure_future(finished), asyncio.ensure_future(ended.wait())]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    return not ended.is_set()


def _run(serving: Awaitable[None]) -> None:
    quiet()
    with dask.config.set({"distributed.worker.http.routes": []}):
        asyncio.run(serving)  # type: ignore[arg-type]


def quiet() -> None:
    """Dask logs with tracebacks; the caller reports what matters in one line."""
    for name in logging.root.manager.loggerDict:
        if name.partition(".")[0] in ("distributed", "tornado", "asyncio"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
