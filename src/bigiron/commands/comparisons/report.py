"""`bigiron report`: a study as one page, mail or Markdown document."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from bigiron.commands.common.options import (
    Base,
    Context,
    InContext,
    MeasuredThere,
    OneTask,
    contexts,
    refuse_rate,
)
from bigiron.errors import UserError
from bigiron.readers import measured_points
from bigiron.report.study import document as documents
from bigiron.report.study import mail, markdown
from bigiron.results import prediction
from bigiron.study import store


class ReportFormat(StrEnum):
    """Output formats of a report."""

    html = "html"
    mail = "mail"
    markdown = "markdown"


def report(
    study: Annotated[Path, typer.Argument(help="the study's folder; the study may be unfinished")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="output file  [default: standard output]")
    ] = None,
    format: Annotated[
        ReportFormat,
        typer.Option(help="an HTML page that needs no network, a mail of 72 columns, or Markdown"),
    ] = ReportFormat.html,
    base: Base = None,
    context: InContext = Context.process,
    machine: Annotated[
        str | None,
        typer.Option(help="predict throughput on this machine too, and rank cache lines by their cost on it"),
    ] = None,
    one_task: OneTask = None,
    measured: MeasuredThere = None,
) -> None:
    """Write a report: question and answer, curves, tables, flame graphs and environments.

    Example: `bigiron report s -o report.html`
    """
    from bigiron.report.study import html  # imported here, as its templates take time to load

    if output is None and format is ReportFormat.html and sys.stdout.isatty():
        raise UserError("an HTML page is not for a terminal: give a file with -o report.html")
    opened = store.open_study(study)
    predicted = None
    if machine:
        refuse_rate(one_task)
        there = measured_points.read(measured, one_task) if measured else None
        predicted = prediction.predict(opened, machine, [], one_task=one_task, measured=there)
    elif one_task is not None or measured:
        raise UserError("--one-task and --measured need a machine: give --machine")
    document = documents.document_of(opened, base, contexts(context), predicted)
    written = {
        ReportFormat.html: html.as_html,
        ReportFormat.mail: mail.as_text,
        ReportFormat.markdown: markdown.as_markdown,
    }
    text = written[format](document)
    if output:
        output.write_text(text, encoding="utf-8")
    else:
        print(text, end="")
