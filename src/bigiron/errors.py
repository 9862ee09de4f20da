"""The two ways bigiron fails; both reach the user as one clear line, never as a traceback."""


class UserError(Exception):
    """Bad input or a missing tool: says what was wrong, where, and what to do. Exit status 2."""


class SourceBuildError(UserError):
    """A kernel's source that make fails on, whenever it is tried."""


class BuildHostError(UserError):
    """No kernel can be built on this host now: a tool is missing, its disk is full. No source's fault."""


class MachineError(Exception):
    """The machine under test failed: the reason, and the last lines of its console. Exit status 3."""

    def __init__(self, reason: str, console_tail: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.console_tail = console_tail


class KernelCrashError(MachineError):
    """Its kernel crashed."""
