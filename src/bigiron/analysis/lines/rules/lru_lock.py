"""The lists of pages by last use."""

from bigiron.analysis.lines.rules.rule import Rule

RULE = Rule(
    name="lru_lock",
    what="the lock of an LRU list",
    why="pages are put on, and taken off, the node's or cgroup's list in batches, under one lock",
    experiment="see which pages are freed while they are young (bigiron compare --paths 6)",
    source="mm/swap.c: folio_batch_move_lru()",
    named=("*lruvec*",),
    actors=(
        "folio_lruvec_*",
        "lru_*",
        "pagevec_lru_*",
        "folio_batch_*",
        "release_pages",
        "folios_put*",
        "__page_cache_release",
        "lruvec_*",
        "move_pages_to_lru",
        "__pagevec_*",
    ),
    least_share=0.5,
    rank=45,
)
