"""AppArmor counts references to the label of a task's credentials."""

from bigiron.analysis.lines.rules.rule import Rule

RULE = Rule(
    name="apparmor_label",
    what="the reference count of AppArmor's label",
    why="every task under the same profile, even the unconfined one, takes and drops references to one label",
    experiment="boot with lsm=capability (no security module): the cache line must disappear",
    source="security/apparmor/include/label.h: aa_get_label(), aa_put_label()",
    named=("struct", "aa_label.count*"),
    functions=("aa_*", "apparmor_*"),
    least_share=0.5,
    rank=10,
)
