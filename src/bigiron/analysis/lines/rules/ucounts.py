"""The count of a user's resources."""

from bigiron.analysis.lines.rules.rule import Rule

RULE = Rule(
    name="ucounts",
    what="a user's resource counters (ucounts)",
    why="all tasks of one user count pending signals and the like in one place",
    experiment="run the tasks as different users",
    source="kernel/ucount.c: inc_rlimit_get_ucounts()",
    named=("*ucounts*",),
    functions=("*ucounts*", "*rlimit*"),
    least_share=0.5,
    rank=20,
)
