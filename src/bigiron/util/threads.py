"""Work on several threads that ends soon after a Ctrl-C, or another error of the thread that waits for it."""

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

_GRACE_S = 0.5  # for what was started to end: machines, compilers

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")

Task: TypeAlias = Callable[[], Callable[[], None]]
"""What is done on a thread, and gives what is then done on the thread that waits for it."""

_stops: ContextVar[tuple[Event, ...]] = ContextVar("stops", default=())


class StoppedError(Exception):
    """The work of this thread is no longer wanted."""


def is_stopped() -> bool:
    """Whether the work of this thread is no longer wanted, by the threads that started it."""
    return any(stop.is_set() for stop in _stops.get())


class StoppableThreads:
    """Threads that are told to stop where the `with` block is left by an exception, and then waited for.

    After a Ctrl-C not for long: the process ends, and with it a thread that computes something and does not
    look whether it is to stop. A ThreadPoolExecutor would wait for that, in its own `with` block and again
    when Python ends.
    """

    def __init__(self) -> None:
        self.stop = Event()
        self._running: set[Future[object]] = set()

    def __enter__(self) -> "StoppableThreads":
        return self

    def submit(
        self, work: Callable[_Given, _Result], /, *given: _Given.args, **named: _Given.kwargs
    ) -> Future[_Result]:
        """Do it on a thread, which sees `is_stopped()` once this thread's own work is to stop, too."""
        future: Future[_Result] = Future()
        self._running.add(future)  # type: ignore[arg-type]
        future.add_done_callback(self._running.discard)
        context = copy_context()
        context.run(_stops.set, (*_stops.get(), self.stop))
        do = partial(context.run, _do, future, partial(work, *given, **named))
        Thread(target=do, daemon=True).start()
        return future

    def do_all(self, tasks: Iterator[Task], number: int) -> None:
        """Do each task, so many side by side; it is made when there is room for it."""
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
    """Those that have ended, once there is one, or after a while none.

    With a timeout: Polars' handler of SIGINT lets no system call return, and Ctrl-C would wait.
    """
    return wait(running, LOOK_S, FIRST_COMPLETED).done


def result(future: Future[_Result]) -> _Result:
    """What comes of it."""
    while not ended([future]):
        pass
    return future.result()
