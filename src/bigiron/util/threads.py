"""Work on several threads that stops soon after Ctrl-C or another exception in the waiting thread."""

from collections.abc import Callable, Collection, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextvars import ContextVar, copy_context
from functools import partial
from itertools import islice
from threading import Event, Thread
from types import TracebackType
from typing import ParamSpec, TypeAlias, TypeVar

LOOK_S = 0.25
"""How soon a Ctrl-C is noticed."""

_GRACE_S = 0.5  # for machines and compilers to end

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")

Task: TypeAlias = Callable[[], Callable[[], None]]
"""A function that runs on a thread, and returns a function to call on the waiting thread."""

_stops: ContextVar[tuple[Event, ...]] = ContextVar("stops", default=())


class StoppedError(Exception):
    """The work of this thread is no longer wanted."""


def is_stopped() -> bool:
    """Whether the work of this thread is no longer wanted, by the threads that started it."""
    return any(stop.is_set() for stop in _stops.get())


class StoppableThreads:
    """Threads that are stopped when an exception leaves the `with` block, and then waited for.

    After Ctrl-C the wait is short: the process ends, and with it any thread that computes without checking
    `is_stopped()`. A ThreadPoolExecutor would wait for such a thread, at the end of its `with` block and
    again when Python exits.
    """

    def __init__(self) -> None:
        self.stop = Event()
        self._running: set[Future[object]] = set()

    def __enter__(self) -> "StoppableThreads":
        return self

    def submit(
        self, work: Callable[_Given, _Result], /, *given: _Given.args, **named: _Given.kwargs
    ) -> Future[_Result]:
        """Run `work` on a thread, where `is_stopped()` also covers the threads that started this one."""
        future: Future[_Result] = Future()
        self._running.add(future)  # type: ignore[arg-type]
        future.add_done_callback(self._running.discard)
        context = copy_context()
        context.run(_stops.set, (*_stops.get(), self.stop))
        do = partial(context.run, _do, future, partial(work, *given, **named))
        Thread(target=do, daemon=True).start()
        return future

    def do_all(self, tasks: Iterator[Task], number: int) -> None:
        """Run all tasks, `number` at a time; each is taken from the iterator when it can start."""
        running: set[Future[Callable[[], None]]] = set()
        while True:
            running |= {self.submit(task) for task in islice(tasks, number - len(running))}
            if not running:
                return
            done = ended(running)
            running -= done
            for future in done:
                future.result()()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind:
            self.stop.set()
        is_interrupt = kind is not None and not issubclass(kind, Exception)
        wait(list(self._running), _GRACE_S if is_interrupt else None)


def _do(future: Future[_Result], work: Callable[[], _Result]) -> None:
    try:
        future.set_result(work())
    except BaseException as error:
        future.set_exception(error)


def ended(running: Collection[Future[_Result]]) -> set[Future[_Result]]:
    """The futures that have ended: waits for the first, and returns none after a while.

    With a timeout: Polars' handler of SIGINT lets no system call return, and Ctrl-C would wait.
    """
    return wait(running, LOOK_S, FIRST_COMPLETED).done


def result(future: Future[_Result]) -> _Result:
    """The result of a future, or its exception."""
    while not ended([future]):
        pass
    return future.result()
