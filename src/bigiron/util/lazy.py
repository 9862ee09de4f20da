"""Modules that are slow to import: they are imported on first use, and many commands never use them.

Together they take half a second, as long as a VM takes to resume.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

DType: TypeAlias = "polars.DataType | type[polars.DataType]"
Floats: TypeAlias = "NDArray[numpy.float64]"
Integers: TypeAlias = "NDArray[numpy.int64]"
Mask: TypeAlias = "NDArray[numpy.bool_]"


OF_OUR_ALLOCATOR = "_RJEM_MALLOC_CONF"
"""The variable of polars' memory allocator, which bigiron.__main__ sets. What is measured does without it."""


class _Library(ModuleType):
    def __getattr__(self, name: str) -> Any:
        found = getattr(import_module(self.__name__), name)
        setattr(self, name, found)
        return found


class LazyModule(ModuleType):
    """A module that is imported when an attribute of it is first read or set.

    >>> LazyModule("bisect").bisect([1, 2], 1)
    1
    """

    def __getattribute__(self, name: str) -> Any:
        return getattr(_loaded(self), name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(_loaded(self), name, value)

    def __delattr__(self, name: str) -> None:
        delattr(_loaded(self), name)


def _loaded(module: LazyModule) -> ModuleType:
    return import_module(object.__getattribute__(module, "__name__"))


def submodules(package: str) -> Callable[[str], LazyModule]:
    """A package's `__getattr__`, with which `from PACKAGE import NAME` has a `LazyModule` of that name."""

    def find(name: str) -> LazyModule:
        module = f"{package}.{name}"
        if name.startswith("_") or not find_spec(module):
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return LazyModule(module)

    return find


class Schema(Mapping[str, DType]):
    """A table's columns and their types, created on first use.

    >>> dict(Schema(lambda: {"cpu": polars.UInt32}))
    {'cpu': UInt32}
    """

    def __init__(self, columns: Callable[[], Mapping[str, DType]]) -> None:
        self._make = columns

    @cached_property
    def _columns(self) -> Mapping[str, DType]:
        return self._make()

    def __getitem__(self, column: str) -> DType:
        return self._columns[column]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)


if TYPE_CHECKING:
    import numpy as numpy
    import polars as polars
    from numpy.typing import NDArray
else:
    numpy, polars = _Library("numpy"), _Library("polars")


def load() -> None:
    """Import them now, while the process is idle."""
    for library in (numpy, polars):
        import_module(library.__name__)
