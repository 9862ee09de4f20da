"""What mkdocs does beyond its configuration: links from a page to a file outside docs/ become plain paths."""

import posixpath
import re
from typing import Any

_LINK = re.compile(r"(?<!!)\[([^]]*)\]\(([^)\s#:]+)(?:#[^)]*)?\)")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Called by mkdocs for each page before it is rendered."""
    return without_links_out(markdown, page.file.src_uri)


def without_links_out(markdown: str, page: str) -> str:
    """A page without the links that leave docs/: a book holds no source code.

    >>> without_links_out("[Rules](trace.md), [agent](../../guest/agent.c)", "reference/probes.md")
    '[Rules](trace.md), agent (`guest/agent.c`)'
    """

    def plain(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), link[2]))
        inside = target.startswith("docs/") and target.endswith((".md", ".svg", ".png"))
        return link[0] if inside else f"{link[1]} (`{target}`)"

    return _LINK.sub(plain, markdown)
