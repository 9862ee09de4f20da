"""The types of a running kernel, read from its memory: the kernel's own and those of its modules."""

from functools import lru_cache
from threading import Lock

from bigiron.introspect import variables
from bigiron.introspect.btf import Btf
from bigiron.introspect.btf_format import BtfError
from bigiron.introspect.mm.structs import Memory, Structs, UnreadableError
from bigiron.introspect.symbols import SymbolTable

_LARGEST_TYPES = 16 << 20  # of a module
_MOST_MODULES = 256

_reading = Lock()  # cells are read side by side


def types_in(memory: Memory, symbols: SymbolTable) -> Btf:
    """The types in the kernel's memory, those of its modules too; none where it has none.

    Cells of one kernel share them. Another kernel has its own even if they are equal: its variables differ.
    """
    start, end = symbols.address("__start_BTF") or 0, symbols.address("__stop_BTF") or 0
    content = memory.read(start, end - start) if 0 < start < end else None
    if not content:
        return Btf.none()
    kernel = variables.kernel_in(memory, symbols)
    with _reading:
        try:
            modules = _module_types(Structs(memory, symbols, _read_btf(kernel, content)))
            return _with_variables(kernel, content, *modules)
        except BtfError:
            return Btf.none()


@lru_cache(8)
def _read_btf(kernel: variables.KernelId, content: bytes) -> Btf:
    return Btf(content)


@lru_cache(8)
def _with_variables(kernel: variables.KernelId, content: bytes, *modules: bytes) -> Btf:
    btf = Btf(content, modules) if modules else _read_btf(kernel, content)
    variables.describe(btf, kernel)
    return btf


def _module_types(structs: Structs) -> list[bytes]:
    """What kernel/bpf/btf.c has of each module that is loaded, from 5.11 on."""
    found: list[bytes] = []
    try:
        for module in structs.list(structs.symbol("btf_modules"), "btf_module"):
            btf = structs.value("btf_module", module, "btf")
            size = structs.value("btf", btf, "data_size")
            content = structs.memory.read(structs.value("btf", btf, "data"), min(size, _LARGEST_TYPES))
            found += [content] if content else []
            if len(found) == _MOST_MODULES:
                break
    except UnreadableError:
        pass
    return found
