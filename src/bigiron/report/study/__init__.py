"""A study as a page, as Markdown and as a mail."""
