"""The list of partial slabs of a node."""

from bigiron.analysis.lines.rules.rule import Rule

RULE = Rule(
    name="slab_list_lock",
    what="the list_lock of a slab cache's node",
    why="CPUs whose own slabs are full or empty take slabs from, or give them to, the node's list",
    experiment="set a higher cpu_partial for the cache in /sys/kernel/slab (--set): fewer accesses",
    source="mm/slub.c: get_partial_node(), __unfreeze_partials()",
    named=("struct?kmem_cache_node*",),
    object=("[!s]*", "slab*", "s[!t]*"),
    actors=(
        "get_partial_node*",
        "get_from_partial_node",
        "___slab_alloc",
        "get_any_partial",
        "__unfreeze_partials",
        "put_cpu_partial",
        "deactivate_slab",
        "__slab_free",
        "discard_slab",
        "allocate_slab",
        "*refill_objects*",
        "add_partial",
        "remove_partial",
        "free_to_partial_list",
    ),
    least_share=0.6,
    rank=40,
)
