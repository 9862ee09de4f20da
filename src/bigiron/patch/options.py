"""The options of a kernel's configuration that the lines of a change depend on."""

from __future__ import annotations

import re
from collections.abc import Iterable

from bigiron.kernels import Kernel, configuration

_DIRECTIVE = re.compile(r"#\s*(if|ifdef|ifndef|elif|else|endif)\b(.*)")
_OPTION = re.compile(r"\bCONFIG_(\w+)")
_NOT = re.compile(r"!\s*(?:defined|IS_\w+)\s*\(?\s*CONFIG_\w+")
_DEFINED = re.compile(r"[+-]\s*(?:menu)?config\s+(\w+)\s*")
_MODULE = "_MODULE"  # after an option's name: it is built as a module


def off(diff: str, both: Iterable[Kernel]) -> tuple[str, ...]:
    """The options that changed lines need and that neither kernel has; none where this is not known."""
    known = [configuration.of_image(one.image.read_bytes()) for one in both]
    if not all(known):
        return ()
    return tuple(
        sorted(needed(diff) - {name for one in known for name, value in one.items() if value != "n"})
    )


def defined(diff: str) -> set[str]:
    r"""The options that one side of a diff of Kconfig files defines and the other may not.

    >>> sorted(defined("+config FANCY\n+\tbool\n config SMP\n-menuconfig OLD\n"))
    ['FANCY', 'OLD']
    """
    return {found[1] for line in diff.split("\n") if (found := _DEFINED.fullmatch(line))}


def needed(diff: str) -> set[str]:
    r"""The options of the `#if` around each changed line of a diff with whole files; those that it defines.

    >>> needed(" #ifdef CONFIG_SMP\n-int one;\n #else\n+int two;\n #endif\n-int three;\n")
    {'SMP'}
    """
    found: set[str] = set()
    around: dict[str, list[set[str]]] = {"-": [], "+": []}
    for line in diff.split("\n"):
        if line.startswith("diff --git "):
            around = {"-": [], "+": []}
        sign, text = line[:1], line[1:].strip()
        sides = [side for side in around if sign in (side, " ")]
        if directive := _DIRECTIVE.match(text):
            for side in sides:
                _enter(around[side], directive[1], directive[2])
        elif text and sign in around:
            found.update(*around[sign])
    return {name.removesuffix(_MODULE) for name in found} | defined(diff)


def _enter(around: list[set[str]], directive: str, condition: str) -> None:
    """Follow a directive of the preprocessor. What holds without an option needs none."""
    if directive in ("elif", "else", "endif") and around:
        around.pop()
    if directive != "endif":
        needs = directive in ("if", "ifdef", "elif")
        around.append(set(_OPTION.findall(_NOT.sub("", condition))) if needs else set())
