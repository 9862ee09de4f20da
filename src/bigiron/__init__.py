"""bigiron: find, explain and predict scalability regressions of the Linux kernel."""

from importlib.metadata import version

__version__ = version("bigiron")
