"""A study as a page and as a mail."""
