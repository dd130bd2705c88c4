"""Templates of pages, in which every value is escaped: texts of models and rows are hostile.

A template is beside the module that fills it, and may extend or import those of this folder. It gets plain
values: HTML is only in templates.
"""

from __future__ import annotations

import html
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment

FOLDER = Path(__file__).parent
DOCUMENT = FOLDER / "document.html"
"""The base template of pages: one file, styles included."""


def render(template: Path, **values: Any) -> str:
    """Return the page that a template makes of values; a missing value is an error, not an empty text."""
    return _environment(template.parent).get_template(template.name).render(values)


@cache
def _environment(folder: Path) -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader([folder, FOLDER]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_escaped,
    )


def _escaped(value: Any) -> Any:
    """Return a value escaped as by `html.escape`, so that pages have the same bytes as before jinja2.

    Jinja escapes what this function leaves, and leaves what it escaped.
    """
    from markupsafe import Markup

    return value if hasattr(value, "__html__") else Markup(html.escape(str(value)))
