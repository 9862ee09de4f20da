"""Known causes of sharing: one module a signature, each citing the kernel's source."""

import importlib
import pkgutil
from functools import cache
from pathlib import Path

from bigiron.analysis.lines.rules.rule import Evidence, Rule

__all__ = ["Evidence", "Rule", "first_match", "rules"]


@cache
def rules() -> tuple[Rule, ...]:
    """All rules, the most specific first."""
    names = [module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)])]
    found = [
        importlib.import_module(f"bigiron.analysis.lines.rules.{name}").RULE
        for name in names
        if name != "rule"
    ]
    return tuple(sorted(found, key=lambda rule: (rule.rank, rule.name)))


def first_match(evidence: Evidence) -> Rule | None:
    """The most specific rule that knows a line.

    >>> line = Evidence("page or slab object", {"openat;apparmor_file_alloc_security": 1.0})
    >>> first_match(line).name
    'apparmor_label'
    """
    return next((rule for rule in rules() if rule.matches(evidence)), None)
