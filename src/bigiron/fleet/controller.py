"""The controller's side of a fleet: sends a study's cells to workers, and writes their results."""

import itertools
import math
import random
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any

import msgspec
from distributed import Client
from distributed import Future as Task
from distributed.client import FutureCancelledError
from distributed.scheduler import KilledWorker

from bigiron.errors import MachineError, UserError
from bigiron.fleet import address as addresses
from bigiron.fleet import agreement, authority, messages, serve, worker
from bigiron.fleet.admission import TRIES, Admission, FleetWorker
from bigiron.fleet.identity import host_name
from bigiron.fleet.local import LocalWorkers
from bigiron.machines.engine import Programs
from bigiron.machines.shape_change import change
from bigiron.study import store
from bigiron.study.environment import SameMachine
from bigiron.study.plan import Cell
from bigiron.study.pool import Progress, missing
from bigiron.study.store import CellRecord, Collected, Failure, Study
from bigiron.util.english import plural
from bigiron.util.sanitize import sanitize

ONE_IN = 100
"""One in so many cells runs on two hosts, as a check."""
PATIENCE_S = 60.0
"""How long a study waits for a worker that can run its cells."""
_ANSWER_S = 15
_GONE = "the fleet's scheduler has ended: start it, and run the command again"
_LOOK_S = 1.0
_WRITERS = 4


class Fleet:
    """A connection to a fleet, for one or several studies."""

    def __init__(self, address: str, certificates: Path | None) -> None:
        self._stack = ExitStack()
        self._certificates = certificates
        self.here = addresses.workers_here(address)
        self._address = address
        self.local: LocalWorkers | None = None
        self.client: Client

    def __enter__(self) -> "Fleet":
        serve.quiet()
        with self._stack:
            if self.here and self._certificates:
                raise UserError("--fleet local:N makes certificates of its own: leave out --certificates")
            if self.here:
                self.local = self._stack.enter_context(LocalWorkers(self.here))
                address = self.local.address
                certificates: Path | None = self.local.certificates
            else:
                address, certificates = addresses.parse(self._address), self._certificates
            address.refuse_unencrypted(certificates)
            security = authority.security(certificates) if certificates else None
            try:
                client = Client(str(address), security=security, timeout=_ANSWER_S, set_as_default=False)
            except (OSError, TimeoutError) as error:
                raise UserError(f"no scheduler answers at {address}: {serve.reason(error)}") from None
            self.client = self._stack.enter_context(client)
            self._stack = self._stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def pool(self, study: Study, programs: Programs | None, progress: Progress) -> "StudyPool":
        """Its workers as a place to run a study's cells."""
        return StudyPool(self, study, programs, progress)


@dataclass
class _PendingCell:
    """A cell that was submitted to the fleet."""

    cell: Cell
    request: bytes
    takes: Mapping[str, float]
    done: Future[CellRecord] = field(default_factory=Future)
    task: "Task[bytes] | None" = None
    at: str = ""  # the worker that is running it
    deaths: int = 0
    first: tuple[CellRecord, Collected] | None = (
        None  # the result of the first host, if a second one is to verify it
    )
    stuck_since: float = math.inf


