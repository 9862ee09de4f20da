"""The name of an object in a kernel's memory, as a value: what it is, and which of its kind.

`introspect` makes names; tables keep their text; `ObjectName.parse` reads it back. `str` is the one renderer:

    struct dentry.d_lockref.count (tmpfs directory)
    runqueues.cfs.load of CPU 3
    kmalloc-64+0x8 (64 bytes, allocated in load_msg+0x40)
    page or slab object: free page
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Literal, TypeAlias

Cpu: TypeAlias = int | Literal["CPU", "each CPU", "a CPU"] | None
"""The CPU that has the object for itself: its number; one of them, whichever; all of them; None: no CPU's."""

ANY_CPU: Literal["CPU"] = "CPU"
EACH_CPU: Literal["each CPU"] = "each CPU"
A_CPU: Literal["a CPU"] = "a CPU"

OF_CPU = r" of CPU \d+$"
"""The names in a column that are of one CPU's memory, as a regular expression."""

IN_PAGE_CACHE = "page cache+{} ({})"
"""The names of a column in the page cache: the offset in the page, in hexadecimal, and the file."""

PAGE_OR_SLAB = "page or slab object"
POINTER = "pointer"
FREED = "freed"
KMALLOC = "kmalloc"

UNNAMED = (PAGE_OR_SLAB, KMALLOC)
"""Types of objects that could not be named."""

ANYTHING = (KMALLOC, PAGE_OR_SLAB, "per-CPU memory of CPU")
"""Types that are only memory: two cache lines of one of them need not be of one object."""

_STRUCT = "struct "
_PER_CPU_MEMORY = "per-CPU memory"
_VMALLOC_MEMORY = "vmalloc memory of "
_MEMORY_CLASSES = ("vmalloc", "module")  # of which nothing else is known
_PAGE_STRUCTS = ("struct page", "struct folio", "struct slab", "struct ptdesc")
_OF_ALLOCATORS = ("struct slab", "struct kmem_cache_node")
_FREE = ("free page", "slab", FREED)
_SITE = re.compile(r"(?:^|, )allocated in (\w+)")
_NODE = re.compile(r"node [0-9]+")

_TEXT = re.compile(
    r"(?P<base>.*?)"
    r"(?P<index>(?:\.?\[[0-9]*\])*)"
    r"(?P<path>(?:\.[A-Za-z_][^ ]*?)?)"
    r"(?:\+0x(?P<offset>0|[1-9a-f][0-9a-f]*))?"
    r"(?: \((?P<detail>.+)\))?"
    r"(?: of (?:CPU (?P<number>0|[1-9][0-9]*)|(?P<cpu>CPU|each CPU|a CPU)))?"
    r"(?:: (?P<reason>.+))?",
    re.DOTALL,
)


