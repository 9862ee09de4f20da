"""What a count costs: one unit for cache-line transfers, hold times and instructions, to rank them by.

The unit is an instruction. A transfer of a cache line between cores counts as `TRANSFER` of them. What only
one task at a time can have, a cache line or a lock, costs the more the more tasks want it: they queue.
"""

from collections.abc import Sequence
from dataclasses import dataclass

PER_NS = 2.0
"""Instructions of kernel code that a core executes in a nanosecond."""

TRANSFER = 50 * PER_NS
"""Instructions in the time that a line takes from one core to another: 50 ns, as most servers have it inside
a socket."""

OF_A_PAIR = 0.5
"""What of that a pair of lines costs: only processors that prefetch the adjacent line mind it."""


@dataclass(frozen=True)
class Queue:
    """A cache line or a lock that one task at a time can have, on two kernels."""

    before: float  # instructions per operation for which a task has it
    after: float
    users: float = 1.0  # share of the tasks that want it
    places: float = 1.0  # the number of cache lines or locks among which the demand is divided
    executed: tuple[float, float] = (0.0, 0.0)
    """The part of both demands that is instructions of the operation, such as those under a lock. They are
    in the operation's time already, whether a task has the lock for them or not, and locks may be nested."""

    @property
    def more_alone(self) -> float:
        """How much longer an operation that does not queue takes."""
        return (self.after - self.executed[1]) - (self.before - self.executed[0])


def longer(
    alone: float, queues: Sequence[Queue], customers: int, executed: float = 0.0
) -> tuple[float, float]:
    """How much longer an operation takes if demands of single places change: instructions, and their share.

    `alone`: instructions of the operation before the change, without queueing; `executed`: by how many these
    change beside the demands. The longest queue limits what all others cost, so that costs of several places
    do not add up. Where there was nothing before, all of it is the share.

    >>> one, other = Queue(600, 200), Queue(100, 500)
    >>> [round(longer(1000, queues, 8)[0]) for queues in ([one], [other], [one, other])]
    [-3199, 2876, -796]
    >>> [round(longer(9000, [Queue(100, 900, executed=(0, 800))], tasks)[0]) for tasks in (1, 8, 64)]
    [0, 1121, 48400]
    """
    was = queueing(alone, [(queue.before, queue) for queue in queues], customers)
    more_alone = alone + executed + sum(queue.more_alone for queue in queues)
    more = queueing(more_alone, [(queue.after, queue) for queue in queues], customers) - was
    return more, more / (was or abs(more)) if more else 0.0


def queueing(alone: float, demands: Sequence[tuple[float, Queue]], customers: int) -> float:
    """An operation's time where so many do it, each demand of it in places that have room for one at a time.

    Mean value analysis of a closed network of queues (Reiser and Lavenberg, 1980). Each place of a queue has
    as much of its demand, and is wanted by its users alone.

    >>> [round(queueing(1000, [(100, Queue(100, 100))], tasks)) for tasks in (1, 5, 100)]
    [1000, 1052, 10000]
    >>> round(queueing(1000, [(100, Queue(100, 100, places=100))], 100))
    1011
    """
    elsewhere = max(alone - sum(demand for demand, _ in demands), 0.0)
    waiting, time = [0.0] * len(demands), alone
    for number in range(1, customers + 1):
        here = [demand * (1 + queue) for (demand, _), queue in zip(demands, waiting, strict=True)]
        time = elsewhere + sum(here)
        arrivals = number / time if time else 0.0
        waiting = [
            arrivals * there * of.users / of.places for there, (_, of) in zip(here, demands, strict=True)
        ]
    return time
