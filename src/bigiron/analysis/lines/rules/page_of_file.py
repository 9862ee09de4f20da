"""A page of a file that all tasks read or write."""

from bigiron.analysis.lines.rules.rule import Rule

RULE = Rule(
    name="page_of_file",
    what="the reference count and flags of a page of a shared file",
    why="each read, write or fault takes a reference to the page",
    experiment="give each task a file of its own: the cache line must disappear",
    source="mm/filemap.c: __filemap_get_folio(), filemap_map_pages()",
    object=("struct?page*", "struct?folio*"),
    actors=(
        "*filemap*",
        "folio_*",
        "shmem_*",
        "find_*entry",
        "pagecache_*",
        "generic_*write*",
        "do_fault*",
        "finish_fault",
        "set_pte*",
        "*rmap*",
        "next_uptodate_*",
    ),
    least_share=0.5,
    rank=42,
)
