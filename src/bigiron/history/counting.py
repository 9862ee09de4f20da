"""Counts several points at once, in processes: the interpreter would run threads one at a time.

`python -m bigiron.history.counting STUDY FOLDER CELL...` counts one point and prints the result as a pickle.
"""

import pickle
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bigiron.errors import UserError
from bigiron.history import collect
from bigiron.history.collect import PointCells, PointCounts
from bigiron.study import store
from bigiron.util.parent_death import bigiron_itself
from bigiron.util.sanitize import sanitize
from bigiron.util.threads import LOOK_S, StoppedError, is_stopped

_SMALL = 256 << 10
"""Bytes of tables up to which counting is faster than starting a process."""


def count(cells: PointCells) -> PointCounts:
    """The counts of a point. Large points are counted in a process, which frees its memory when it ends.

    StoppedError if this thread is to stop.
    """
    if sum(cells.study.table_bytes(record) for record in cells.records) < _SMALL:
        return collect.count(cells)
    asked = (str(cells.study.folder), cells.folder, *(record.id for record in cells.records))
    with subprocess.Popen(
        bigiron_itself(*asked, module=__name__),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,  # so that Ctrl-C does not reach it
    ) as process:
        try:
            printed, errors = _printed_by(process)
        finally:
            process.kill()
    which = ", ".join(cells.names)
    if process.returncode > 0:
        why = errors.decode(errors="replace").strip().rpartition("\n")[2]
        raise UserError(f"{which} cannot be counted: {sanitize(why)}")
    answer = MemoryError() if process.returncode else pickle.loads(printed)
    if isinstance(answer, MemoryError):
        raise UserError(
            f"the process that counted {which} was killed, perhaps because memory was short: run this again "
            "with fewer --jobs"
        )
    if isinstance(answer, Exception):
        raise answer
    assert isinstance(answer, PointCounts)
    return answer


def _printed_by(process: "subprocess.Popen[bytes]") -> tuple[bytes, bytes]:
    while not is_stopped():
        try:
            return process.communicate(timeout=LOOK_S)
        except subprocess.TimeoutExpired:
            pass
    raise StoppedError


def _answer(study: Path, folder: str, names: Sequence[str]) -> PointCounts | Exception:
    try:
        opened = store.open_study(study)
        records = [record for record in opened.records() if record.id in names]
        return collect.count(PointCells(opened, folder, records))
    except Exception as error:
        return error


if __name__ == "__main__":
    sys.stdout.buffer.write(pickle.dumps(_answer(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])))
