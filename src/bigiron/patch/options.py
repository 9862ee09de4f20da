"""The options of a kernel's configuration that the lines of a change depend on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product

from bigiron.kernels import Kernel, configuration
from bigiron.kernels.commits import matters

Alternatives = frozenset[str]
"""Options of which one is enough."""

_DIRECTIVE = re.compile(r"#\s*(if|ifdef|ifndef|elif|else|endif)\b(.*)")
_OPTION = re.compile(r"\bCONFIG_(\w+)")
_NOT = re.compile(r"!\s*(?:\(.*|(?:defined|IS_\w+)\s*\(?\s*CONFIG_\w+)")
_CONTINUED = re.compile(r"^.[ \t]*#[ \t]*(?:el)?if\b(?:.*\\\n.)+", re.MULTILINE)
_FILE = re.compile(r'^diff --git .* "?b/(.*?)"?$', re.MULTILINE)
_DEFINED = re.compile(r"[+-]\s*(?:menu)?config\s+(\w+)\s*")
_MODULE = "_MODULE"  # after an option's name: it is built as a module


def off(diff: str, both: Sequence[Kernel]) -> tuple[tuple[str, ...], ...]:
    """The alternatives that changed lines need and that neither kernel has; none where this is not known."""
    known = [configuration.of_image(one.image.read_bytes()) for one in both]
    if not all(known):
        return ()
    on = {name for one in known for name, value in one.items() if value != "n"}
    return tuple(sorted(tuple(sorted(one)) for one in needed(diff, both[0].arch) if one.isdisjoint(on)))


def defined(diff: str) -> set[str]:
    r"""The options that one side of a diff of Kconfig files defines and the other may not.

    >>> sorted(defined("+config FANCY\n+\tbool\n config SMP\n-menuconfig OLD\n"))
    ['FANCY', 'OLD']
    """
    return {found[1] for line in diff.split("\n") if (found := _DEFINED.fullmatch(line))}


def needed(diff: str, arch: str) -> set[Alternatives]:
    r"""What the `#if` around each changed line of a diff with whole files asks for; the options it defines.

    Only of code that can be a part of a kernel for this architecture.

    >>> code = " #ifdef CONFIG_SMP\n-int one;\n #else\n+int two;\n #endif\n-int three;\n"
    >>> needed(f"diff --git a/fs/open.c b/fs/open.c\n{code}", "x86_64")
    {frozenset({'SMP'})}
    """
    found = {frozenset([name]) for name in defined(diff)}
    _, *files = _FILE.split(diff)
    for path, text in zip(files[::2], files[1::2], strict=True):
        if path.endswith((".c", ".h", ".S")) and matters(path, arch, None):
            found |= _around(text, "-") | _around(text, "+")
    return found


def _around(diff: str, side: str) -> set[Alternatives]:
    """What is needed around the changed lines of one side of a file's diff."""
    found: set[Alternatives] = set()
    around: list[set[Alternatives]] = []
    lines = "\n".join(line for line in diff.split("\n") if line[:1] in (side, " "))
    for line in _CONTINUED.sub(lambda condition: re.sub(r"\\\n.", " ", condition[0]), lines).split("\n"):
        text = line[1:].strip()
        if directive := _DIRECTIVE.match(text):
            _enter(around, directive[1], directive[2])
        elif text and line.startswith(side):
            found.update(*around)
    return found


def _enter(around: list[set[Alternatives]], directive: str, condition: str) -> None:
    """Follow a directive of the preprocessor. What holds without an option needs none."""
    if directive in ("elif", "else", "endif") and around:
        around.pop()
    if directive != "endif":
        needs = directive in ("if", "ifdef", "elif")
        around.append(_asked_for(condition) if needs else set())


def _asked_for(condition: str) -> set[Alternatives]:
    """What a condition needs.

    >>> _asked_for("defined(CONFIG_KVM) && !defined(CONFIG_SMP)")
    {frozenset({'KVM'})}
    >>> [sorted(one) for one in _asked_for("IS_ENABLED(CONFIG_X86) || defined(CONFIG_ARM64)")]
    [['ARM64', 'X86']]
    >>> _asked_for("defined(CONFIG_X86) || !(defined(CONFIG_SMP) || A > 3)")
    set()
    """
    either = [_OPTION.findall(one) for one in _NOT.sub("", condition).split("||")]
    return {frozenset(name.removesuffix(_MODULE) for name in one) for one in product(*either)}
