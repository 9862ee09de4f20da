"""A comparison as text, Markdown, CSV and JSON."""
