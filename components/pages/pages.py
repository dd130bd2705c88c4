"""Templates of pages, in which every value is escaped: what a model wrote or a row holds is hostile.

A template lies beside the module that knows what is in it, and may extend or import those of this folder. It gets plain
values: what is HTML is in templates.
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
"""What pages extend: one file, with its style inside."""


def render(template: Path, **values: Any) -> str:
    """Return the page that a template makes of values; a value that it lacks is an error, not an empty text."""
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
    """Return a value escaped as `html.escape` writes it, so that pages are the same bytes as those made before jinja2.

    Jinja escapes what this leaves, and leaves what is escaped here.
    """
    from markupsafe import Markup

    return value if hasattr(value, "__html__") else Markup(html.escape(str(value)))
