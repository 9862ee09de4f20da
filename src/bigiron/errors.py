"""The two kinds of failure. Both reach the user as one clear line, never as a traceback."""


class UserError(Exception):
    """Bad input or a missing tool. Names what is wrong, where, and what to do. Exit status 2."""


class SourceBuildError(UserError):
    """The source of a kernel does not build, on any host."""


class BuildHostError(UserError):
    """The host cannot build any kernel now: a tool is missing, or its disk is full."""


class MachineError(Exception):
    """The machine under test failed: the reason, and the last lines of its console. Exit status 3."""

    def __init__(self, reason: str, console_tail: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.console_tail = console_tail


class KernelCrashError(MachineError):
    """The kernel of the machine under test crashed."""
