"""The command line: the commands, and how a failure ends."""

import errno
import logging
import sys
import traceback
from collections.abc import Iterator, Mapping
from importlib import import_module
from keyword import iskeyword
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException
from typer.main import get_group

import bigiron
from bigiron.commands.common.complaints import Complaints, complain
from bigiron.errors import MachineError, UserError
from bigiron.util.sanitize import sanitize

_PANELS = {
    ("Measure", "measurements"): ("run", "case", "import"),
    ("Compare and explain", "comparisons"): (
        *("compare", "explain", "layout", "growth", "knee", "report", "export", "show"),
    ),
    ("Patch, gate, bisect, judge", "regressions"): ("patch", "check", "bisect", "judge"),
    ("Predict and simulate", "predictions"): ("predict", "simulate", "machine"),
    ("Many kernels", "many_kernels"): ("history", "matrix"),
    ("Setup and data", "setup"): ("demo", "doctor", "kernel", "workload", "root", "snapshot", "fleet"),
}
"""Commands by their heading in --help and by their folder in commands/. A command's module has a function of
its name, or a group `app`."""
_PANEL_OF = {name: panel for panel, names in _PANELS.items() for name in names}


class _Loaded(Mapping[str, Any]):
    """Commands by name, each imported when it is used: importing all of them takes a second."""

    def __getitem__(self, name: str) -> Any:
        if name not in _PANEL_OF:
            raise KeyError(name)
        panel, folder = _PANEL_OF[name]
        called = f"{name}_" if iskeyword(name) else name
        module = import_module(f"bigiron.commands.{folder}.{called}")
        alone = typer.Typer(rich_markup_mode="markdown", callback=_options)
        if hasattr(module, "app"):
            alone.add_typer(module.app, name=name, rich_help_panel=panel)
        else:
            alone.command(name, rich_help_panel=panel)(getattr(module, called))
        return get_group(alone).commands[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_PANEL_OF)

    def __len__(self) -> int:
        return len(_PANEL_OF)


class _CommandGroup(TyperGroup):
    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = _Loaded()  # type: ignore[assignment]


app = typer.Typer(
    cls=_CommandGroup,
    help="Find, explain and predict scalability regressions of the Linux kernel without a large machine.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run the command line; a failure becomes one line on stderr and an exit status."""
    logging.basicConfig(handlers=[Complaints()], format="%(message)s", level=logging.WARNING)
    try:
        sys.exit(app(standalone_mode=False))
    except TyperException as error:
        message = " ".join(error.format_message().split())
        if not message:
            sys.exit(2)  # no command: the help was shown
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "bigiron"
        sys.exit(complain(f"{message} ({command} --help explains it)", 2))
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(complain("stopped", 130))
    except UserError as error:
        sys.exit(complain(str(error), 2))
    except MachineError as error:
        if error.console_tail:
            print(sanitize(error.console_tail), file=sys.stderr)
        sys.exit(complain(error.reason, 3))
    except BrokenPipeError:
        sys.stderr.close()  # the reader of the output has closed it, so there is no place for a message
        sys.exit(141)
    except OSError as error:
        place = f" ({error.filename})" if error.filename else ""
        advice = ": free some space and run it again" if error.errno == errno.ENOSPC else ""
        sys.exit(complain(f"{error.strerror or error}{place}{advice}", 2))
    except Exception as error:
        traceback.print_exc()  # status 1 would be a regression
        sys.exit(
            complain(f"this is a bug of bigiron ({type(error).__name__}): please report what is above", 2)
        )


def _version(wanted: bool) -> None:
    if wanted:
        print(f"bigiron {bigiron.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass
