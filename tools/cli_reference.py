"""Writes docs/reference/cli.md from the commands, so that the page cannot differ from them.

    .venv/bin/python tools/cli_reference.py           # writes the page
    .venv/bin/python tools/cli_reference.py --check   # exit status 1 if it would change it

`make docs` writes it. tests/test_docs.py compares it with the commands.
"""

import argparse
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_group

from bigiron.cli import app
from bigiron.commands.common.options import RunByDefault

PAGE = Path(__file__).resolve().parent.parent / "docs/reference/cli.md"
WIDTH = 100
TOP = """\
<!-- Made by tools/cli_reference.py: do not edit. `make docs` writes it again. -->
# Command line

Every command of bigiron with its arguments, options and defaults. `bigiron COMMAND --help` prints
the same. The how-to pages, such as [test a patch](../howto/test-a-patch.md), show the commands at
work. [Exit status](exit-status.md) lists how they end.

`bigiron --install-completion` installs completion for the current shell, and `bigiron
--show-completion` prints it.
"""
_DEFAULT = re.compile(r"\s*\[default: (?P<default>.*)\]$", re.DOTALL)


def page() -> str:
    """The whole page."""
    root = get_group(app)
    by_panel: dict[str, list[tuple[str, Any]]] = {}
    for name in root.commands:
        command = root.commands[name]
        by_panel.setdefault(str(command.rich_help_panel), []).append((name, command))
    parts = [TOP, _contents(by_panel), *_options_of_all(root)]
    for panel, commands in by_panel.items():
        parts.append(f"## {panel}\n")
        for name, command in commands:
            parts += _section(f"bigiron {name}", command)
            for below, one in getattr(command, "commands", {}).items():
                parts += _section(f"bigiron {name} {below}", one)
    return "\n".join(parts)


def _contents(by_panel: dict[str, list[tuple[str, Any]]]) -> str:
    lines = ["| heading | commands |", "|---|---|"]
    for panel, commands in by_panel.items():
        links = ", ".join(f"[`{name}`](#bigiron-{name})" for name, _ in commands)
        lines.append(f"| {panel} | {links} |")
    return "\n".join(lines) + "\n"


def _options_of_all(root: Any) -> Iterator[str]:
    yield "Options of `bigiron` itself:\n"
    yield from _tables(root, "bigiron")


def _section(name: str, command: Any) -> Iterator[str]:
    described, example = _described(command.help or "")
    yield f"### {name}\n"
    yield described
    if isinstance(command, RunByDefault):
        yield f"`{name} ...` is short for `{name} run ...`.\n"
    if not getattr(command, "commands", None):
        with command.make_context(name, [], resilient_parsing=True) as context:
            pieces = " ".join(command.collect_usage_pieces(context))
        yield f"```\n{name} {pieces}\n```\n"
        yield from _tables(command, name)
    if example:
        yield f"{example}\n"


def _described(text: str) -> tuple[str, str]:
    r"""A command's help as wrapped paragraphs, and its example.

    >>> _described("Measure a workload.\n\nExample: `bigiron run open1`")
    ('Measure a workload.\n', 'Example: `bigiron run open1`')
    """
    paragraphs = [" ".join(one.split()) for one in inspect.cleandoc(text).split("\n\n")]
    examples = [one for one in paragraphs if one.startswith("Example: ")]
    rest = [_wrapped(one) for one in paragraphs if one not in examples]
    return "\n\n".join(rest) + "\n", " ".join(map(_wrapped, examples))


def _wrapped(text: str) -> str:
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)


def _tables(command: Any, name: str) -> Iterator[str]:
    """A table of the arguments, and one for each panel of options."""
    with command.make_context(name, [], resilient_parsing=True) as context:
        panels: dict[str, list[str]] = {}
        for parameter in command.params:
            if getattr(parameter, "hidden", False):
                continue
            is_argument = parameter.param_type_name == "argument"
            panel = "argument" if is_argument else parameter.rich_help_panel or "option"
            panels.setdefault(panel, []).append(_row(parameter, context, is_argument=is_argument))
        for panel in sorted(panels, key=lambda panel: panel != "argument"):
            yield f"| {panel} | meaning | default |\n|---|---|---|\n" + "\n".join(panels[panel]) + "\n"


def _row(parameter: Any, context: Any, *, is_argument: bool) -> str:
    text, default = _help_and_default(parameter)
    if is_argument:
        called = f"`{parameter.human_readable_name}`"
    else:
        names = ", ".join(sorted([*parameter.opts, *parameter.secondary_opts], key=len))
        value = "" if parameter.is_flag else f" {parameter.make_metavar(context).replace(' range', '')}"
        called = f"`{names}{value}`"
        if parameter.multiple and "again" not in text and "may be repeated" not in text:
            text += "; may be repeated"
        text += _range(parameter.type)
    if parameter.required:
        default = "required"
    return f"| {_cell(called)} | {_cell(text)} | {_cell(default)} |"


def _range(kind: Any) -> str:
    """The numbers that an option takes, if not all."""
    least, most = getattr(kind, "min", None), getattr(kind, "max", None)
    if least is not None and most is not None:
        return f" ({least} to {most})"
    return f" (at least {least})" if least else ""


def _help_and_default(parameter: Any) -> tuple[str, str]:
    """What a parameter is for, and its default as code or in words.

    A text that names its default in square brackets, where that depends on other options, keeps its words.
    """
    text = " ".join((parameter.help or "").split())
    if said := _DEFAULT.search(text):
        return text[: said.start()], said["default"]
    default = parameter.default
    if default is None or default is False or default == "" or default == []:
        return text, ""
    return text, f"`{getattr(default, 'value', default)}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> int:
    """Write the page, or say whether it would change."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    asked = parser.parse_args()
    made = page()
    if asked.check:
        if PAGE.exists() and PAGE.read_text(encoding="utf-8") == made:
            return 0
        print(f"{PAGE}: not as the commands are: run tools/cli_reference.py")
        return 1
    PAGE.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
