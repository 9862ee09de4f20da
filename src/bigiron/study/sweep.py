"""Sweeps: one variant for every value of a boot parameter or of a setting."""

from dataclasses import dataclass
from itertools import product

from msgspec.structs import replace

from bigiron.errors import UserError
from bigiron.study.spec import Variant


@dataclass(frozen=True)
class _Sweep:
    option: str
    name: str  # of the boot parameter, or the setting's path
    values: list[str]

    def apply(self, variant: Variant, value: str) -> Variant:
        """The variant with this value, which is added to its name."""
        shown = self.name.rpartition("/")[2]
        if not value:
            return replace(variant, name=f"{variant.name} without {shown}")
        name, assignment = f"{variant.name} {shown}={value}", f"{self.name}={value}"
        if self.option == "--set-sweep":
            return replace(variant, name=name, set=[*variant.set, assignment])
        return replace(variant, name=name, boot=f"{variant.boot} {assignment}".strip())


def sweep(variants: list[Variant], boot: list[str], settings: list[str]) -> list[Variant]:
    """Every variant with every value of every sweep `NAME=V1,V2,...`; an empty value omits the parameter.

    >>> base = [Variant(name="6.12", kernel="debian/6.12")]
    >>> for variant in sweep(base, ["rcutree.rcu_fanout_leaf=,8"], ["/sys/kernel/rcu_expedited=0,1"]):
    ...     print(variant.name, "|", variant.boot, variant.set)
    6.12 without rcutree.rcu_fanout_leaf rcu_expedited=0 |  ['/sys/kernel/rcu_expedited=0']
    6.12 without rcutree.rcu_fanout_leaf rcu_expedited=1 |  ['/sys/kernel/rcu_expedited=1']
    6.12 rcutree.rcu_fanout_leaf=8 rcu_expedited=0 | rcutree.rcu_fanout_leaf=8 ['/sys/kernel/rcu_expedited=0']
    6.12 rcutree.rcu_fanout_leaf=8 rcu_expedited=1 | rcutree.rcu_fanout_leaf=8 ['/sys/kernel/rcu_expedited=1']
    """
    sweeps = [_parse("--boot-sweep", text) for text in boot] + [
        _parse("--set-sweep", text) for text in settings
    ]
    swept = []
    for variant in variants:
        for values in product(*(sweep.values for sweep in sweeps)):
            one = variant
            for sweep, value in zip(sweeps, values, strict=True):
                one = sweep.apply(one, value)
            swept.append(one)
    return swept


def _parse(option: str, text: str) -> _Sweep:
    name, equals, values = text.partition("=")
    is_path = option == "--set-sweep"
    if not name or not equals or name.startswith("/") != is_path:
        usage = "PATH=V1,V2, for instance /sys/kernel/rcu_expedited=0,1"
        if not is_path:
            usage = "NAME=V1,V2, for instance rcutree.rcu_fanout_leaf=8,16,64"
        raise UserError(f"{option} {text!r}: use {usage}")
    return _Sweep(option, name, values.split(","))
