"""What `bigiron patch` prints."""

from bigiron.report.patch.changelog import LINES, WIDTH, block
from bigiron.report.patch.formats import FORMATS, as_comment, as_html, as_json, as_junit, as_ktap, as_text

__all__ = [
    "FORMATS",
    "LINES",
    "WIDTH",
    "as_comment",
    "as_html",
    "as_json",
    "as_junit",
    "as_ktap",
    "as_text",
    "block",
]
