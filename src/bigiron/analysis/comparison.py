"""A comparison: what a probe measured, variant beside variant."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl


@dataclass(frozen=True)
class Cell:
    """What a probe left of one repetition."""

    table: pl.DataFrame
    facts: Mapping[str, Any]
    more: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    """The probe's other tables, where it has several: without its name in front."""

    @property
    def operations(self) -> int:
        """Of all tasks together."""
        return max(1, int(sum(self.facts["operations"])))
