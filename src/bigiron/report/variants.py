"""What every comparison has: variants side by side, one of them the base."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Variants:
    """The variants at one number of CPUs and tasks; each comparison adds its rows."""

    cpus: int
    tasks: int
    variants: list[str]
    base: str

    @property
    def others(self) -> list[str]:
        """The variants that are compared with the base."""
        return [variant for variant in self.variants if variant != self.base]
