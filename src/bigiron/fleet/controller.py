"""The controller's side: who is in the fleet, which cell is where, and what comes of it."""

import itertools
import math
import random
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from time import monotonic, time
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
from bigiron.fleet.files import File
from bigiron.fleet.identity import Identity, host_name, identity
from bigiron.fleet.local import LocalWorkers
from bigiron.machines.engine import Programs
from bigiron.machines.vm.shape_change import change
from bigiron.study import run, store
from bigiron.study.plan import Cell
from bigiron.study.run import Progress
from bigiron.study.store import CellRecord, Collected, Failure, Study
from bigiron.util import decode
from bigiron.util.sanitize import sanitize

TRIES = 3
"""How often a cell may lose its worker before it is taken for the cause."""
ONE_IN = 100
"""Of how many cells one runs on two hosts."""
PATIENCE_S = 60.0
"""How long a study waits for a worker that can run its cells."""
_ANSWER_S = 15
_GONE = "the fleet's scheduler has gone: start it, and run this again"
_LOOK_S = 1.0
_CLOCK_S = 60
_WRITERS = 4
_ENOUGH = 1_000_000  # cells of one study side by side: what a worker has CPUs and memory for limits them
_BATCH = 16  # workers to which a file is sent at once
_SAME = ("qemu", "accelerator", "time_slice", "cgroup", "instructions_a_ns")  # all known before a cell runs


@dataclass(frozen=True)
class Member:
    """A worker that can be used."""

    address: str
    identity: Identity
    has: Mapping[str, float]  # its resources

    def __str__(self) -> str:
        return f"worker {self.address} on {self.identity.host}"

    def lacks(self, takes: Mapping[str, float]) -> str:
        """What of it is too little, or nothing."""
        for what, amount in takes.items():
            if self.has.get(what, 0) < amount:
                has = f"{self.has[what]:.0f}" if self.has.get(what) else "no"
                return f"{has} {what}" + (f", and {amount:.0f} are needed" if amount > 1 else "")
        return ""


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
    """A cell that is somewhere in the fleet."""

    cell: Cell
    request: bytes
    takes: Mapping[str, float]
    done: Future[CellRecord] = field(default_factory=Future)
    task: "Task[bytes] | None" = None
    at: str = ""  # the worker that has begun it
    deaths: int = 0
    first: tuple[CellRecord, Collected] | None = None  # from one host, where it is to run on two
    stuck_since: float = math.inf


