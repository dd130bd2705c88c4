"""Templates of pages, in which every value is escaped: texts of models and rows are hostile.

A template is beside the module that fills it, and may extend or import those of this folder. It gets plain
values: HTML is only in templates.
"""

from __future__ import annotations

import html
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

FOLDER = Path(__file__).parent
SHA256 = re.compile(r"\b([0-9a-f]{12})([0-9a-f]{52})\b")
DOCUMENT = FOLDER / "document.html"
"""The base template of pages: one file, styles included."""


def render(template: Path, **values: Any) -> str:
    """Return the page that a template makes of values; a missing value is an error, not an empty text."""
    return _environment(template.parent).get_template(template.name).render(values)


def short_digests(text: Any, digits: int = 0) -> Markup:
    """Return a text in which each SHA-256 shows its first digits; it is whole where one points at it or copies it.

    With `digits`, the text itself is a digest, of any length, of which so many are shown.
    """
    from markupsafe import Markup, escape

    plain = str(text)
    if digits:
        return _short(escape(plain[:digits]), escape(plain[digits:]))
    parts = SHA256.split(plain)  # text, head, rest, text ...
    found = [_escaped(parts[0])]
    for head, rest, after in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        found += [_short(head, rest), _escaped(after)]
    return Markup("").join(found)


def _short(head: str, rest: str) -> Markup:
    """Return the element of a digest in two parts, which hold no mark of HTML or are escaped."""
    from markupsafe import Markup

    return Markup(f'<code class="digest" title="{head}{rest}">{head}<span class="rest">{rest}</span></code>')


@cache
def _environment(folder: Path) -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader([folder, FOLDER]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_escaped,
    )
    environment.filters["short_digests"] = short_digests
    return environment


def _escaped(value: Any) -> Any:
    """Return a value escaped as by `html.escape`, so that pages have the same bytes as before jinja2.

    Jinja escapes what this function leaves, and leaves what it escaped.
    """
    from markupsafe import Markup

    return value if hasattr(value, "__html__") else Markup(html.escape(str(value)))
