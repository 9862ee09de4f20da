"""What kind of sharing it is: a lock word, a reference count, data of different CPUs side by side.

A field is known by its type, else by its name, else by the functions that write it. Where none of them
tells, nothing is guessed.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import NamedTuple

from bigiron.analysis import kernel_functions
from bigiron.util.object_name import ObjectName

FALSE_SHARING = "false sharing"
ADJACENT = "adjacent lines"
READ_MOSTLY = "read-mostly"
LOCK = "lock word"
REFERENCES = "reference count"
COUNTER = "statistics counter"
LIST = "list head"
SEQUENCE = "sequence count"
FLAG = "flag"

_RARE = 0.05  # share of a line's accesses up to which writes are rare
_WORTH_NAMING = 0.1  # share of a line's writes from which what is written is named
_MOST_WRITES = 0.5  # share of a field's writes that functions do which are known for what they write


@dataclass(frozen=True)
class _Signs:
    """What a field of one kind looks like. Globs."""

    types: tuple[str, ...]
    names: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()  # that write nothing else


_KINDS = {
    LOCK: _Signs(
        types=(
            *("spinlock*", "raw_spinlock*", "arch_spinlock_t", "qspinlock", "rwlock*", "qrwlock", "mutex"),
            *("rw_semaphore", "percpu_rw_semaphore", "semaphore", "rt_mutex*", "ww_mutex"),
            *("optimistic_spin_queue", "local_lock_t", "local_trylock_t"),
        ),
        names=("*_lock",),
        functions=(*kernel_functions.LOCK_FUNCTIONS, *kernel_functions.SEMAPHORE_SLOW_PATHS),
    ),
    REFERENCES: _Signs(
        types=(
            *("refcount_t", "refcount_struct", "kref", "lockref", "percpu_ref*", "rcuref_t", "file_ref_t"),
            *("page_ref_t",),
        ),
        names=(
            *("count", "*_count", "*refcount*", "*refcnt*", "*_ref", "refs", "*_refs", "usage", "*users"),
            *("*mapcount",),
        ),
        functions=(
            *kernel_functions.REFERENCE_COUNTS,
            "lockref_*",
            "percpu_ref_*",
            "rcuref_*",
            "__file_ref_*",
        ),
    ),
    COUNTER: _Signs(
        types=("percpu_counter", "page_counter", "*stat", "*_stats", "*stats_percpu", "u64_stats_*"),
        names=("*stat", "*stats", "nr_*", "total_*", "*events*", "*_updates", "ucount", "rlimit"),
        functions=("percpu_counter_*", "*mod_*_state", "__count_*_events", "page_counter_*"),
    ),
    LIST: _Signs(
        types=(
            *("list_head", "hlist_*", "llist_*", "plist_*", "rb_node", "rb_root*", "timerqueue_*"),
            *("callback_head", "rcu_head", "rcu_segcblist"),
        ),
        names=("freelist", "*_list", "next", "prev"),
        functions=(*kernel_functions.LISTS, "llist_*"),
    ),
    SEQUENCE: _Signs(types=("seqcount*", "seqlock_t"), names=("seq", "*_seq", "seqcount")),
    FLAG: _Signs(types=("bool", "page_flags_t", "memdesc_flags_t"), names=("flags", "*_flags", "*|*")),
}

_ANYTHING = ("atomic*", "*int", "*char", "[su]*[1-6]*", "__[su]*[1-6]*", "size_t", "[*]")
"""Types that tell nothing but that it is a number or a pointer: the name of such a field may tell more."""


class Written(NamedTuple):
    """What one function wrote of a line."""

    object: str
    types: str  # of the structs that hold the field and its own, outermost first, ";" between them
    function: str
    writes: int


def sharing(written: Sequence[Written], accesses: int, disjoint: bool) -> dict[str, str]:
    """The kinds of sharing of one line, the most telling first, and the evidence for each.

    `accesses`: to all of the line, also those that write. `disjoint`: whether no byte is touched by two CPUs.

    >>> lock = Written("struct inode.i_lock (tmpfs file)", "inode;spinlock_t", "_raw_spin_lock", 6)
    >>> sharing([lock], 12, False)
    {'lock word': 'struct inode.i_lock is a spinlock_t'}
    """
    found = {}
    writes = sum(each.writes for each in written)
    if disjoint:
        found[FALSE_SHARING] = "no byte is touched by two CPUs"
    elif writes <= _RARE * accesses:
        found[READ_MOSTLY] = f"{100 * writes / accesses:.2g} % of the accesses write"
    return found | _kinds(written, writes)


def in_pair(written: Sequence[Written]) -> dict[str, str]:
    """The same of two lines that are shared only because CPUs fetch both at once."""
    writes = sum(each.writes for each in written)
    return {ADJACENT: "some CPUs touch one cache line, others the adjacent one"} | _kinds(written, writes)


def _kinds(written: Iterable[Written], all_writes: int) -> dict[str, str]:
    """The kinds of the fields that most writes go to."""
    fields: dict[tuple[str, str], dict[str, int]] = {}
    for each in written:
        functions = fields.setdefault((_field_of(each.object), each.types), {})
        functions[each.function] = functions.get(each.function, 0) + each.writes
    writes: dict[str, int] = {}
    because: dict[str, str] = {}
    for (object, types), functions in sorted(fields.items(), key=lambda item: -sum(item[1].values())):
        kind, why = field(object, types, functions)
        if kind:
            writes[kind] = writes.get(kind, 0) + sum(functions.values())
            because.setdefault(kind, why)
    ranked = sorted(writes, key=lambda kind: -writes[kind])
    return {kind: because[kind] for kind in ranked if writes[kind] >= _WORTH_NAMING * all_writes}


def field(object: str, types: str, functions: dict[str, int]) -> tuple[str, str]:
    """What kind of data a field is, and the evidence for it; two empty texts where nothing does.

    `functions` are those that write it, and how often.

    >>> field("struct dentry.d_lockref.count", "dentry;lockref;int", {"dput": 2})
    ('reference count', 'struct dentry.d_lockref.count is in a lockref')
    >>> field("struct file.f_count", "file;atomic_long_t", {"fput": 1})
    ('reference count', 'the name of struct file.f_count')
    >>> field("kmalloc-64+0x8", "", {"_raw_spin_lock": 2, "_raw_spin_unlock": 2, "list_add": 1})
    ('lock word', 'kmalloc-64+0x8 is written by _raw_spin_lock')
    >>> field("struct task_struct.on_cpu", "task_struct;int", {"finish_task_switch": 1})
    ('', '')
    """
    kind, why = _by_itself(object, types)
    if kind:
        return kind, why
    for kind, signs in _KINDS.items():
        known = {name: writes for name, writes in functions.items() if _matches(name, signs.functions)}
        if known and sum(known.values()) >= _MOST_WRITES * sum(functions.values()):
            return kind, f"{object} is written by {max(known, key=lambda name: known[name])}"
    return "", ""


@cache
def _by_itself(object: str, types: str) -> tuple[str, str]:
    """The same of what the field's type or its name tells."""
    inner_first = types.split(";")[::-1] if types else []
    for number, type in enumerate(inner_first):
        for kind, signs in _KINDS.items():
            if _matches(type, signs.types):
                return kind, f"{object} is {'in ' if number else ''}a {type}"
    name = ObjectName.parse(object).field
    own = inner_first[0] if inner_first else ""
    for kind, signs in _KINDS.items():
        if _matches(own, _ANYTHING) and _matches(name, signs.names):
            return kind, f"the name of {object}"
    return "", ""


@cache
def _field_of(object: str) -> str:
    return ObjectName.parse(object).whichever_cpu


@cache
def _matches(name: str, globs: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs)
