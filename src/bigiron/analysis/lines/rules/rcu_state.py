"""RCU's state, where its name is not known."""

from bigiron.analysis.lines.rules.rule import Rule

RULE = Rule(
    name="rcu_state",
    what="RCU's grace-period state",
    why="callbacks ask for grace periods, and quiescent states are reported up to the root",
    experiment="see what is freed through call_rcu per operation (bigiron compare --probe instructions)",
    source="kernel/rcu/tree.c: rcu_do_batch(), note_gp_changes()",
    object=("page or slab object*", "kernel image*", "kmalloc*"),
    actors=("rcu_*", "__rcu_*", "call_rcu", "note_gp_changes", "__note_gp_changes", "__call_rcu*"),
    least_share=0.6,
    rank=55,
)
