"""Which cache lines all tasks have in common, which a node has, and which a task has for itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from bigiron.analysis.replay.program import Scope
from bigiron.util.object_name import ObjectName

_SHARED = 0.6  # share of the tasks that touch a line from which it is taken for one that all have
MOSTLY_ONE = 0.9  # share of a line's accesses from which it is taken for one task's, that others visit

_OF_NODES = frozenset(
    (
        *(
            "node_data",
            "*node_data",
            "contig_page_data",
            "struct zone",
            "struct pglist_data",
            "struct lruvec",
        ),
        *("struct kmem_cache_node", "struct node_barn", "struct mem_cgroup_per_node"),
        *("struct lru_gen_folio", "struct per_cpu_nodestat"),
    )
)
"""Structs and variables that the kernel has for each node; a machine in QEMU has one node."""

_PAGES = ("struct page", "struct folio", "struct ptdesc")
_OF_ANY_TASK = ("free page", "anonymous page")


def of_one_writer(object: str, written: float) -> bool:
    """Whether a line is its CPU's own, however many read it: that CPU does nearly all of the writes.

    >>> of_one_writer("counters of CPU 3", 1.0), of_one_writer("struct zone.lock", 1.0)
    (True, False)
    """
    return written >= MOSTLY_ONE and isinstance(ObjectName.parse(object).cpu, int)


def passed_on(touched: Iterable[tuple[str, float, int, float]], nodes: Nodes) -> set[str]:
    """What of the lines is passed on from task to task: as many of one name are shared as there are tasks.

    A task has one of them at a time, as each CPU has a sheaf of a slab cache's objects. That after some time
    most tasks have had each of them makes none of them a line that all wait for. `touched` has a line's
    object, the share of its accesses that one CPU does, how many CPUs touch it, and its accesses per
    operation.

    >>> lines = [*[("sheaf", 0.3, 8, 0.4)] * 9, *[("bucket", 0.2, 8, 1.0)] * 9, ("label", 0.1, 8, 0.4)]
    >>> passed_on(lines, Nodes(tasks=8))
    {'sheaf'}
    """
    shared = Counter(
        object
        for object, owner, cpus, per_op in touched
        if object and per_op < 1 and scope_of(object, owner, cpus, nodes)[0] == "shared"
    )
    return {object for object, lines in shared.items() if lines >= nodes.tasks}


def scope_of(object: str, owner: float, cpus: int, nodes: Nodes) -> tuple[Scope, float]:
    """Whose a line is, of which one CPU does a share of all accesses, and what share of them are visits.

    >>> two = Nodes(tasks=8, nodes=2)
    >>> scope_of("struct zone.lock", 0.25, 4, two), scope_of("struct file.f_pos", 0.25, 4, two)
    (('node', 0.0), ('task', 0.75))
    """
    name = ObjectName.parse(object)
    is_page_of_node = name.base in _PAGES and name.detail in _OF_ANY_TASK
    of_node = name.base in _OF_NODES or is_page_of_node
    if owner >= MOSTLY_ONE or cpus < max(2.0, _SHARED * (nodes.tasks_of_one if of_node else nodes.tasks)):
        return ("task of node" if is_page_of_node else "task"), 1 - owner
    return ("node" if of_node else "shared"), 0.0


@dataclass
class Nodes:
    """The nodes of the machine that was recorded, each with as many tasks."""

    tasks: int
    nodes: int = 1
    _found: Counter[tuple[str, int]] = field(default_factory=Counter)

    @property
    def tasks_of_one(self) -> int:
        """How many tasks a node has, at least one."""
        return max(1, self.tasks // self.nodes)

    def counterpart(self, object: str, task: int) -> str:
        """What tells a line of a node from the others of that node, and not from those of other nodes.

        `task`: one that touches it. Lines are asked for one after the other, each once.

        >>> nodes = Nodes(tasks=8, nodes=2)
        >>> [nodes.counterpart(f"struct zone (node {task // 4})", task) for task in (0, 0, 5)]
        ['struct zone 0', 'struct zone 1', 'struct zone 0']
        """
        name = ObjectName.parse(object).without_node
        place = (name, min(task // self.tasks_of_one, self.nodes - 1))
        self._found[place] += 1
        return f"{name} {self._found[place] - 1}"
