"""The kernel's own description of its types, BTF: which member of a struct lies at an offset.

Format: the kernel's Documentation/bpf/btf.rst. The bytes come out of a guest's memory: whatever they are,
reading them ends, and what makes no sense is a BtfError or unknown.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from functools import cache, cached_property
from struct import Struct

from bigiron.introspect.btf_format import (
    ARRAY,
    EACH,
    ENUM,
    ENUM64,
    FLOAT,
    HEADER,
    INT,
    MAGIC,
    ONCE,
    PTR,
    RENAMED,
    SIZED,
    STRUCT,
    THREE,
    TYPEDEF,
    UNION,
    VAR,
    BtfError,
    Member,
    TypePart,
    renumbered,
    sections,
)

_ENUMERATOR = Struct("<Ii")
_DEEPEST = 32  # types within types
_MOST_STEPS = 20_000  # of one answer
_MOST_MEMBERS = 4_096  # of a struct
_MOST_ELEMENTS = 64  # of an array whose pointers are listed
_MOST_BIT_FIELDS = 3  # named of those that share a byte
_LONGEST_NAME = 256
_SPELLED = re.compile(r"(\**)(\{[^{}]*\}|[^][{}*]*)((?:\[\d*\])*)")  # pointers, a name, an array's lengths


class Btf:
    """The types of one kernel. A type is known by its number; 0 is void, and what is not known.

    Those of its modules are numbered on from the kernel's own, each as if it were the only one.
    """

    def __init__(self, data: bytes, modules: Sequence[bytes] = ()) -> None:
        self._types, self._strings = sections(data)
        self._places = [0]  # where each type's head is
        self._structs: dict[str, int] = {}
        self._namesakes: dict[str, list[int]] = {}  # of structs, further ones
        self._nameless: list[int] = []  # structs
        self._typedefs: dict[str, int] = {}
        self._scalars: dict[str, int] = {}
        self._variables: dict[str, int] = {}
        self._enums: list[int] = []
        self._index(0)
        types, strings = len(self._places), len(self._strings)
        for module in modules:
            with suppress(BtfError):
                self._add_module(module, types, strings)
        self._described = list(self._variables.values())
        # The same few types are asked for again and again.
        self.name = cache(self._name)
        self.tag = cache(self._tag)
        self.size = cache(self._size)
        self.place = cache(self._place)
        self.member = cache(self._member)
        self.pointers = cache(self._pointers)
        self.resolve = cache(self._resolve)
        self._spelled = cache(self._find_spelled)
        self.head = cache(self._read_head)
        self.members = cache(self._read_members)
        self._layout = cache(self._read_layout)

    @classmethod
    def none(cls) -> "Btf":
        """What a kernel tells that was built without BTF: nothing."""
        return cls(HEADER.pack(MAGIC, 1, 0, HEADER.size, 0, 0, 0, 0))

    @property
    def is_empty(self) -> bool:
        """Whether there is no type at all."""
        return len(self._places) == 1

    def _add_module(self, data: bytes, types: int, strings: int) -> None:
        """Types that refer to the kernel's first `types`, and to its first `strings` bytes of names."""
        added, names = sections(data)
        moved = renumbered(added, types, len(self._places) - types, strings, len(self._strings) - strings)
        start = len(self._types)
        self._types += moved
        self._strings += names
        self._index(start)

    def _index(self, at: int) -> None:
        end = len(self._types)
        while at + THREE.size <= end:
            name, info, _ = THREE.unpack_from(self._types, at)
            kind, members = info >> 24 & 0x7F, info & 0xFFFFFF
            number = len(self._places)
            self._places.append(at)
            at += THREE.size + ONCE.get(kind, 0) + EACH.get(kind, 0) * members
            if not INT <= kind <= ENUM64 or at > end:
                raise BtfError(f"type {number} is of kind {kind} with {members} members")
            if kind in (ENUM, ENUM64):
                self._enums.append(number)
                if name:
                    self._scalars.setdefault(self._string(name), number)
            elif kind in (STRUCT, UNION) and not name:
                self._nameless.append(number)
            elif kind in (STRUCT, UNION):
                if self._structs.setdefault(self._string(name), number) != number:
                    self._namesakes.setdefault(self._string(name), []).append(number)
            elif name and kind == INT:
                self._scalars.setdefault(self._string(name), number)
            elif name and kind == TYPEDEF:
                self._typedefs.setdefault(self._string(name), number)
            elif name and kind == VAR:
                self._variables.setdefault(self._string(name), number)
        if at != end:
            raise BtfError("its last type is cut off")

    def find(self, name: str) -> int:
        """The struct or union, else the typedef, of that name."""
        return self._structs.get(name) or self._typedefs.get(name, 0)

    def only(self, name: str) -> int:
        """The type of that name, of any kind; 0 where several that differ are called so."""
        structs = [one for one in (self._structs.get(name), *self._namesakes.get(name, ())) if one]
        found = structs + [one[name] for one in (self._typedefs, self._scalars) if name in one]
        return found[0] if found and len({self._form(one) for one in found}) == 1 else 0

    def nameless(self, members: Sequence[str]) -> int:
        """The struct without a name that has these members; 0 where several that differ do."""
        found = [one for one in self._nameless if self._vlen(one) == len(members)]
        found = [one for one in found if [member.name for member in self.members(one)] == list(members)]
        return found[0] if found and len({self._form(one) for one in found}) == 1 else 0

    def _form(self, type: int) -> tuple[object, ...]:
        """What is alike in types of one name that are the same: compilers see more or less of one."""
        type = self.resolve(type)
        members = self.members(type) if self.is_struct(type) else ()
        return self.size(type), *((member.name, member.bit, member.bits) for member in members)

    def add_variables(self, spelled: Mapping[str, str]) -> None:
        """Add the types of variables that are not described here: `*kmem_cache`, `atomic_long_t[48]`.

        A struct without a name is `{lock,count}`, by its members. A type that is unknown here, or that is not
        the only one of its name, is left out.
        """
        types, names = bytearray(), bytearray()
        count, end_of_names = len(self._places), len(self._strings)

        def add(*words: int) -> int:
            nonlocal count
            types.extend(Struct(f"<{len(words)}I").pack(*words))
            count += 1
            return count - 1

        known: dict[str, int] = {}
        for variable, text in spelled.items():
            if text not in known:
                known[text] = self._type_spelled(text, add)
            if known[text] and variable not in self._variables:
                names_at = end_of_names + len(names)
                names.extend(variable.encode() + b"\0")
                add(names_at, VAR << 24, known[text], 0)
        start = len(self._types)
        self._types += bytes(types)
        self._strings += bytes(names)
        self._index(start)

    def _type_spelled(self, text: str, add: Callable[..., int]) -> int:
        """The type that is spelled so; `add` adds what of it is not here."""
        parts = _SPELLED.fullmatch(text)
        if parts is None:
            return 0
        pointers, name, lengths = parts.groups()
        type = self._spelled(name)
        for _ in pointers:
            type = add(0, PTR << 24, type)
        for length in reversed(lengths[1:-1].split("][")) if lengths and type else ():
            type = add(0, ARRAY << 24, 0, type, 0, int(length or 0))
        return type

    def _find_spelled(self, name: str) -> int:
        return self.nameless(name[1:-1].split(",")) if name.startswith("{") else self.only(name)

    def variable(self, name: str) -> int:
        """The type of a variable. Kernels describe their per-CPU variables only."""
        number = self._variables.get(name, 0)
        return self.head(number)[1] if number else 0

    @property
    def variables(self) -> Set[str]:
        """The variables whose types are described."""
        return self._variables.keys()

    def read_ahead(self) -> None:
        """Have ready what is asked for of most kernels, for who has the time now."""
        self.enumerator("")  # makes a table of all
        for number in self._described:
            self.pointers(self.head(number)[1])

    def enumerator(self, name: str) -> int | None:
        """The value of an enumeration's constant."""
        return self._enumerators.get(name)

    def _name(self, type: int) -> str:
        """The name of a struct, union, typedef or integer; "" where it has none."""
        for _ in range(_DEEPEST):
            kind, target = self.head(type)
            name = self._string(self._name_offset(type))
            if name or kind not in RENAMED:
                return name
            type = target
        return ""

    def _tag(self, type: int) -> str:
        """The name of a struct or union itself, `journal_s` for journal_t; a typedef's where it has none."""
        return self._name(self._resolve(type)) or self._name(type)

    def _size(self, type: int) -> int:
        """How many bytes a value of the type has; 0 where that is not known."""
        count = 1
        for _ in range(_DEEPEST):
            type = self.resolve(type)
            kind, size = self.head(type)
            if kind != ARRAY:
                return count * (8 if kind == PTR else size if kind in SIZED else 0)
            type, length = self.array(type)
            count *= length
        return 0

    def target(self, type: int) -> int:
        """What a pointer points to; 0 for void, and where it is no pointer."""
        kind, target = self.head(self.resolve(type))
        return target if kind == PTR else 0

    def element(self, type: int) -> int:
        """What an array is made of; the type itself where it is no array."""
        for _ in range(_DEEPEST):
            array = self.resolve(type)
            if self.head(array)[0] != ARRAY:
                break
            type, _ = self.array(array)
        return type

    def _resolve(self, type: int) -> int:
        """The type that a typedef, a const, a volatile stands for."""
        for _ in range(_DEEPEST):
            kind, target = self.head(type)
            if kind not in RENAMED:
                return type
            type = target
        return 0

    def is_struct(self, type: int) -> bool:
        """Whether it is a struct or union."""
        return self.head(self.resolve(type))[0] in (STRUCT, UNION)

    def is_pointer(self, type: int) -> bool:
        """Whether it is a pointer."""
        return self.head(self.resolve(type))[0] == PTR

    def is_scalar(self, type: int) -> bool:
        """Whether it has no parts: a number, a pointer."""
        return self.head(self.resolve(type))[0] in (INT, PTR, ENUM, FLOAT, ENUM64)

    def is_open_ended(self, type: int) -> bool:
        """Whether it is a struct that ends in an array of no given length."""
        members = self.members(self.resolve(type)) if self.is_struct(type) else ()
        last = self.resolve(members[-1].type) if members else 0
        return self.head(last)[0] == ARRAY and self.array(last)[1] == 0

    def _member(self, type: int, path: str) -> TypePart | None:
        """A member by its name, `lock` or `d_lockref.count`; it may lie in anonymous structs and unions."""
        start = 0
        for name in path.split("."):
            found = None
            with suppress(_NoEndError):
                found = self._find_member(type, name, 0, _Budget())
            if found is None:
                return None
            type, start = found[0], start + found[1]
        return TypePart(path, start, self.size(type), type)

    def _place(
        self, type: int, offset: int, length: int = 1, atoms: frozenset[str] = frozenset()
    ) -> TypePart:
        """The part of a type that is `length` bytes at `offset`, or the smallest that holds them.

        Types with a name in `atoms` are not looked into. Of a union's members the first is taken.
        """
        whole = TypePart("", 0, self.size(type), type)
        try:
            return self._descend(whole, offset, offset + length, atoms, 0, _Budget())
        except _NoEndError:
            return whole

    def _pointers(self, type: int) -> list[tuple[int, int]]:
        """The pointers in a value of the type: the offset of each, and the type it points to."""
        found: list[tuple[int, int]] = []
        with suppress(_NoEndError):
            self._add_pointers(found, type, 0, 0, _Budget())
        return found

    def _descend(
        self, whole: TypePart, offset: int, end: int, atoms: frozenset[str], depth: int, budget: "_Budget"
    ) -> TypePart:
        if depth > _DEEPEST or (depth and self._is_atom(whole.type, atoms)):
            return whole
        best, best_rank = whole, (2, 0)
        for part in self._parts(whole, offset, end, budget):
            inner = self._descend(part, offset, end, atoms, depth + 1, budget)
            if inner.path == whole.path:
                continue  # an anonymous struct, and nothing named in it
            exact = inner.size == end - offset or self._is_atom(inner.type, atoms)
            rank = (0, 0) if exact else (1, inner.size)
            if rank < best_rank:
                best, best_rank = inner, rank
        return best

    def _parts(self, whole: TypePart, offset: int, end: int, budget: "_Budget") -> Iterator[TypePart]:
        """The members of a struct or union, or an array's element, that hold the bytes to `end`."""
        type = self.resolve(whole.type)
        kind = self.head(type)[0]
        if kind == ARRAY:
            element, _ = self.array(type)
            size = self.size(element)
            number = (offset - whole.start) // size if size else 0
            start = whole.start + number * size
            budget.spend()
            if end <= start + size:
                yield TypePart(f"{whole.path}[{number}]", start, size, element, (*whole.within, whole.type))
        elif kind in (STRUCT, UNION):
            layout = self._layout(type)
            budget.spend(len(layout) + 1)
            for at, known, member in layout:
                start = whole.start + at
                # An array of no length at the end of a struct goes on after it.
                size = offset - start + 64 if known is None else known
                if start <= offset and end <= start + size:
                    path = ".".join(filter(None, (whole.path, member.name)))
                    yield TypePart(path, start, size, member.type, (*whole.within, whole.type))
            for part in self._bit_fields(whole, type, offset):
                if part.start <= offset and end <= part.start + part.size:
                    yield part

    def _read_layout(self, type: int) -> tuple[tuple[int, int | None, Member], ...]:
        """Where each member starts that is no bit field, and its bytes; None of an array of no length."""
        layout = []
        for member in self.members(type):
            size, start = self.size(member.type), member.bit // 8
            is_open = not size and self.head(self.resolve(member.type))[0] == ARRAY
            if not member.bits:
                layout.append((start, None if is_open else size, member))
        return tuple(layout)

    def _bit_fields(self, whole: TypePart, type: int, offset: int) -> Iterator[TypePart]:
        """The bit fields that share the byte at `offset`, as one: `sched_migrated|sched_remote_wakeup`."""
        bit = (offset - whole.start) * 8
        here = [
            member
            for member in self.members(type)
            if member.bits and member.bit < bit + 8 and bit < member.end
        ]
        if here:
            start, end = min(member.bit for member in here) // 8, -(-max(member.end for member in here) // 8)
            names = [member.name for member in here if member.name]
            name = "|".join(names[:_MOST_BIT_FIELDS] + ["…"] * (len(names) > _MOST_BIT_FIELDS))
            path = ".".join(filter(None, (whole.path, name)))
            within = (*whole.within, whole.type)
            yield TypePart(path, whole.start + start, end - start, here[0].type, within)

    def _is_atom(self, type: int, atoms: frozenset[str]) -> bool:
        for _ in range(_DEEPEST):
            kind, target = self.head(type)
            if (name := self._string(self._name_offset(type))) and name in atoms:
                return True
            if kind not in RENAMED:
                return False
            type = target
        return True

    def _find_member(self, type: int, name: str, depth: int, budget: "_Budget") -> tuple[int, int] | None:
        """Type and offset of a member of a struct or union."""
        type = self.resolve(type)
        if depth > _DEEPEST or self.head(type)[0] not in (STRUCT, UNION):
            return None
        for member in self.members(type):
            budget.spend()
            if member.name == name:
                return member.type, member.bit // 8
            if not member.name and (found := self._find_member(member.type, name, depth + 1, budget)):
                return found[0], member.bit // 8 + found[1]
        return None

    def _add_pointers(
        self, found: list[tuple[int, int]], type: int, offset: int, depth: int, budget: "_Budget"
    ) -> None:
        budget.spend()
        type = self.resolve(type)
        kind, target = self.head(type)
        if depth > _DEEPEST:
            return
        if kind == PTR:
            found.append((offset, target))
        elif kind == ARRAY:
            element, length = self.array(type)
            size = self.size(element)
            inside: list[tuple[int, int]] = []
            self._add_pointers(inside, element, 0, depth + 1, budget)
            # An array of no length goes on as far as there is memory.
            for number in range(min(length or _MOST_ELEMENTS, _MOST_ELEMENTS) if size and inside else 0):
                budget.spend(len(inside))
                start = offset + number * size
                found.extend((start + at, target) for at, target in inside)
        elif kind in (STRUCT, UNION):
            for member in self.members(type):
                if not member.bits:
                    self._add_pointers(found, member.type, offset + member.bit // 8, depth + 1, budget)

    @cached_property
    def _enumerators(self) -> dict[str, int]:
        values: dict[str, int] = {}
        for number in self._enums:
            at, kind = self._places[number], self.head(number)[0]
            for member in range(self._vlen(number)):
                if kind == ENUM:
                    name, value = _ENUMERATOR.unpack_from(self._types, at + 12 + 8 * member)
                else:
                    name, low, high = THREE.unpack_from(self._types, at + 12 + 12 * member)
                    value = high << 32 | low
                values.setdefault(self._string(name), value)
        return values

    def _read_head(self, type: int) -> tuple[int, int]:
        """Kind, and size or target; of what does not exist as of void."""
        if not 0 < type < len(self._places):
            return 0, 0
        _, info, size_or_type = THREE.unpack_from(self._types, self._places[type])
        return info >> 24 & 0x7F, size_or_type

    def _name_offset(self, type: int) -> int:
        if not 0 < type < len(self._places):
            return 0
        offset: int = THREE.unpack_from(self._types, self._places[type])[0]
        return offset

    def _vlen(self, type: int) -> int:
        info: int = THREE.unpack_from(self._types, self._places[type])[1]
        return info & 0xFFFFFF

    def array(self, type: int) -> tuple[int, int]:
        """Type and number of its elements."""
        element, _, length = THREE.unpack_from(self._types, self._places[type] + 12)
        return element, length

    def _read_members(self, type: int) -> tuple[Member, ...]:
        at, members = self._places[type], []
        sized_fields = THREE.unpack_from(self._types, at)[1] >> 31
        for number in range(min(self._vlen(type), _MOST_MEMBERS)):
            name, target, where = THREE.unpack_from(self._types, at + 12 + 12 * number)
            bit, bits = (where & 0xFFFFFF, where >> 24) if sized_fields else (where, 0)
            members.append(Member(self._string(name), target, bit, bits))
        return tuple(members)

    def _string(self, offset: int) -> str:
        if not 0 < offset < len(self._strings):
            return ""
        end = self._strings.find(b"\0", offset, offset + _LONGEST_NAME)
        text = self._strings[offset : end if end >= 0 else offset + _LONGEST_NAME].decode("ascii", "replace")
        return text if text.isprintable() else ""


class _NoEndError(Exception):
    pass


class _Budget:
    """So many steps for one answer: types that hold themselves have no end."""

    def __init__(self) -> None:
        self._left = _MOST_STEPS

    def spend(self, steps: int = 1) -> None:
        self._left -= steps
        if self._left < 0:
            raise _NoEndError
