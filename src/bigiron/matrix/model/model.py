"""What the calls mean: the state that they read and change, and what each gives.

Two processes, 0 and 1, work in one folder; each has descriptors and slots of memory of its own. It is what
Linux does, and is checked against it on random traces. A value may be unknown (symbolic.py), so that a
comparison settles it: the code asks for nothing that it does not need, and in the order of the kernel.

Left out: time stamps, permissions, directories, symbolic links, what runs out (memory, space, descriptors),
all signals but those of a fault, and whatever blocks: pipes do not.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from bigiron.matrix.model.calls import FIRST_FD, ResultText, SystemCall

PIPE_PAGES = 16  # that a pipe holds: PIPE_DEF_BUFFERS


class LeftOutError(Exception):
    """The kernel does something there that the model does not say."""


class FileContent:
    """The pages of a file: written pages over the initial content. Pages that were never written are 0."""

    def __init__(self, before: Callable[[int], int] | None = None) -> None:
        self.before = before
        self.written: list[tuple[int, int]] = []

    def __getitem__(self, offset: int) -> int:
        for at, value in reversed(self.written):
            if at == offset:
                return value
        return self.before(offset) if self.before else 0

    def __setitem__(self, offset: int, value: int) -> None:
        self.written.append((offset, value))


@dataclass(eq=False)
class Inode:
    """An inode."""

    links: int = 1
    length: int = 0
    content: FileContent = field(default_factory=FileContent)


@dataclass(eq=False)
class Description:
    """An open file description, which several descriptors may share, of two processes too."""

    target: Any  # an Inode, a Pipe, or what else can be open
    writes: bool = True  # false: a pipe's end to read
    offset: int = 0
    fds: int = 1  # how many descriptors are this one


class Fifo:
    """First in, first out: what it held before, then what was put into it."""

    def __init__(
        self, held: Callable[[], int] = lambda: 0, before: Callable[[int], int] | None = None
    ) -> None:
        self._held_before = held
        self._before = before
        self.taken = 0
        self.written: list[int] = []

    @property
    def held(self) -> int:
        return self._held_before() + (len(self.written) - self.taken)

    def put(self, value: int) -> None:
        self.written.append(value)

    def take(self) -> int:
        number = self.taken
        self.taken += 1
        for position, value in enumerate(self.written):
            if self._held_before() + position == number:
                return value
        assert self._before
        return self._before(number)


class Pipe(Fifo):
    """Pages."""

    reader: Description
    writer: Description


@dataclass(eq=False)
class Mapping:
    """What a slot of memory shows: a page of a file, or anonymous memory of its own."""

    file: Inode | None
    offset: int
    writable: bool
    value: int = 0  # of anonymous memory


@dataclass(frozen=True, eq=False)
class Stat:
    """What stat() returns for an inode."""

    inode: Inode | Pipe
    links: int
    length: int


@dataclass(frozen=True, eq=False)
class ByteRead:
    """A byte that was read, by read() or from mapped memory."""

    what: str
    value: int


@dataclass(frozen=True, eq=False)
class Ends:
    """The descriptors that pipe() returns."""

    read: int
    write: int


# A number, an error or signal by its name, ready descriptors, or another result of a call.
CallResult = int | str | tuple[int, ...] | Stat | ByteRead | Ends


class Initial(Protocol):
    """The state before the first call."""

    def name(self, name: str) -> Inode | None: ...
    def fd(self, process: int, fd: int) -> Description | None: ...
    def slot(self, process: int, slot: int) -> Mapping | None: ...


class Nothing:
    """An empty folder, and processes that have nothing open and nothing mapped."""

    def name(self, name: str) -> Inode | None:
        return None

    def fd(self, process: int, fd: int) -> Description | None:
        return None

    def slot(self, process: int, slot: int) -> Mapping | None:
        return None


class StateTable(dict[Any, Any]):
    """What is not in it yet is looked up once in the initial state."""

    def __init__(self, initially: Callable[[Any], Any]) -> None:
        super().__init__()
        self.initially = initially

    def __missing__(self, key: Any) -> Any:
        self[key] = value = self.initially(key)
        return value


class State:
    """What calls find and change. Each call is a method of its name, for the process `me`."""

    def __init__(self, initial: Initial) -> None:
        self.names: dict[str, Inode | None] = StateTable(initial.name)
        self.fds: dict[tuple[int, int], Description | None] = StateTable(lambda key: initial.fd(*key))
        self.slots: dict[tuple[int, int], Mapping | None] = StateTable(lambda key: initial.slot(*key))

    def tables(self) -> tuple[dict[Any, Any], ...]:
        """All that calls read and change: what a later call can find."""
        return self.names, self.fds, self.slots

    def make(self, name: str, process: int, arguments: dict[str, Any]) -> CallResult:
        given: CallResult = getattr(self, f"_{name}")(process, **arguments)
        return given

    # Names. str() and int() settle an argument that is unknown.

    def _open(self, me: int, name: str, creat: bool, excl: bool, trunc: bool) -> CallResult:
        file = self.names[str(name)]
        if file is None:
            if not creat:
                return "-ENOENT"
            file = self.names[str(name)] = Inode()
        elif creat and excl:
            return "-EEXIST"
        elif trunc:
            file.length = 0
            file.content = FileContent()
        return self._install(me, Description(file))

    def _link(self, me: int, old: str, new: str) -> CallResult:
        file = self.names[str(old)]
        if file is None:
            return "-ENOENT"
        if self.names[str(new)] is not None:
            return "-EEXIST"
        self.names[str(new)] = file
        file.links += 1
        return 0

    def _unlink(self, me: int, name: str) -> CallResult:
        file = self.names[str(name)]
        if file is None:
            return "-ENOENT"
        self.names[str(name)] = None
        file.links -= 1
        return 0

    def _rename(self, me: int, old: str, new: str) -> CallResult:
        file = self.names[str(old)]
        if file is None:
            return "-ENOENT"
        replaced = self.names[str(new)]
        if replaced is file:
            return 0  # two names of one file stay: POSIX
        if replaced is not None:
            replaced.links -= 1
        self.names[str(new)] = file
        self.names[str(old)] = None
        return 0

    def _stat(self, me: int, name: str) -> CallResult:
        file = self.names[str(name)]
        return "-ENOENT" if file is None else Stat(file, file.links, file.length)

    # Descriptors.

    def _lowest_free(self, me: int) -> int:
        fd = FIRST_FD
        while self.fds[me, fd] is not None:
            fd += 1
        return fd

    def _install(self, me: int, description: Description) -> int:
        fd = self._lowest_free(me)
        self.fds[me, fd] = description
        return fd

    def _fstat(self, me: int, fd: int) -> CallResult:
        description = self.fds[me, int(fd)]
        if description is None:
            return "-EBADF"
        if isinstance(description.target, Pipe):
            return Stat(description.target, 1, 0)
        return Stat(description.target, description.target.links, description.target.length)

    def _lseek(self, me: int, fd: int, offset: int) -> CallResult:
        description = self.fds[me, int(fd)]
        if description is None:
            return "-EBADF"
        if isinstance(description.target, Pipe):
            return "-ESPIPE"
        if offset < 0:
            return "-EINVAL"
        description.offset = offset
        return offset

    def _close(self, me: int, fd: int) -> CallResult:
        description = self.fds[me, int(fd)]
        if description is None:
            return "-EBADF"
        self.fds[me, int(fd)] = None
        description.fds -= 1
        return 0

    def _pipe(self, me: int) -> CallResult:
        pipe = Pipe()
        pipe.reader, pipe.writer = Description(pipe, writes=False), Description(pipe)
        return Ends(self._install(me, pipe.reader), self._install(me, pipe.writer))

    def _read(self, me: int, fd: int) -> CallResult:
        description = self.fds[me, int(fd)]
        if description is None:
            return "-EBADF"
        if isinstance(description.target, Pipe):
            return "-EBADF" if description.writes else _taken(description.target)
        given = _read_at(description.target, description.offset)
        if isinstance(given, ByteRead):
            description.offset += 1
        return given

    def _write(self, me: int, fd: int, value: int) -> CallResult:
        description = self.fds[me, int(fd)]
        if description is None:
            return "-EBADF"
        if isinstance(description.target, Pipe):
            return _put(description.target, value) if description.writes else "-EBADF"
        _write_at(description.target, description.offset, value)
        description.offset += 1
        return 1

    def _pread(self, me: int, fd: int, offset: int) -> CallResult:
        file = self._file_for(me, fd, offset)
        return file if isinstance(file, str) else _read_at(file, offset)

    def _pwrite(self, me: int, fd: int, offset: int, value: int) -> CallResult:
        file = self._file_for(me, fd, offset)
        if isinstance(file, str):
            return file
        _write_at(file, offset, value)
        return 1

    def _file_for(self, me: int, fd: int, offset: int) -> Inode | str:
        """The file that pread() and pwrite() work on, or why they do not."""
        if offset < 0:
            return "-EINVAL"
        description = self.fds[me, int(fd)]
        if description is None:
            return "-EBADF"
        return "-ESPIPE" if isinstance(description.target, Pipe) else description.target

    # Memory.

    def _mmap(self, me: int, slot: int, writable: bool, fd: int | None, offset: int) -> CallResult:
        if fd is None:
            self.slots[me, int(slot)] = Mapping(None, 0, writable)
            return 0
        description = self.fds[me, int(fd)]
        if description is None:
            return "-EBADF"
        if isinstance(description.target, Pipe):
            # do_mmap() looks at what the descriptor may do before it looks whether it can be mapped at all.
            return "-EACCES" if description.writes or writable else "-ENODEV"
        self.slots[me, int(slot)] = Mapping(description.target, offset, writable)
        return 0

    def _munmap(self, me: int, slot: int) -> CallResult:
        self.slots[me, int(slot)] = None
        return 0

    def _mprotect(self, me: int, slot: int, writable: bool) -> CallResult:
        mapping = self.slots[me, int(slot)]
        if mapping is None:
            return "-ENOMEM"
        mapping.writable = writable
        return 0

    def _memread(self, me: int, slot: int) -> CallResult:
        mapping = self.slots[me, int(slot)]
        if mapping is None:
            return "SIGSEGV"
        if mapping.file is None:
            return ByteRead("byte", mapping.value)
        if not mapping.offset < mapping.file.length:
            return "SIGBUS"
        return ByteRead("byte", mapping.file.content[mapping.offset])

    def _memwrite(self, me: int, slot: int, value: int) -> CallResult:
        mapping = self.slots[me, int(slot)]
        if mapping is None or not mapping.writable:
            return "SIGSEGV"
        if mapping.file is None:
            mapping.value = value
            return 0
        if not mapping.offset < mapping.file.length:
            return "SIGBUS"
        mapping.file.content[mapping.offset] = value
        return 0

    # To set up.

    def _dup(self, me: int, fd: int, to: int) -> CallResult:
        return self._share(me, fd, me, to)

    def _receive(self, me: int, fd: int, to: int) -> CallResult:
        return self._share(1 - me, fd, me, to)

    def _share(self, owner: int, fd: int, me: int, to: int) -> CallResult:
        description = self.fds[owner, fd]
        if description is None:
            return "-EBADF"
        self._close(me, to)
        self.fds[me, to] = description
        description.fds += 1
        return to


def _read_at(file: Inode, offset: int) -> CallResult:
    return ByteRead("page", file.content[offset]) if offset < file.length else 0


def _write_at(file: Inode, offset: int, value: int) -> None:
    file.content[offset] = value
    if file.length < offset + 1:
        file.length = offset + 1


def _taken(pipe: Pipe) -> CallResult:
    if pipe.held == 0:
        return 0 if pipe.writer.fds == 0 else "-EAGAIN"
    return ByteRead("page", pipe.take())


def _put(pipe: Pipe, value: int) -> CallResult:
    if pipe.reader.fds == 0:
        return "-EPIPE"
    if pipe.held == PIPE_PAGES:
        return "-EAGAIN"
    pipe.put(value)
    return 1


class Results:
    """The results of calls, as text; inodes are numbered as they appear."""

    def __init__(self) -> None:
        self._inodes: list[Inode | Pipe] = []

    def text(self, given: CallResult) -> ResultText:
        match given:
            case Stat():
                if given.inode not in self._inodes:
                    self._inodes.append(given.inode)
                kind = "pipe" if isinstance(given.inode, Pipe) else "file"
                return f"{kind} {given.links} {given.length} i{self._inodes.index(given.inode) + 1}"
            case ByteRead():
                return f"{given.what} {given.value}"
            case Ends():
                return f"{given.read} {given.write}"
            case tuple():
                return " ".join(["ready", *map(str, given)]) if given else "none"
            case _:
                return str(given)


def results_of(calls: list[SystemCall]) -> list[ResultText]:
    """What calls give that are made one after the other, from nothing.

    >>> calls = "0 open a creat", "0 write 3 7", "1 stat a"
    >>> results_of([SystemCall.parsed(call) for call in calls])
    ['3', '1', 'file 1 1 i1']
    """
    state, results = State(Nothing()), Results()
    return [results.text(state.make(call.name, call.process, call.named())) for call in calls]
