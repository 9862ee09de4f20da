"""Counting points beside each other: of threads the interpreter would run one at a time."""

import ctypes
import multiprocessing
import os
import signal
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Event

from bigiron.errors import UserError
from bigiron.history import collect
from bigiron.history.collect import Cells, Counted
from bigiron.machines.outcome import StoppedError
from bigiron.study import store

_SMALL = 256 << 10
"""Bytes of tables: fewer are counted before a process would have begun."""
_LOOK_S = 0.25
_PR_SET_PDEATHSIG = 1

# Not forked: a lock that another thread holds would be held there for ever.
_processes = multiprocessing.get_context("spawn")


def count(cells: Cells, stop: Event) -> Counted:
    """What is counted in a point, in any thread; large ones in a process, with which its memory goes.

    StoppedError where `stop` is set meanwhile.
    """
    if sum(cells.study.table_bytes(record) for record in cells.records) < _SMALL:
        return collect.count(cells)
    ours, theirs = _processes.Pipe(duplex=False)
    names = [record.id for record in cells.records]
    asked = (theirs, os.getpid(), cells.study.folder, cells.folder, names)
    process = _processes.Process(target=_answer, args=asked, daemon=True)
    process.start()
    theirs.close()
    try:
        while not ours.poll(_LOOK_S):
            if stop.is_set():
                raise StoppedError
        answer = ours.recv()
    except EOFError:
        raise UserError(
            f"the process that counted {', '.join(cells.names)} was ended, as where memory is short: run "
            "this again, with fewer --jobs"
        ) from None
    finally:
        process.kill()
        process.join()
        ours.close()
    if isinstance(answer, Exception):
        raise answer
    assert isinstance(answer, Counted)
    return answer


def _answer(to: Connection, parent: int, study: Path, folder: str, names: list[str]) -> None:
    """In the process, which ends with its parent, and leaves a Ctrl-C to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return
    try:
        opened = store.open_study(study)
        records = [record for record in opened.records() if record.id in names]
        to.send(collect.count(Cells(opened, folder, records)))
    except Exception as error:
        to.send(error)
