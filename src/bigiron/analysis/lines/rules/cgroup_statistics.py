"""Statistics of a memory cgroup."""

from bigiron.analysis.lines.rules.rule import Rule

RULE = Rule(
    name="cgroup_statistics",
    what="a memory cgroup's counters",
    why="charges and statistics of all tasks in the cgroup go to the same counters once a batch is full",
    experiment="boot with cgroup_disable=memory: the cache line must disappear",
    source="mm/page_counter.c: page_counter_charge(), mm/memcontrol.c: memcg_rstat_updated()",
    named=("*mem_cgroup*", "*page_counter*"),
    actors=(
        "page_counter_*",
        "try_charge*",
        "*memcg*",
        "mem_cgroup_*",
        "cgroup_rstat_*",
        "obj_cgroup_*",
        "refill_stock",
        "refill_obj_stock",
        "propagate_protected_usage",
    ),
    least_share=0.6,
    rank=25,
)