class StudyPool:
    """The fleet as a place to run a study's cells.

    Invariant: a cell is written once, by this process; until then nothing of it is in the study.
    """

    def __init__(self, fleet: Fleet, study: Study, programs: Programs | None, progress: Progress) -> None:
        messages.refuse_real_machines(study.spec)
        self._fleet, self._client = fleet, fleet.client
        self._study, self._spec, self._programs, self._progress = study, study.spec, programs, progress
        self._topic = f"bigiron-{secrets.token_hex(8)}"
        self._numbers = itertools.count()
        self._pending: dict[str, _PendingCell] = {}
        self._members: dict[str, FleetWorker] = {}
        self._no_worker_since = math.inf
        self._same = SameMachine(study)
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._writers = ThreadPoolExecutor(_WRITERS)
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._time_host = ""  # the only host that measures times, if any does
        self._error: Exception | None = None  # raised in the watcher thread
        self._unverified = 0  # cells that no second host could verify

    def __enter__(self) -> "StudyPool":
        cells = missing(self._study)
        self._supplies, self._paths = messages.supplies_of(self._study, cells, self._programs)
        self._admission = Admission(
            self._client, self._study, cells, self._supplies.files, self._paths, self._topic, self._request,
            self._progress,
        )  # fmt: skip
        self._twice = self._chosen(cells)
        self._client.subscribe_topic(self._topic, self._on_event)
        self._wait_for_workers()
        if self._spec.measures_time:
            self._time_host = self._host_of_times()
        self._watcher.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        tasks = [pending.task for pending in self._pending.values() if pending.task]
        self._pending.clear()
        with suppress(Exception):  # a worker that cannot be reached has ended, and its cells with it
            self._client.cancel(tasks, force=True)
        if self._watcher.is_alive():
            self._watcher.join()
        with suppress(Exception):
            self._client.unsubscribe_topic(self._topic)
            self._client.run(worker.join, self._topic, 0, workers=list(self._members), on_error="ignore")
        self._writers.shutdown(cancel_futures=kind is not None)
        if self._unverified and not kind and not self._fleet.local:
            cells = plural(self._unverified, "cell")
            self._progress.note(
                f"{cells} could not be verified on a second host: there was none, or it failed"
            )

    def _chosen(self, cells: list[Cell]) -> set[str]:
        """The cells to verify on a second host: chosen at random, the same in each run."""
        ids = [cell.id for cell in cells if not change(cell.change).boots]
        if len(ids) < 2 or self._spec.measures_time or not agreement.can_compare(self._spec):
            return set()
        return set(random.Random("".join(ids)).sample(ids, math.ceil(len(ids) / ONE_IN)))

    def _host_of_times(self) -> str:
        """The one host that measures a study's times: times of two hosts are not comparable."""
        for record in self._study.records():
            if record.measured:
                return str(record.environment.get("worker", {}).get("host", host_name()))
        return next(iter(self._members.values())).identity.host

    # Members

    def _wait_for_workers(self) -> None:
        try:
            self._wait_for_the_first()
        except (OSError, TimeoutError):
            raise UserError(_GONE) from None

    def _wait_for_the_first(self) -> None:
        end = monotonic() + PATIENCE_S
        self._admit()
        while not self._members:
            if not self._connected:
                raise UserError(_GONE)
            if monotonic() > end or len(self._admission.refused) == (self._fleet.here or math.inf):
                raise UserError(self._why_none())
            self._ended.wait(_LOOK_S / 4)
            self._admit()

    def _why_none(self) -> str:
        reasons = "; ".join(dict.fromkeys(self._admission.refused.values()))
        return "the fleet has no usable worker" + (
            f": {reasons}" if reasons else f" after {PATIENCE_S:.0f} s: start one with `bigiron fleet worker`"
        )

    def _watch(self) -> None:
        while not self._ended.wait(_LOOK_S):
            try:
                self._admit()
                self._free_the_stuck()
            except Exception as error:
                if self._connected:
                    self._error = error

    def _free_the_stuck(self) -> None:
        """Give up on cells that no remaining worker can run."""
        with self._lock:
            waiting = [(key, pending) for key, pending in self._pending.items() if not pending.at]
            for key, pending in waiting:
                if any(self._able(pending)):
                    pending.stuck_since = math.inf
                elif pending.stuck_since == math.inf:
                    pending.stuck_since = monotonic()
                elif monotonic() - pending.stuck_since > PATIENCE_S and self._members:
                    del self._pending[key]
                    if pending.task:
                        self._client.cancel([pending.task], force=True)
                    self._writers.submit(self._settle, pending, self._give_up)

    def _give_up(self, pending: _PendingCell) -> None:
        self._fail(pending, Failure("machine", "the workers that could run it have left the fleet"))

    def _admit(self) -> None:
        """See which workers have come, and which have gone."""
        there = self._admission.registered()
        if there is None:
            return  # the scheduler does not answer
        for address in [one for one in self._members if one not in there]:
            self._lose(address)
        known = self._members.keys() | self._admission.refused.keys()
        joined = self._admission.admit({one: there[one] for one in there if one not in known})
        if not joined:
            return
        with self._lock:
            self._members |= joined
            waiting = {key: pending for key, pending in self._pending.items() if not pending.at}
            for key in waiting:
                del self._pending[key]
        # Dask does not look for a worker again for a waiting task when a worker joins a study.
        self._client.cancel([pending.task for pending in waiting.values() if pending.task], force=True)
        for pending in waiting.values():
            self._send(pending)

    def _lose(self, address: str) -> None:
        with self._lock:
            member = self._members.pop(address, None)
        if member:
            self._progress.note(f"{member} has left the fleet: its cells run on other workers")

    # Cells

    @property
    def room(self) -> int:
        """How many CPUs the workers have; UserError once there has been no worker for long."""
        if self._fleet.local:
            self._fleet.local.renew()  # by the main thread, as they end with the thread that started them
        if not self._connected:
            raise UserError(_GONE)
        if self._error:
            raise self._error
        with self._lock:
            able = [one for one in self._members.values() if self._time_host in ("", one.identity.host)]
            if able:
                self._no_worker_since = math.inf
                return 1 if self._time_host else sum(int(member.has["CPU"]) for member in able)
            self._no_worker_since = min(self._no_worker_since, monotonic())
            if monotonic() - self._no_worker_since > PATIENCE_S:
                why = self._why_none()
                if self._time_host:
                    why = f"the study's times were measured on {self._time_host}: start a worker there"
                raise UserError(f"{why}; then run the command again to continue")
            return 0

    @property
    def _connected(self) -> bool:
        """Whether the scheduler is connected; Dask tries for a while to reconnect.

        If the scheduler closes the stream of events, as after an internal error, Dask does not reconnect and
        still reports itself as running, but no event of a cell arrives any more.
        """
        hears = getattr(self._client, "_handle_report_task", None)
        return self._client.status in ("running", "connecting") and not (hears and hears.done())

    def submit(self, cell: Cell) -> Future[CellRecord]:
        """Have a worker measure a cell."""
        pending = _PendingCell(cell, self._request(cell), self._spec.engine.takes(cell.cpus))
        self._send(pending)
        return pending.done

    def _request(self, cell: Cell) -> bytes:
        same = self._same.of(cell)
        plain = {what: value for what, value in same.items() if isinstance(value, str | int)}
        return messages.ask(self._spec, cell, self._supplies, plain, self._topic)

    def _send(self, pending: _PendingCell) -> None:
        with self._lock:
            if self._ended.is_set():
                return
            if why := self._fits_nowhere(pending.takes):
                self._fail(pending, Failure("input", why))
                return
            key = f"{self._topic}-{next(self._numbers)}"
            self._pending[key] = pending
            pending.at, pending.task = "", None
            if not any(self._able(pending)):
                return  # until a worker joins that can run it
            pending.task = self._client.submit(
                worker.measure,
                pending.request,
                key=key,
                resources={**pending.takes, self._topic: 1},
                workers=self._chosen_workers(pending),
                retries=0,
                pure=False,
            )
        pending.task.add_done_callback(partial(self._on_result, key))

    def _fits_nowhere(self, takes: Mapping[str, float]) -> str:
        members = self._members.values()
        if not members or not all(member.lacks(takes) for member in members):
            return ""
        return "no worker of the fleet can run it: " + "; ".join(
            f"{member} has {member.lacks(takes)}" for member in members
        )

    def _chosen_workers(self, pending: _PendingCell) -> list[str] | None:
        """The workers that may run it; None: Dask chooses among all that have joined the study."""
        if not pending.first and not self._time_host:
            return None
        return [member.address for member in self._able(pending)]

    def _able(self, pending: _PendingCell) -> Iterator[FleetWorker]:
        """The workers that may run it and have the resources. An iterator, as mostly the first is enough."""
        refused = pending.first[0].environment["worker"]["host"] if pending.first else None
        return (
            member
            for member in self._members.values()
            if member.identity.host != refused
            and self._time_host in ("", member.identity.host)
            and not member.lacks(pending.takes)
        )

    def _on_event(self, event: tuple[float, Mapping[str, Any]]) -> None:
        """Take in a worker's event about a cell."""
        news = event[1]
        pending = self._pending.get(str(news.get("key")))
        if not pending:
            return
        if not pending.at:
            pending.at = str(news.get("worker"))
            self._progress.started(pending.cell)
        self._progress.stage(pending.cell, sanitize(str(news.get("stage"))))

    # Results

    def _on_result(self, key: str, task: "Task[bytes]") -> None:
        with suppress(RuntimeError):  # the study has ended
            self._writers.submit(self._land, key, task)

    def _land(self, key: str, task: "Task[bytes]") -> None:
        with self._lock:
            pending = self._pending.pop(key, None)
        if pending and not self._ended.is_set():
            self._settle(pending, partial(self._take, task))

    def _settle(self, pending: _PendingCell, settle: Callable[[_PendingCell], None]) -> None:
        """Call `settle` on a thread that no other waits for: its exception becomes the result of the cell."""
        try:
            settle(pending)
        except BaseException as error:
            pending.done.set_exception(error)

    def _take(self, task: "Task[bytes]", pending: _PendingCell) -> None:
        try:
            content = task.result()
        except KilledWorker as killed:
            self._died(pending, killed.last_worker.address)
            return
        except (FutureCancelledError, TimeoutError, OSError):
            self._send(pending)  # Dask lost it
            return
        except UserError as error:
            self._fail(pending, Failure("input", sanitize(str(error))))
            return
        except Exception as error:
            why = " ".join(str(error).split())
            self._fail(
                pending, Failure("machine", sanitize(f"its worker failed: {type(error).__name__}: {why}"))
            )
            return
        if not content:
            self._send(pending)  # the worker is ending
            return
        record, collected, seconds = messages.read_reply(content, pending.cell)
        began = datetime.now(UTC) - timedelta(seconds=seconds)
        record.started = began.isoformat(timespec="seconds")
        self._judge(pending, record, collected)

    def _died(self, pending: _PendingCell, address: str) -> None:
        """A worker ended, and a cell with it. Only a cell that it was running may be the cause."""
        self._lose(address)
        if pending.at == address:
            pending.deaths += 1
            self._progress.note(f"{pending.cell}: its worker ended, try {pending.deaths} of {TRIES}")
        if pending.deaths == TRIES:
            self._fail(
                pending, Failure("machine", f"{TRIES} workers ended while they ran it, the last at {address}")
            )
        else:
            self._send(pending)

    def _judge(self, pending: _PendingCell, record: CellRecord, collected: Collected) -> None:
        """Write a cell, or have a second host verify it; MachineError if the two do not agree."""
        if not pending.first:
            if record.measured and pending.cell.id in self._twice:
                pending.first = record, collected
                with self._lock:
                    others = any(self._able(pending))
                if others:
                    self._send(pending)
                    return
                self._unverified += 1
            self._write(pending, record, collected)
            return
        kept, tables = pending.first
        if record.measured:
            kept.environment["also_on"] = record.environment["worker"]
            if differences := agreement.differences(self._spec, pending.cell.cpus, tables, collected):
                raise MachineError(self._disagreement(pending, kept, record, differences))
        else:
            self._unverified += 1
        self._write(pending, kept, tables)

    def _disagreement(
        self, pending: _PendingCell, one: CellRecord, other: CellRecord, differences: list[str]
    ) -> str:
        hosts = [str(record.environment["worker"]["host"]) for record in (one, other)]
        reason = (
            f"{pending.cell}: two hosts, {' and '.join(hosts)}, counted differently, so no cell of this "
            f"study can be trusted: {'; '.join(differences[:3])}"
        )
        environments = "\n".join(
            f"{host}: {msgspec.json.encode(record.environment).decode()}"
            for host, record in zip(hosts, (one, other), strict=True)
        )
        one.failure = Failure("machine", reason, environments)
        self._study.add(one, {})
        raise MachineError(reason, environments)

    def _fail(self, pending: _PendingCell, failure: Failure) -> None:
        """Write why a cell failed; where only its verification did, write what the first host measured."""
        if pending.first:
            self._unverified += 1
            self._write(pending, *pending.first)
            return
        record = store.new_record(pending.cell, self._spec.machine)
        record.failure = failure
        self._write(pending, record, Collected({}))

    def _write(self, pending: _PendingCell, record: CellRecord, collected: Collected) -> None:
        self._study.add(record, collected.tables, collected.files)
        pending.done.set_result(record)
