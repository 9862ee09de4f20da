"""Starting the command: the first second goes to imports, of which a Ctrl-C would make a traceback."""

import gc
import os
import signal

_MORE_OBJECTS = 100_000  # than were freed, before cycles are looked for: Python's 700 cost a tenth of a run

_KEEPS_MEMORY = "dirty_decay_ms:10000"
"""For how long polars keeps freed memory. To ask the kernel for it again costs half of all system time."""


def main() -> None:
    """Run the command line; until that is there, a Ctrl-C just ends the process: nothing has begun."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.set_threshold(_MORE_OBJECTS)
    from bigiron import cli
    from bigiron.util.lazy import OF_OUR_ALLOCATOR

    os.environ.setdefault(OF_OUR_ALLOCATOR, _KEEPS_MEMORY)

    signal.signal(signal.SIGINT, handler)
    try:
        cli.main()
    finally:
        gc.freeze()  # a fifth of a second to look for cycles in what goes with the process anyway


if __name__ == "__main__":
    main()
