"""A matrix's folder: its tests, and what came of them on each kernel and file system, batch by batch.

    matrix.json             what this is, of which version
    tests                   all tests, as text
    debian-6.12_tmpfs/      what came of them there: 00000.json, 00001.json, ... and place.json
    debian-6.12_tmpfs_4/    what came of those that are conflict-free there, by four CPUs

Invariant: a file under its final name is whole. A batch that is not there has not run.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self, TypeVar

import msgspec

from bigiron.errors import UserError
from bigiron.kernels import Kernel, release_order
from bigiron.matrix import listing
from bigiron.matrix.model.calls import Test
from bigiron.matrix.outcomes import MatrixOutcome
from bigiron.util import decode
from bigiron.util.cache_dir import STAGING, keep_whole, locked

_Record = TypeVar("_Record")

FORMAT = 2
PAIR = 2  # CPUs that make calls, if no more do
BATCH = 400  # tests of one machine: a minute or two, of which a tenth is to begin with it

_HEAD, _TESTS, _PLACE = "matrix.json", "tests", "place.json"


class Head(msgspec.Struct, frozen=True):
    """matrix.json."""

    format: int
    tests_sha256: str
    recorder_sha256: str  # what counted, in the guest too: other ones' counts are not put beside its own


class PlaceRecord(msgspec.Struct, frozen=True):
    """place.json: a kernel and a file system."""

    kernel: str
    release: str
    sha256: str
    fs: str
    cpus: int = PAIR

    @classmethod
    def of(cls, kernel: Kernel, fs: str, cpus: int) -> Self:
        return cls(kernel.name, kernel.release, kernel.sha256, fs, cpus)

    @property
    def name(self) -> str:
        """What it is called in tables."""
        cpus = f", {self.cpus} CPUs" if self.cpus != PAIR else ""
        return f"{self.kernel} {self.fs}{cpus}"


class _Batch(msgspec.Struct, frozen=True):
    outcomes: list[MatrixOutcome]


@dataclass(frozen=True)
class PlaceOutcomes:
    """What came of the tests in one place."""

    folder: Path
    place: PlaceRecord

    @cached_property
    def outcomes(self) -> dict[int, MatrixOutcome]:
        """By test."""
        found: dict[int, MatrixOutcome] = {}
        for file in sorted(self.folder.glob("[0-9]*.json")):
            try:
                batch = decode.from_json(file.read_bytes(), _Batch)
            except (OSError, msgspec.DecodeError) as error:
                raise UserError(f"{file} is damaged ({error}): remove it, and run the matrix again") from None
            found |= {outcome.test: outcome for outcome in batch.outcomes}
        return found

    def has(self, batch: int) -> bool:
        """Whether a batch has run."""
        return self._file(batch).exists()

    def keep(self, batch: int, outcomes: list[MatrixOutcome]) -> None:
        """Write what came of a batch, whole or not at all."""
        keep_whole(self._file(batch), msgspec.json.encode(_Batch(outcomes)))

    def _file(self, batch: int) -> Path:
        return self.folder / f"{batch:05}.json"


@dataclass(frozen=True)
class Matrix:
    """An opened folder."""

    folder: Path

    @property
    def text(self) -> str:
        """The file of its tests."""
        file = self.folder / _TESTS
        try:
            return file.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"{file} is damaged: {error}") from None

    @cached_property
    def tests(self) -> list[Test]:
        """All of them."""
        return listing.read(self.text, str(self.folder / _TESTS))

    @property
    def batches(self) -> list[list[Test]]:
        """Each for one machine. Neighbours in the list are alike, and go to different ones."""
        number = max(1, -(-len(self.tests) // BATCH))
        return [self.tests[first::number] for first in range(number)]

    @property
    def columns(self) -> list[PlaceOutcomes]:
        """All places where tests ran, the oldest kernel first."""
        found = []
        for file in self.folder.glob(f"*/{_PLACE}"):
            found.append(PlaceOutcomes(file.parent, _decode(file, PlaceRecord)))
        return sorted(found, key=lambda column: _place_order(column.place))

    def column(self, kernel: Kernel, fs: str, cpus: int = PAIR) -> PlaceOutcomes:
        """That of a place, made if there is none; UserError where another kernel had its name."""
        place = PlaceRecord.of(kernel, fs, cpus)
        name = re.sub(r"[^A-Za-z0-9.+-]", "-", kernel.name)
        folder = self.folder / (f"{name}_{fs}" if cpus == PAIR else f"{name}_{fs}_{cpus}")
        record = folder / _PLACE
        if not record.exists():
            folder.mkdir(exist_ok=True)
            keep_whole(record, msgspec.json.encode(place))
        there = _decode(record, PlaceRecord)
        if there != place:
            raise UserError(
                f"{folder} was made with another kernel named {there.kernel} ({there.release}, sha256 "
                f"{there.sha256[:12]}): use another folder"
            )
        return PlaceOutcomes(folder, there)

    def tests_of(self, column: PlaceOutcomes, batch: Sequence[Test]) -> list[Test]:
        """Which of some tests run there: on more than two CPUs, those that are conflict-free on two."""
        if column.place.cpus == PAIR:
            return list(batch)
        pair = msgspec.structs.replace(column.place, cpus=PAIR)
        found = next((one.outcomes for one in self.columns if one.place == pair), {})
        ran = [found.get(test.number) for test in batch]
        return [test for test, one in zip(batch, ran, strict=True) if one and not one.wrong and one.is_free]

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the lock: two writers would run the same batches."""

        def waits() -> None:
            raise UserError(f"another bigiron is running the tests of {self.folder}: wait for it, or end it")

        with locked(self.folder, waits):
            yield