class StudyPool:
    """The workers that take part in a study.

    Invariant: a cell is written once, by this process; until then nothing of it is in the study.
    """

    def __init__(self, fleet: Fleet, study: Study, programs: Programs | None, progress: Progress) -> None:
        messages.refuse_real_machines(study.spec)
        self._fleet, self._client = fleet, fleet.client
        self._study, self._spec, self._programs, self._progress = study, study.spec, programs, progress
        self._mine = identity(host_name())
        self._topic = f"bigiron-{secrets.token_hex(8)}"
        self._numbers = itertools.count()
        self._flights: dict[str, _PendingCell] = {}
        self._members: dict[str, Member] = {}
        self._refused: dict[str, str] = {}  # why, by the worker's address
        self._silent: Counter[str] = Counter()  # how often each could not be reached
        self._single_host_since = math.inf
        self._same = run.SameMachine(study)
        self._reference: dict[int, dict[str, object]] = {}
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._writers = ThreadPoolExecutor(_WRITERS)
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._time_host = ""  # where times are measured, the only one that may
        self._error: Exception | None = None  # of the watcher
        self._unverified = 0  # cells that should have run on two hosts, and there was one

    def __enter__(self) -> "StudyPool":
        cells = run.missing(self._study)
        self._supplies, self._paths = messages.supplies_of(self._study, cells, self._programs)
        asked = (replace(cell, change="") for cell in reversed(cells))  # whose shape others are like
        self._samples = {(cell.variant.name, cell.cpus): cell for cell in asked}
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
        tasks = [flight.task for flight in self._flights.values() if flight.task]
        self._flights.clear()
        with suppress(Exception):  # who cannot be told has gone, and its cells with it
            self._client.cancel(tasks, force=True)
        if self._watcher.is_alive():
            self._watcher.join()
        with suppress(Exception):
            self._client.unsubscribe_topic(self._topic)
            self._client.run(worker.join, self._topic, 0, workers=list(self._members), on_error="ignore")
        self._writers.shutdown(cancel_futures=kind is not None)
        if self._unverified and not kind and not self._fleet.local:
            self._progress.note("no cell ran on two hosts: there was one")

    def _chosen(self, cells: list[Cell]) -> set[str]:
        """Those to run on two hosts: by chance, the same in each try."""
        ids = [cell.id for cell in cells if not change(cell.change).boots]
        if len(ids) < 2 or self._spec.measures_time or not agreement.can_compare(self._spec):
            return set()
        return set(random.Random("".join(ids)).sample(ids, math.ceil(len(ids) / ONE_IN)))

    def _host_of_times(self) -> str:
        """The one host that measures a study's times: those of two hosts do not compare."""
        for record in self._study.records():
            if record.measured:
                return str(record.environment.get("worker", {}).get("host", host_name()))
        return next(iter(self._members.values())).identity.host

    # Who takes part

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
            if monotonic() > end or len(self._refused) == (self._fleet.here or math.inf):
                raise UserError(self._why_none())
            self._ended.wait(_LOOK_S / 4)
            self._admit()

    def _why_none(self) -> str:
        reasons = "; ".join(dict.fromkeys(self._refused.values()))
        return "the fleet has no worker that can be used" + (
            f": {reasons}"
            if reasons
            else f", and {PATIENCE_S:.0f} s were waited for one: start it with `bigiron fleet worker`"
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
        """Give up on what waits for workers that have gone, and that no other can do."""
        with self._lock:
            waiting = [(key, flight) for key, flight in self._flights.items() if not flight.at]
            for key, flight in waiting:
                if any(self._able(flight)):
                    flight.stuck_since = math.inf
                elif flight.stuck_since == math.inf:
                    flight.stuck_since = monotonic()
                elif monotonic() - flight.stuck_since > PATIENCE_S and self._members:
                    del self._flights[key]
                    if flight.task:
                        self._client.cancel([flight.task], force=True)
                    self._writers.submit(self._settle, flight, self._give_up)

    def _give_up(self, flight: _PendingCell) -> None:
        if flight.first:
            self._write(flight, *flight.first)
            self._unverified += 1
        else:
            self._fail(flight, Failure("machine", "the workers that could run it have gone"))

    def _admit(self) -> None:
        """See who has come, and who has gone."""
        there = self._registered()
        if there is None:
            return  # the scheduler does not answer
        for address in [one for one in self._members if one not in there]:
            self._lose(address)
        new = [one for one in there if one not in self._members and one not in self._refused]
        if not new:
            return
        answers = self._ask(worker.identify, workers=new)
        members = []
        for address, answer in answers.items():
            member = self._known(address, answer, there[address].get("resources", {}))
            if member:
                members.append(member)
        alike = self._alike(self._supply(members))
        joined = self._ask(worker.join, self._topic, _ENOUGH, workers=[member.address for member in alike])
        if not joined:
            return
        with self._lock:
            self._members |= {member.address: member for member in alike if member.address in joined}
            self._silent -= Counter(dict.fromkeys(joined, TRIES))
            waiting = {key: flight for key, flight in self._flights.items() if not flight.at}
            for key in waiting:
                del self._flights[key]
        # Dask does not look again who could run what waits, when a worker joins a study.
        self._client.cancel([flight.task for flight in waiting.values() if flight.task], force=True)
        for flight in waiting.values():
            self._send(flight)

    def _registered(self) -> Mapping[str, Mapping[str, Any]] | None:
        """The scheduler's workers; None where it does not answer.

        Not the client's scheduler_info(): every two seconds that is overwritten by one without workers.
        """
        scheduler = self._client.scheduler
        if scheduler is None:
            return None
        try:
            known: dict[str, Any] = self._client.sync(scheduler.identity, n_workers=-1)
        except OSError:
            return None
        return known["workers"]  # type: ignore[no-any-return]

    def _ask(self, function: Callable[..., object], *arguments: object, workers: list[str]) -> dict[str, Any]:
        """What each answers; one that cannot be reached is left out, and refused at the third time.

        Who fails is refused at once, unless it is asked what it is: that tells who is none of ours.
        """
        if not workers:
            return {}
        answers: dict[str, Any] = self._client.run(function, *arguments, workers=workers, on_error="return")
        for address, answer in list(answers.items()):
            unreached = isinstance(answer, OSError)
            if unreached or (isinstance(answer, Exception) and function is not worker.identify):
                del answers[address]
                self._silent[address] += 1
                if not unreached or self._silent[address] >= TRIES:
                    why = f"{type(answer).__name__}: {serve.reason(answer)}"
                    self._refuse(address, f"worker {address} does not answer: {why}: it is not used")
        return answers

    def _known(self, address: str, answer: object, resources: Mapping[str, float]) -> Member | None:
        """A worker that says what it is, and is one of ours; for others a line says why not."""
        try:
            known = decode.from_msgpack(answer, Identity)  # type: ignore[arg-type]
        except (msgspec.DecodeError, TypeError):
            self._refuse(address, f"worker {address} has no bigiron of this version: it is not used")
            return None
        known = msgspec.structs.replace(known, host=sanitize(known.host))
        mine, member = self._mine, Member(address, known, resources)
        if (known.bigiron, known.content) != (mine.bigiron, mine.content):
            self._refuse(
                address,
                f"{member} has another bigiron ({known.bigiron}, {known.content[:12]}) than this one "
                f"({mine.bigiron}, {mine.content[:12]}): it is not used",
            )
            return None
        if lacks := member.lacks({"CPU": 1}):
            self._refuse(address, f"{member} declares {lacks}: it is not used")
            return None
        if abs(off := known.clock - time()) > _CLOCK_S:
            which = "ahead" if off > 0 else "behind"
            self._progress.note(
                f"{member}: its clock is {abs(off):.0f} s {which}; cells are timed by a clock that nobody "
                "sets, and dated here"
            )
        return member

    def _refuse(self, address: str, why: str) -> None:
        self._refused[address] = sanitize(why)
        self._progress.note(self._refused[address])

    def _supply(self, members: list[Member]) -> list[Member]:
        """Send each file to those whose hosts lack it; those that have them all."""
        described = msgspec.msgpack.encode(self._supplies.files)
        answers = self._ask(worker.lacks, described, workers=[member.address for member in members])
        able = set(answers)
        for file in self._supplies.files:
            lacking = [address for address in answers if address in able and file.sha256 in answers[address]]
            for start in range(0, len(lacking), _BATCH):
                batch = lacking[start : start + _BATCH]
                able -= set(batch) - self._send_file(file, batch)
        return [member for member in members if member.address in able]

    def _send_file(self, file: File, workers: list[str]) -> set[str]:
        """Those that have it now."""
        content = self._paths[file.sha256].read_bytes()
        answers = self._ask(worker.keep, msgspec.msgpack.encode(file), content, workers=workers)
        for address, why in answers.items():
            if why:
                self._refuse(address, f"worker {address} cannot keep {file.name}: {why}: it is not used")
        return {address for address, why in answers.items() if not why}

    def _alike(self, members: list[Member]) -> list[Member]:
        """Those whose machines are like those of the study's other cells: counts of others do not compare."""
        if not self._spec.engine.emulated:
            return members
        for cpus, cell in {cell.cpus: cell for cell in self._samples.values()}.items():
            request = self._request(cell)
            takes = self._spec.engine.takes(cpus)
            able = []
            for member in members:
                if not (lacks := member.lacks(takes)):
                    able.append(member.address)
                elif lacks.startswith("no "):
                    self._refuse(member.address, f"{member} has {lacks}: it is not used")
                else:
                    self._progress.note(f"{member} has {lacks}: it runs no cells with {cpus} CPUs")
            found = self._ask(worker.environment_of, request, workers=able)
            silent = set(able) - set(found)
            members = [member for member in members if member.address not in silent]
            members = self._like_reference(cpus, members, found)
        return members

    def _like_reference(
        self, cpus: int, members: list[Member], found: Mapping[str, Mapping[str, object]]
    ) -> list[Member]:
        values = {
            address: tuple((what, environment.get(what)) for what in _SAME)
            for address, environment in found.items()
            if "why" not in environment
        }
        if cpus not in self._reference:
            known = self._measured_with(cpus)
            if not known and values:
                known = dict(Counter(values.values()).most_common(1)[0][0])
            if known:
                self._reference[cpus] = known
        wanted = self._reference.get(cpus, {})
        for member in members:
            if member.address not in found:
                continue
            environment = found[member.address]
            if "why" in environment:
                self._refuse(member.address, f"{member} cannot run the cells: {environment['why']}")
                continue
            for what, value in wanted.items():
                if environment.get(what) != value:
                    self._refuse(
                        member.address,
                        f"{member} has {what} {environment.get(what)}, and the study's cells {value}: counts "
                        "of the two are not compared, so it is not used",
                    )
                    break
        return [member for member in members if member.address not in self._refused]

    def _measured_with(self, cpus: int) -> dict[str, object]:
        """What the study's measured cells ran with."""
        for record in self._study.records():
            if record.measured and record.cpus == cpus:
                return {what: record.environment[what] for what in _SAME if what in record.environment}
        return {}

    def _lose(self, address: str) -> None:
        with self._lock:
            member = self._members.pop(address, None)
        if member:
            self._progress.note(f"{member} has gone: its cells are tried elsewhere")

    # Where cells are

    @property
    def room(self) -> int:
        """As many as the workers have CPUs for; UserError once they have been gone for long."""
        if self._fleet.local:
            self._fleet.local.renew()  # by the thread that lives longest, as they end with it
        if not self._connected:
            raise UserError(_GONE)
        if self._error:
            raise self._error
        with self._lock:
            able = [one for one in self._members.values() if self._time_host in ("", one.identity.host)]
            if able:
                self._single_host_since = math.inf
                return 1 if self._time_host else sum(int(member.has["CPU"]) for member in able)
            self._single_host_since = min(self._single_host_since, monotonic())
            if monotonic() - self._single_host_since > PATIENCE_S:
                why = self._why_none()
                if self._time_host:
                    why = f"the study's times were measured on {self._time_host}: start a worker there"
                raise UserError(f"{why}; then run it again, and it goes on where it was")
            return 0

    @property
    def _connected(self) -> bool:
        """Whether there is a scheduler; Dask tries for a while to reach it again.

        But not where the scheduler itself closes the stream of news, as after a fault of its own: nothing is
        heard of any cell then, and the client calls itself running.
        """
        hears = getattr(self._client, "_handle_report_task", None)
        return self._client.status in ("running", "connecting") and not (hears and hears.done())

    def submit(self, cell: Cell) -> Future[CellRecord]:
        """Have a worker measure it."""
        flight = _PendingCell(cell, self._request(cell), self._spec.engine.takes(cell.cpus))
        self._send(flight)
        return flight.done

    def _request(self, cell: Cell) -> bytes:
        same = self._same.of(cell)
        plain = {what: value for what, value in same.items() if isinstance(value, str | int)}
        return messages.ask(self._spec, cell, self._supplies, plain, self._topic)

    def _send(self, flight: _PendingCell) -> None:
        with self._lock:
            if self._ended.is_set():
                return
            if why := self._fits_nowhere(flight.takes):
                self._fail(flight, Failure("input", why))
                return
            key = f"{self._topic}-{next(self._numbers)}"
            self._flights[key] = flight
            flight.at, flight.task = "", None
            if not any(self._able(flight)):
                return  # until somebody comes
            flight.task = self._client.submit(
                worker.measure,
                flight.request,
                key=key,
                resources={**flight.takes, self._topic: 1},
                workers=self._chosen_workers(flight),
                retries=0,
                pure=False,
            )
        flight.task.add_done_callback(partial(self._on_result, key))

    def _fits_nowhere(self, takes: Mapping[str, float]) -> str:
        members = self._members.values()
        if not members or not all(member.lacks(takes) for member in members):
            return ""
        return "no worker of the fleet can run it: " + "; ".join(
            f"{member} has {member.lacks(takes)}" for member in members
        )

    def _chosen_workers(self, flight: _PendingCell) -> list[str] | None:
        """Where it must be a certain one; else Dask chooses among all that have joined the study."""
        if not flight.first and not self._time_host:
            return None
        return [member.address for member in self._able(flight)]

    def _able(self, flight: _PendingCell) -> Iterator[Member]:
        """The workers that may have it, and have what it takes: mostly the first will do, of a thousand."""
        refused = flight.first[0].environment["worker"]["host"] if flight.first else None
        return (
            member
            for member in self._members.values()
            if member.identity.host != refused
            and self._time_host in ("", member.identity.host)
            and not member.lacks(flight.takes)
        )

    def _on_event(self, event: tuple[float, Mapping[str, Any]]) -> None:
        """What a worker tells of a cell."""
        news = event[1]
        flight = self._flights.get(str(news.get("key")))
        if not flight:
            return
        if not flight.at:
            flight.at = str(news.get("worker"))
            self._progress.started(flight.cell)
        self._progress.stage(flight.cell, sanitize(str(news.get("stage"))))

    # What comes of them

    def _on_result(self, key: str, task: "Task[bytes]") -> None:
        with suppress(RuntimeError):  # the study has ended
            self._writers.submit(self._land, key, task)

    def _land(self, key: str, task: "Task[bytes]") -> None:
        with self._lock:
            flight = self._flights.pop(key, None)
        if flight and not self._ended.is_set():
            self._settle(flight, partial(self._take, task))

    def _settle(self, flight: _PendingCell, settle: Callable[[_PendingCell], None]) -> None:
        """Do it where nothing waits for the outcome itself: its error is what comes of the cell."""
        try:
            settle(flight)
        except BaseException as error:
            flight.done.set_exception(error)

    def _take(self, task: "Task[bytes]", flight: _PendingCell) -> None:
        try:
            content = task.result()
        except KilledWorker as killed:
            self._died(flight, killed.last_worker.address)
            return
        except (FutureCancelledError, TimeoutError, OSError):
            self._send(flight)  # Dask has lost it
            return
        except UserError as error:
            self._fail(flight, Failure("input", sanitize(str(error))))
            return
        except Exception as error:
            why = " ".join(str(error).split())
            self._fail(
                flight, Failure("machine", sanitize(f"its worker failed: {type(error).__name__}: {why}"))
            )
            return
        if not content:
            self._send(flight)  # the worker was told to end
            return
        record, collected, seconds = messages.read_reply(content, flight.cell)
        began = datetime.now(UTC) - timedelta(seconds=seconds)
        record.started = began.isoformat(timespec="seconds")
        self._judge(flight, record, collected)

    def _died(self, flight: _PendingCell, address: str) -> None:
        """A worker has gone, and a cell with it: only one that it had begun may be to blame."""
        self._lose(address)
        if flight.at == address:
            flight.deaths += 1
            self._progress.note(f"{flight.cell}: its worker has gone, try {flight.deaths} of {TRIES}")
        if flight.deaths == TRIES:
            self._fail(
                flight, Failure("machine", f"{TRIES} workers ended while they ran it, the last at {address}")
            )
        else:
            self._send(flight)

    def _judge(self, flight: _PendingCell, record: CellRecord, collected: Collected) -> None:
        """Write a cell, or have another host measure it too; MachineError where the two do not agree."""
        if not flight.first:
            if record.measured and flight.cell.id in self._twice:
                flight.first = record, collected
                with self._lock:
                    others = any(self._able(flight))
                if others:
                    self._send(flight)
                    return
                self._unverified += 1
            self._write(flight, record, collected)
            return
        kept, tables = flight.first
        if record.measured:
            kept.environment["also_on"] = record.environment["worker"]
            if differences := agreement.differences(self._spec, tables, collected):
                raise MachineError(self._disagreement(flight, kept, record, differences))
        self._write(flight, kept, tables)

    def _disagreement(
        self, flight: _PendingCell, one: CellRecord, other: CellRecord, differences: list[str]
    ) -> str:
        hosts = [str(record.environment["worker"]["host"]) for record in (one, other)]
        reason = (
            f"{flight.cell}: two hosts, {' and '.join(hosts)}, do not count the same, so that no cell of "
            f"this study can be trusted: {'; '.join(differences[:3])}"
        )
        environments = "\n".join(
            f"{host}: {msgspec.json.encode(record.environment).decode()}"
            for host, record in zip(hosts, (one, other), strict=True)
        )
        one.failure = Failure("machine", reason, environments)
        self._study.add(one, {})
        raise MachineError(reason, environments)

    def _fail(self, flight: _PendingCell, failure: Failure) -> None:
        record = store.new_record(flight.cell, self._spec.machine)
        record.failure = failure
        self._write(flight, record, Collected({}))

    def _write(self, flight: _PendingCell, record: CellRecord, collected: Collected) -> None:
        self._study.add(record, collected.tables, collected.files)
        flight.done.set_result(record)
