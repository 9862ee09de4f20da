"""The free lists of a memory zone."""

from bigiron.analysis.lines.rules.rule import Rule

RULE = Rule(
    name="zone_lock",
    what="the lock and free lists of a memory zone",
    why="CPUs whose own page lists are full or empty take pages from, or give them to, the zone",
    experiment="give CPUs longer lists of their own: --set /proc/sys/vm/percpu_pagelist_high_fraction=8",
    source="mm/page_alloc.c: rmqueue_bulk(), free_pcppages_bulk()",
    named=("struct?zone*",),
    actors=(
        "rmqueue*",
        "get_page_from_freelist",
        "free_pcppages_bulk",
        "free_one_page",
        "__free_one_page",
        "__zone_watermark_ok",
        "__rmqueue*",
        "expand",
        "free_unref_page*",
        "__mod_zone_page_state",
        "__free_pages_ok",
    ),
    least_share=0.6,
    rank=45,
)