@dataclass(frozen=True)
class ObjectName:
    """What lies at an address, and what tells it from others of its kind."""

    base: str
    """A struct, a variable, a slab cache, a kind of memory: `struct dentry`, `runqueues`, `kmalloc-64`."""
    index: str = ""
    """Which element, where the base is an array: `[3]`."""
    path: str = ""
    """The member, and the part of it: `.d_lockref.count`."""
    offset: int | None = None
    """Bytes from there, where no member is known."""
    detail: str = ""
    """Its file system, its slab cache, its node, the function that allocated it."""
    cpu: Cpu = None
    reason: str = ""
    """Why no more is known of it."""

    @classmethod
    def parse(cls, text: str) -> ObjectName:
        """The name that has this text.

        >>> ObjectName.parse("struct zone.lock (Normal, node 0)")
        ObjectName(base='struct zone', index='', path='.lock', offset=None, detail='Normal, node 0', \
cpu=None, reason='')
        """
        return _parsed(text)

    @classmethod
    def struct(cls, name: str, detail: str = "") -> ObjectName:
        """Any object of a struct.

        >>> str(ObjectName.struct("dentry"))
        'struct dentry'
        """
        return cls(f"{_STRUCT}{name}", detail=detail)

    def __str__(self) -> str:
        return self._text

    @cached_property
    def _text(self) -> str:
        return "".join(
            (
                self.base,
                self.index,
                self.path,
                "" if self.offset is None else f"+{self.offset:#x}",
                f" ({self.detail})" if self.detail else "",
                "" if self.cpu is None else f" of {self._whose}",
                f": {self.reason}" if self.reason else "",
            )
        )

    @property
    def _whose(self) -> str:
        return f"CPU {self.cpu}" if isinstance(self.cpu, int) else str(self.cpu)

    def at(self, path: str) -> ObjectName:
        """A member, or an element: `d_lockref.count`, `[3].lock`.

        >>> str(ObjectName.struct("dentry").at("d_lockref").at("count"))
        'struct dentry.d_lockref.count'
        """
        if self.path or not path.startswith("["):
            return replace(self, path=self.path + (path if path.startswith("[") else f".{path}"))
        index, dot, rest = path.partition(".")
        return replace(self, index=self.index + index, path=dot + rest)

    @property
    def is_struct(self) -> bool:
        """Whether it is in a struct that lies anywhere in memory; a variable lies where its symbol is."""
        return self.base.startswith(_STRUCT)

    @cached_property
    def is_symbol(self) -> bool:
        """Whether its name alone tells that two objects are the same, whatever touches them."""
        if self.base.startswith((_PER_CPU_MEMORY, _VMALLOC_MEMORY)):
            return True
        if not (self.base or self.path) or self.reason or self.cpu in (ANY_CPU, EACH_CPU, A_CPU):
            return False
        plain = self.detail in ("", POINTER) and " " not in self.base
        return plain and not (self.base in _MEMORY_CLASSES and str(self) == self.base)

    @cached_property
    def without_instance(self) -> str:
        """Its name without what tells it from others of its kind: offset, CPU, detail.

        >>> ObjectName.parse("struct dentry.d_lockref.count (tmpfs directory)").without_instance
        'struct dentry.d_lockref.count'
        >>> ObjectName.parse("rcu_data+0x40 of CPU 3").without_instance
        'rcu_data of CPU'
        """
        return str(self._without_instance)

    @cached_property
    def _without_instance(self) -> ObjectName:
        cpu = ANY_CPU if isinstance(self.cpu, int) else self.cpu
        return ObjectName(self.base, self.index, self.path, cpu=cpu)

    @cached_property
    def whichever_cpu(self) -> str:
        """The same without the words that it is one CPU's."""
        name = self._without_instance
        return str(replace(name, cpu=None) if name.cpu == ANY_CPU else name)

    @cached_property
    def whole(self) -> str:
        """The struct or variable that it is a part of: `struct dentry`, `runqueues of CPU`."""
        return str(replace(self._without_instance, path=""))

    @cached_property
    def object_type(self) -> str:
        """Its name without what differs between kernels too: two of one type may be the same object.

        Which field of a struct is hottest differs between kernels. So do the cache of kmalloc that an object
        fits into, the size of per-CPU memory, and the structs that were once a `struct page`.

        >>> [ObjectName.parse(text).object_type for text in ("runqueues.clock of CPU 3", "struct folio.lru")]
        ['runqueues of CPU', 'struct page']
        >>> ObjectName.parse("per-CPU memory of 64 bytes+0x20 of CPU 3").object_type
        'per-CPU memory of CPU'
        >>> ObjectName.parse("kmalloc-192+0x40 (192 bytes)").object_type
        'kmalloc'
        >>> ObjectName.parse("page or slab object: free page").object_type
        'page or slab object'
        """
        if f"{KMALLOC}-" in self.base:
            return KMALLOC
        if self.base.startswith(f"{_PER_CPU_MEMORY} of "):
            return str(ObjectName(_PER_CPU_MEMORY, cpu=self._without_instance.cpu))
        return "struct page" if self.whole in _PAGE_STRUCTS else self.whole

    @cached_property
    def type_of_any_element(self) -> str:
        """Its type without which element of an array it is.

        >>> ObjectName.parse("in_lookup_hashtable[240]").type_of_any_element
        'in_lookup_hashtable'
        """
        return str(replace(ObjectName.parse(self.object_type), index="")) if self.index else self.object_type

    @cached_property
    def member(self) -> str:
        """The struct or variable and its member, whatever part of that.

        >>> ObjectName.parse("struct dentry.d_lockref.count (tmpfs directory)").member
        'struct dentry.d_lockref'
        """
        return str(replace(self._without_instance, path=self._first_member))

    @property
    def _first_member(self) -> str:
        return f".{self.path.split('.')[1]}" if self.path else ""

    @cached_property
    def field(self) -> str:
        """The name of the innermost field alone, not of an element of it: `stat` of `.stats.stat[3]`."""
        return (self.path or self.base).rpartition(".")[2].partition("[")[0]

    @cached_property
    def of_each_cpu(self) -> str:
        """Its variable, or a member of that, whichever CPU's; empty where it is not per-CPU memory.

        >>> [ObjectName.parse(text).of_each_cpu for text in ("runqueues.clock of CPU 3", "jiffies")]
        ['runqueues.clock of each CPU', '']
        """
        if self.cpu == EACH_CPU:
            return str(self)
        if not isinstance(self.cpu, int):
            return ""
        return str(ObjectName(self.base, self.index, self._first_member, cpu=EACH_CPU))

    @cached_property
    def as_lock(self) -> str:
        """The name that all locks of its kind have in common.

        >>> ObjectName.parse("runqueues.__lock of CPU 3").as_lock
        'runqueues.__lock of each CPU'
        """
        if isinstance(self.cpu, int):
            return str(replace(self, cpu=EACH_CPU))
        if self.base.startswith(_VMALLOC_MEMORY) and not self.path:
            return str(replace(self, offset=None))
        return str(self)

    @cached_property
    def in_any_run(self) -> ObjectName:
        """The name that it has in every run of a test: a struct or variable, and its member.

        >>> str(ObjectName.parse("struct dentry.d_lockref.lock_count (tmpfs directory)").in_any_run)
        'struct dentry.d_lockref'
        >>> str(ObjectName.parse("struct slab.counters (filp)").in_any_run)
        'struct slab.counters (filp)'
        >>> str(ObjectName.parse("kmalloc-64+0x8 (64 bytes, allocated in f+0x1)").in_any_run)
        'kmalloc-64 (allocated in f)'
        >>> str(ObjectName.parse("runqueues.nr_running of CPU 3").in_any_run)
        'runqueues.nr_running of a CPU'
        """
        cpu = A_CPU if isinstance(self.cpu, int) else self.cpu
        if self.path:
            kept = self.base in (*_OF_ALLOCATORS, "struct zone")
            member = self._first_member.partition("[")[0]
            return ObjectName(self.base, self.index, member, detail=self.detail if kept else "", cpu=cpu)
        site = _SITE.search(self.detail)
        detail = f"allocated in {site[1]}" if site else ""
        return replace(self, offset=None, detail=detail, cpu=cpu)

    @cached_property
    def struct_or_variable(self) -> str:
        """What a name in any run is a member of.

        >>> ObjectName.parse("struct slab.counters (filp)").struct_or_variable
        'struct slab (filp)'
        """
        if not self.path:
            return str(self)
        return str(ObjectName(self.base, self.index, detail=self.detail))

    @property
    def owner(self) -> ObjectName:
        """The struct or member that holds this member; a name without text where it is no member."""
        if not self.path:
            return ObjectName("")
        return ObjectName(self.base, self.index, self.path.rpartition(".")[0])

    @property
    def without_node(self) -> str:
        """Its name without the node that it is of.

        >>> ObjectName.parse("struct zone.lock (Normal, node 0)").without_node
        'struct zone.lock (Normal)'
        """
        parts = (part for part in self.detail.split(", ") if not _NODE.fullmatch(part))
        return str(replace(self, detail=", ".join(parts)))

    @property
    def is_of_allocators(self) -> bool:
        """Whether it is what allocators keep of pages, of which there is more or less by chance."""
        return self.base in _OF_ALLOCATORS or self.is_free

    @property
    def is_free(self) -> bool:
        """Whether it is in a free page, or was freed."""
        return self.detail in _FREE

    def part_of(self, other: ObjectName) -> str:
        """Its name beside another one: the member alone where both are of one struct or variable.

        >>> names = [ObjectName.parse(f"struct zone.{field} (Normal, node 0)") for field in ("flags", "lock")]
        >>> names[0].part_of(names[1])
        '.flags'
        """
        if self.whole == other.whole and (self.cpu is None or not self.path):
            return self.path or str(self)
        return self.without_instance

    def is_in(self, other: ObjectName) -> bool:
        """Whether it is the other one, or a member of it, whatever tells either from others of its kind.

        >>> field, struct = ObjectName.parse("struct file.f_lock"), ObjectName.struct("file")
        >>> field.is_in(struct), struct.is_in(field), field.is_in(ObjectName.struct("file_lock"))
        (True, False, False)
        """
        one, of = self._without_instance, other._without_instance
        return one == of or (
            (one.base, one.index, one.cpu, of.cpu) == (of.base, of.index, None, None)
            and one.path.startswith(f"{of.path}.")
        )


