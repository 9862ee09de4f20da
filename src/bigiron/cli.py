"""The command line: which commands there are, and how a failure ends."""

import errno
import logging
import sys
from typing import Annotated

import typer
from typer.exceptions import TyperException

import bigiron
from bigiron import probes
from bigiron.commands import (
    case,
    check,
    compare,
    doctor,
    explain,
    export,
    fleet,
    growth,
    import_,
    kernel,
    knee,
    machine,
    predict,
    report,
    run,
    show,
    simulate,
    template,
    workload,
)
from bigiron.commands.options import grouped
from bigiron.commands.output import Complaints, complain
from bigiron.errors import MachineError, UserError

app = typer.Typer(
    help="Find, explain and predict scalability regressions of the Linux kernel, without the big machine.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
app.add_typer(kernel.app, name="kernel")
app.add_typer(workload.app, name="workload")
app.add_typer(machine.app, name="machine")
app.add_typer(fleet.app, name="fleet")
app.add_typer(template.app, name="template")
app.command("run")(grouped(run.run, *probes.option_kinds()))
app.command("import")(import_.import_)
app.command("simulate")(simulate.simulate)
app.command("case")(case.case)
app.command("compare")(compare.compare)
app.command("explain")(explain.explain)
app.command("check")(check.check)
app.command("growth")(growth.growth)
app.command("knee")(knee.knee)
app.command("predict")(predict.predict)
app.command("export")(export.export)
app.command("report")(report.report)
app.command("show")(show.show)
app.command("doctor")(doctor.doctor)


def main() -> None:
    """Run the command line; failures become one clear line and an exit status."""
    logging.basicConfig(handlers=[Complaints()], format="%(message)s", level=logging.WARNING)
    try:
        sys.exit(app(standalone_mode=False))
    except TyperException as error:
        message = " ".join(error.format_message().split())
        if not message:
            sys.exit(2)  # no command: the help was shown
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "bigiron"
        sys.exit(complain(f"{message} ({command} --help tells more)", 2))
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(complain("stopped", 130))
    except UserError as error:
        sys.exit(complain(str(error), 2))
    except MachineError as error:
        if error.console_tail:
            print(error.console_tail, file=sys.stderr)
        sys.exit(complain(error.reason, 3))
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output has gone: nothing to say, and nobody to hear it
        sys.exit(141)
    except OSError as error:
        place = f" ({error.filename})" if error.filename else ""
        advice = ": make room and run it again" if error.errno == errno.ENOSPC else ""
        sys.exit(complain(f"{error.strerror or error}{place}{advice}", 2))


def _version(wanted: bool) -> None:
    if wanted:
        print(f"bigiron {bigiron.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which version this is.")
    ] = False,
) -> None:
    pass
