"""RCU's callback lists and grace-period state."""

from bigiron.analysis.lines.rules.rule import Rule

RULE = Rule(
    name="rcu_callbacks",
    what="RCU's callback lists and grace-period state",
    why="callbacks ask for grace periods, and quiescent states are reported up to the root",
    experiment="see what is freed through call_rcu per operation (bigiron compare --probe instructions)",
    source="kernel/rcu/tree.c: rcu_do_batch(), note_gp_changes()",
    named=("rcu_state*", "rcu_data*", "*srcu*"),
    rank=20,
)
