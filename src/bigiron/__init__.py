"""bigiron: find, explain and predict scalability regressions of the Linux kernel."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bigiron.study.store import Study, open_study

__version__ = "0.2.0"  # as pyproject.toml has it, which would have to be looked for each time

__all__ = ["Study", "__version__", "open_study"]


def __getattr__(name: str) -> Any:
    """What takes long to import is imported when it is asked for: the command hears a Ctrl-C before."""
    if name in __all__:
        from bigiron.study import store

        return getattr(store, name)
    raise AttributeError(f"module 'bigiron' has no attribute {name!r}")