def create(folder: Path, tests: str, recorder: str) -> Matrix:
    """A new folder for those tests, or the one that has them; UserError if it holds something else."""
    head = Head(FORMAT, hashlib.sha256(tests.encode()).hexdigest(), recorder)
    if (folder / _HEAD).exists():
        there = _head(folder)
        if there.tests_sha256 != head.tests_sha256:
            raise UserError(f"{folder} was made with other tests: use another folder")
        if there.recorder_sha256 != head.recorder_sha256:
            raise UserError(
                f"{folder} was made with another version of the recorder, or on another architecture: "
                "use another folder"
            )
        return Matrix(folder)
    if folder.exists() and not all(_is_begun(file, tests) for file in folder.iterdir()):
        raise UserError(f"{folder} exists and is not a matrix: use another folder")
    folder.mkdir(parents=True, exist_ok=True)
    keep_whole(folder / _TESTS, tests.encode())
    keep_whole(folder / _HEAD, msgspec.json.encode(head))
    return Matrix(folder)


def _is_begun(file: Path, tests: str) -> bool:
    """Whether a creation with those tests that was killed before it wrote the head left this file."""
    return file.name.startswith(STAGING) or (file.name == _TESTS and file.read_bytes() == tests.encode())


def open_matrix(folder: Path) -> Matrix:
    """Open an existing matrix; UserError if the folder is not one."""
    _head(folder)
    return Matrix(folder)


def _head(folder: Path) -> Head:
    file = folder / _HEAD
    if not file.exists():
        raise UserError(f"{folder} is not a matrix: make one with bigiron matrix KERNEL -o {folder}")
    try:
        version = decode.from_json(file.read_bytes(), dict).get("format")
    except (OSError, msgspec.DecodeError) as error:
        raise UserError(f"{file} is damaged: {error}") from None
    if version != FORMAT:
        raise UserError(f"{folder} has format {version}, but this bigiron reads {FORMAT}: use another folder")
    return _decode(file, Head)


def _decode(file: Path, kind: type[_Record]) -> _Record:
    try:
        return decode.from_json(file.read_bytes(), kind)
    except (OSError, msgspec.DecodeError) as error:
        raise UserError(f"{file} is damaged: {error}") from None


def _place_order(place: PlaceRecord) -> tuple[object, ...]:
    """A key by which kernels are in the order of their releases, as in a history."""
    return release_order(place.release), place.kernel, place.fs, place.cpus
