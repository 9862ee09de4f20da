"""What pages share that are one file and open offline: templates, style, data, and what a page may load.

Their names are untrusted: all are escaped, the data is JSON that cannot end its element, and a strict policy
lets nothing run or load but what is in the file.
"""

import base64
import hashlib
import json
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

ENVIRONMENT = Environment(
    loader=PackageLoader("bigiron.report", "page"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def rendered(page: str, **values: object) -> str:
    """A page of its template, its style sheet and its script, all of one name."""
    style, script = Markup(style_of(page)), Markup(source(f"{page}.js"))
    template = ENVIRONMENT.get_template(f"{page}.html")
    return template.render(policy=policy(style, script), style=style, script=script, **values)


def policy(style: str, script: str) -> str:
    """A content security policy: only the style and script in the page itself."""
    rules = [
        "default-src 'none'",
        f"style-src '{_digest(style)}'",
        f"script-src '{_digest(script)}'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    return "; ".join(rules)


def style_of(page: str) -> str:
    """A page's style sheet, after what all pages have in common."""
    return source("base.css") + source(f"{page}.css")


def source(name: str) -> str:
    """A file of the page's folder."""
    assert ENVIRONMENT.loader
    return ENVIRONMENT.loader.get_source(ENVIRONMENT, name)[0]


def _digest(source: str) -> str:
    """What the policy calls an element's content."""
    return f"sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}"


def embedded_json(data: Any) -> Markup:
    """Data for a script element: no text in it can end the element or begin a comment."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))