@cache
def _parsed(text: str) -> ObjectName:
    found = _TEXT.fullmatch(text)
    assert found is not None  # all parts but the base may be absent
    base, index, path, offset, detail, number, cpu, reason = found.groups(default="")
    return ObjectName(
        base,
        index,
        path,
        int(offset, 16) if offset else None,
        detail,
        int(number) if number else cpu or None,  # type: ignore[arg-type] # the pattern's words are Cpu's
        reason,
    )


def without_instance(object: str) -> str:
    """`ObjectName.without_instance` of a text."""
    return _parsed(object).without_instance


def object_type(object: str) -> str:
    """`ObjectName.object_type` of a text."""
    return _parsed(object).object_type


def common(objects: Collection[str]) -> str:
    """What several objects of one type have in common.

    >>> common(["struct slab.freelist (filp)", "struct slab.slab_list (filp)"])
    'struct slab (filp)'
    >>> common(["struct inode.i_lock (tmpfs file)", "struct inode.i_lock (proc file)"])
    'struct inode.i_lock'
    """
    names = [_parsed(object) for object in objects]
    details = {name.detail for name in names}
    detail = details.pop() if len(details) == 1 else ""
    without = {name._without_instance for name in names}
    for forms in (without, {replace(name, path="") for name in without}):
        if len(forms) == 1:
            return str(replace(forms.pop(), detail=detail))
    return names[0].object_type


def common_or_type(objects: Iterable[str]) -> str:
    """One name for several objects: their own if they have one, the same field, or their type."""
    names = [_parsed(object) for object in objects]
    for forms in ({str(name) for name in names}, {name.without_instance for name in names}):
        if len(forms) == 1:
            return forms.pop()
    return names[0].object_type
