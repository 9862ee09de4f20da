"""The metadata of slab pages."""

from bigiron.analysis.lines.rules.rule import Rule

RULE = Rule(
    name="slab_page",
    what="the freelist and counters of slab pages",
    why="an object allocated on one CPU is freed on another, which writes the page's freelist",
    experiment=(
        "see who frees (bigiron compare --paths 6): RCU or another task gives objects back to foreign slabs"
    ),
    source="mm/slub.c: __slab_free()",
    named=("struct?slab.*",),
    object=("struct?page*", "struct?slab*", "struct?folio*"),
    actors=(
        "___slab_alloc",
        "__slab_free",
        "kmem_cache_*",
        "kfree*",
        "allocate_slab",
        "get_partial_node*",
        "put_cpu_partial",
        "cache_from_obj",
        "__unfreeze_partials",
        "cmpxchg_double_slab",
        "*slab*",
        "get_page_from_freelist",
        "prep_*",
        "check_new_pages",
        "rmqueue_bulk",
    ),
    least_share=0.6,
    rank=40,
)
