"""`bigiron case`: reproduce published regressions."""

from pathlib import Path
from typing import Annotated

import typer

from bigiron import cases
from bigiron.commands.common.measure import measure_study
from bigiron.commands.common.options import Jobs
from bigiron.commands.common.output import say
from bigiron.commands.setup.fleet import Certificates, FleetAddress, pools
from bigiron.report import case as case_report
from bigiron.study import store


def case(
    name: Annotated[str, typer.Argument(help=f"a published regression: {', '.join(cases.names())}")],
    quick: Annotated[
        bool, typer.Option("--quick", help="use fewer CPUs: minutes instead of an hour")
    ] = False,
    linux: Annotated[
        str,
        typer.Option(
            metavar="TREE", help="open1-rcu only: source tree of Linux 3.16, to measure that kernel too"
        ),
    ] = "",
    jobs: Jobs = 0,
    fleet: FleetAddress = "",
    certificates: Certificates = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="the case's folder  [default: case-NAME]")
    ] = None,
) -> None:
    """Reproduce a published regression: run its studies and compare the results with the published figures.

    Example: `bigiron case hotplug-debugfs --quick`
    """
    chosen = cases.find(name)
    folder = output or Path(f"case-{name}{'-quick' if quick else ''}")
    if linux:
        cases.check_tree(chosen, linux, say(name))
    names = (*chosen.studies, *(chosen.with_tree if linux else ()))
    specs_of = {study: chosen.spec(study, quick) for study in names}
    cases.get_kernels(chosen, specs_of.values(), linux, say(name))
    with pools(fleet, certificates, jobs) as where:
        for study, spec in specs_of.items():
            measure_study(spec, folder / study, jobs, fleet=where)
    studies = {study: store.open_study(folder / study) for study in names}
    report = chosen.measure_up(studies)
    (folder / "report.md").write_text(case_report.as_markdown(chosen, studies, report), encoding="utf-8")
    print(case_report.as_text(chosen, studies, report), end="")
    print(f"\nThe report: {folder / 'report.md'}")
