"""What a count costs: one unit for cache-line transfers, hold times and instructions, to rank them by.

The unit is an instruction. A transfer of a cache line between cores counts as `TRANSFER` of them. What only
one task at a time can have, a cache line or a lock, costs the more the more tasks want it: they queue.
"""

PER_NS = 2.0
"""Instructions of kernel code that a core executes in a nanosecond."""

TRANSFER = 50 * PER_NS
"""Instructions in the time that a line takes from one core to another: 50 ns, as most servers have it inside
a socket."""

OF_A_PAIR = 0.5
"""What of that a pair of lines costs: only processors that prefetch the adjacent line mind it."""


def queueing(alone: float, demand: float, customers: int, places: float = 1.0) -> float:
    """An operation's time where so many do it, `demand` of it in places that have room for one at a time.

    Mean value analysis of a closed queue (Reiser and Lavenberg, 1980). Each place has as much of the demand.

    >>> [round(queueing(1000, 100, tasks)) for tasks in (1, 5, 100)]
    [1000, 1052, 10000]
    >>> round(queueing(1000, 100, 100, places=100))
    1011
    """
    elsewhere, waiting, time = max(alone - demand, 0.0), 0.0, alone
    for number in range(1, customers + 1):
        here = demand * (1 + waiting)
        time = elsewhere + here
        waiting = number * here / time / places if time else 0.0
    return time


def longer(
    alone: float, before: float, after: float, customers: int, places: float = 1.0
) -> tuple[float, float]:
    """How much longer an operation takes if its demand of one place changes: instructions, and their share.

    `alone`: instructions of the operation before the change, without queueing.

    >>> [round(one, 1) for one in longer(1000, 600, 200, 8)]
    [-3198.6, -0.7]
    """
    was = queueing(alone, before, customers, places)
    more = queueing(alone + after - before, after, customers, places) - was
    return more, more / was if was else 0.0
