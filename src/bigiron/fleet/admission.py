"""Which workers of a fleet take part in a study: those with this bigiron, on comparable machines."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import time
from typing import Any

import msgspec
from distributed import Client

from bigiron.fleet import serve, worker
from bigiron.fleet.files import HashedFile
from bigiron.fleet.identity import WorkerIdentity, host_name, identity
from bigiron.study.plan import Cell
from bigiron.study.pool import Progress
from bigiron.study.store import Study
from bigiron.util import decode
from bigiron.util.sanitize import sanitize

TRIES = 3
"""How often a worker may fail to answer, and a cell lose its worker, before it is left out."""
_CLOCK_S = 60
_ENOUGH = 1_000_000  # cells of a study on a worker at a time: its CPUs and memory limit them
_BATCH = 16  # workers to which a file is sent at once
_SAME = ("qemu", "accelerator", "time_slice", "cgroup", "instructions_per_ns")  # all known before a cell runs


@dataclass(frozen=True)
class FleetWorker:
    """A worker that can be used."""

    address: str
    identity: WorkerIdentity
    has: Mapping[str, float]  # its resources

    def __str__(self) -> str:
        return f"worker {self.address} on {self.identity.host}"

    def lacks(self, takes: Mapping[str, float]) -> str:
        """Which of its resources is too small, or ""."""
        for what, amount in takes.items():
            if self.has.get(what, 0) < amount:
                has = f"{self.has[what]:.0f}" if self.has.get(what) else "no"
                return f"{has} {what}" + (f", and {amount:.0f} are needed" if amount > 1 else "")
        return ""


class Admission:
    """Decides which workers take part in a study, and sends them the files that they need."""

    def __init__(
        self, client: Client, study: Study, cells: Sequence[Cell], files: Sequence[HashedFile],
        paths: Mapping[str, Path], topic: str, request: Callable[[Cell], bytes], progress: Progress,
    ) -> None:  # fmt: skip
        self._client, self._study, self._progress = client, study, progress
        self._files, self._paths, self._topic, self._request = files, paths, topic, request
        self._mine = identity(host_name())
        shapes = (
            replace(cell, change="") for cell in reversed(cells)
        )  # the machine of a change is like its cell's
        self._samples = {(cell.variant.name, cell.cpus): cell for cell in shapes}
        self._silent: Counter[str] = Counter()  # how often each could not be reached
        self._reference: dict[int, dict[str, object]] = {}  # what each machine must have, by its CPUs
        self.refused: dict[str, str] = {}
        """The reasons, by the worker's address."""

    def admit(self, new: Mapping[str, Mapping[str, Any]]) -> dict[str, FleetWorker]:
        """Those of some workers of the scheduler that join the study, by their addresses."""
        members = []
        for address, answer in self._ask(worker.identify, workers=list(new)).items():
            if member := self._known(address, answer, new[address].get("resources", {})):
                members.append(member)
        comparable = {member.address: member for member in self._comparable(self._supply(members))}
        joined = self._ask(worker.join, self._topic, _ENOUGH, workers=list(comparable))
        self._silent -= Counter(dict.fromkeys(joined, TRIES))
        return {address: comparable[address] for address in joined}

    def registered(self) -> Mapping[str, Mapping[str, Any]] | None:
        """The scheduler's workers; None if it does not answer.

        The client's scheduler_info() will not do: every two seconds it is overwritten without workers.
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
        """Call a function on each worker; one that cannot be reached is left out, the third time for good.

        A worker on which the function fails is refused at once. An exception of `worker.identify` is
        returned: that worker does not run bigiron.
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

    def _known(self, address: str, answer: object, resources: Mapping[str, float]) -> FleetWorker | None:
        """The worker, if it runs this bigiron; if not, a note gives the reason."""
        try:
            known = decode.from_msgpack(answer, WorkerIdentity)  # type: ignore[arg-type]
        except (msgspec.DecodeError, TypeError):
            self._refuse(address, f"worker {address} does not run this version of bigiron: it is not used")
            return None
        known = msgspec.structs.replace(known, host=sanitize(known.host))
        mine, member = self._mine, FleetWorker(address, known, resources)
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
                f"{member}: its clock is {abs(off):.0f} s {which}; cells are timed by the monotonic "
                "clock, and dated on this host"
            )
        return member

    def _refuse(self, address: str, why: str) -> None:
        self.refused[address] = sanitize(why)
        self._progress.note(self.refused[address])

    def _supply(self, members: list[FleetWorker]) -> list[FleetWorker]:
        """Send each file to the workers whose hosts lack it; returns the workers that have all of them."""
        described = msgspec.msgpack.encode(self._files)
        answers = self._ask(worker.lacks, described, workers=[member.address for member in members])
        able = set(answers)
        for file in self._files:
            lacking = [address for address in answers if address in able and file.sha256 in answers[address]]
            for start in range(0, len(lacking), _BATCH):
                batch = lacking[start : start + _BATCH]
                able -= set(batch) - self._send_file(file, batch)
        return [member for member in members if member.address in able]

    def _send_file(self, file: HashedFile, workers: list[str]) -> set[str]:
        """The workers that have it now."""
        content = self._paths[file.sha256].read_bytes()
        answers = self._ask(worker.keep, msgspec.msgpack.encode(file), content, workers=workers)
        for address, why in answers.items():
            if why:
                self._refuse(address, f"worker {address} cannot keep {file.name}: {why}: it is not used")
        return {address for address, why in answers.items() if not why}

    def _comparable(self, members: list[FleetWorker]) -> list[FleetWorker]:
        """The workers whose machines equal those of the study's cells, so that counts are comparable."""
        if not self._study.spec.engine.emulated:
            return members
        for cpus, cell in {cell.cpus: cell for cell in self._samples.values()}.items():
            request = self._request(cell)
            takes = self._study.spec.engine.takes(cpus)
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
        self, cpus: int, members: list[FleetWorker], found: Mapping[str, Mapping[str, object]]
    ) -> list[FleetWorker]:
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
                        f"{member} has {what} {environment.get(what)}, but the study's cells have {value}: "
                        "their counts are not comparable, so it is not used",
                    )
                    break
        return [member for member in members if member.address not in self.refused]

    def _measured_with(self, cpus: int) -> dict[str, object]:
        """The environment of the study's measured cells."""
        for record in self._study.records():
            if record.measured and record.cpus == cpus:
                return {what: record.environment[what] for what in _SAME if what in record.environment}
        return {}
