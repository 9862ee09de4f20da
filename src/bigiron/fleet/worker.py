"""What runs on a worker. A controller calls these functions through Dask, with bytes and plain values.

`dask worker --preload bigiron.fleet.worker` makes any Dask worker one of these;
`bigiron fleet worker` is one.
"""

import os
import threading
from time import monotonic

import msgspec
from distributed import Worker, get_worker
from distributed.diagnostics.plugin import WorkerPlugin

from bigiron.errors import UserError
from bigiron.fleet import files, messages
from bigiron.fleet.files import HashedFile
from bigiron.fleet.identity import WorkerIdentity, capacity, host_name, identity
from bigiron.study import cell as study_cell
from bigiron.study import store
from bigiron.study.store import Collected, Failure
from bigiron.util import decode
from bigiron.util.host_memory import host_mib
from bigiron.util.threads import StoppedError

HOST = "BIGIRON_FLEET_HOST"
"""The variable that names this host otherwise than itself does."""


class Stops(WorkerPlugin):
    """Knows the cells that run, and stops them when they are no longer wanted or the worker ends.

    Dask cannot interrupt a task. It releases one whose controller has gone, however that ended.
    """

    name = "bigiron"

    def __init__(self) -> None:
        self._running: dict[str, threading.Event] = {}
        self._ended = False

    def begin(self, key: str) -> threading.Event:
        """A task begins; what is set when it is to stop."""
        stop = self._running[key] = threading.Event()
        if self._ended:
            stop.set()
        return stop

    def end(self, key: str) -> None:
        """It has ended."""
        self._running.pop(key, None)

    def transition(self, key: object, start: str, finish: str, **_more: object) -> None:
        """Dask tells of every task."""
        stop = self._running.get(str(key))
        if stop and finish == "cancelled":
            stop.set()

    def teardown(self, worker: Worker) -> None:
        """The worker ends."""
        self._ended = True
        for stop in list(self._running.values()):
            stop.set()


async def dask_setup(worker: Worker) -> None:
    """What Dask calls where this module is preloaded."""
    await worker.plugin_add(Stops())
    if "CPU" not in worker.state.total_resources:
        resources = capacity(worker.state.nthreads, host_mib() // 2)
        worker.state.total_resources.update(resources)
        worker.state.available_resources.update(resources)


def identify() -> bytes:
    """What this worker is."""
    return msgspec.msgpack.encode(_identity())


def _identity() -> WorkerIdentity:
    return identity(os.environ.get(HOST) or host_name())


def lacks(described: bytes) -> list[str]:
    """The digests of those files that this host does not have."""
    return [
        file.sha256 for file in decode.from_msgpack(described, list[HashedFile]) if not files.is_here(file)
    ]


def keep(described: bytes, content: bytes) -> str:
    """Keep a file; why that cannot be, or nothing."""
    try:
        files.keep(decode.from_msgpack(described, HashedFile), content)
    except (UserError, OSError) as error:
        return str(error)
    return ""


async def join(topic: str, cells: int, dask_worker: Worker) -> None:
    """Take part in a study with as many cells side by side as the worker can; 0: take part no longer."""
    await dask_worker.set_resources(**{topic: cells})


def environment_of(content: bytes) -> dict[str, object]:
    """What a cell's record would say of where it ran; `why` it cannot run."""
    try:
        request = messages.read_request(content)
        spec, cell, programs = messages.localized(*messages.read_question(request), request.supplies)
        return spec.engine.environment(study_cell.job_of(spec, cell, programs))
    except (UserError, OSError) as error:
        return {"why": str(error)}


def measure(content: bytes) -> bytes:
    """Measure one cell: the task that a controller submits."""
    begun = monotonic()
    worker = get_worker()
    key = str(worker.get_current_task())
    plugin = worker.plugins.get(Stops.name)
    if not isinstance(plugin, Stops):
        raise RuntimeError("this worker was not started by `bigiron fleet worker`")
    request = messages.read_request(content)
    stop, last_stage = plugin.begin(key), ""

    def tell(stage: str) -> None:
        nonlocal last_stage
        if stage != last_stage:
            worker.log_event(request.topic, {"key": key, "worker": worker.address, "stage": stage})
            last_stage = stage

    try:
        tell("booting")
        spec, cell = messages.read_question(request)
        try:
            record, collected = study_cell.run_cell(
                *messages.localized(spec, cell, request.supplies), request.same, stop, tell
            )
        except UserError as error:
            record, collected = store.new_record(cell, spec.machine), Collected({})
            record.failure = Failure("input", str(error))
        # Its own words for what this host calls otherwise.
        if spec.engine.is_model:
            record.environment["machine"] = spec.simulation.machine
        else:
            record.environment["kernel"] = cell.variant.kernel
        record.environment["worker"] = _identity().environment
        return messages.answer(record, collected, monotonic() - begun)
    except StoppedError:
        return b""
    finally:
        plugin.end(key)
