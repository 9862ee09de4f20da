"""bigiron: find, explain and predict scalability regressions of the Linux kernel."""

from importlib.metadata import version

__version__ = version("bigiron")

from bigiron.study.store import Study, open_study

__all__ = ["Study", "__version__", "open_study"]
