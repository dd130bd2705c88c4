"""Templates: every value is escaped wherever it stands, a template in a value is text, a missing value is an error."""

from __future__ import annotations

from pathlib import Path

import pytest
from jinja2 import TemplateError

from components.pages.pages import render

HOSTILE = '<script>alert("1")</script>\'&{{ 7 * 7 }}{% raw %}{# #}'
SHOWN = "&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&#x27;&amp;{{ 7 * 7 }}{% raw %}{# #}"


def template(folder: Path, text: str) -> Path:
    path = folder / "page.txt"  # the name's ending decides nothing
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    "text",
    [
        "{{ value }}",
        "{{ row['value'] }}",
        "{% for item in [value] %}{{ item }}{% endfor %}",
        "{% macro cell(item) %}{{ item }}{% endmacro %}{{ cell(value) }}",
        "{% set other = value ~ '' %}{{ other }}",
        "{{ '{}'.format(value) }}",
    ],
)
def test_what_a_value_says_is_text_wherever_it_stands(tmp_path: Path, text: str) -> None:
    assert render(template(tmp_path, text), value=HOSTILE, row={"value": HOSTILE}) == SHOWN


def test_a_page_extends_the_document_and_loads_nothing(tmp_path: Path) -> None:
    text = '{% extends "document.html" %}{% block body %}<p>{{ value }}</p>{% endblock %}'
    page = render(template(tmp_path, text), title=HOSTILE, value=HOSTILE)
    assert page.startswith("<!doctype html>\n") and page.endswith("</body></html>\n")
    assert page.count(SHOWN) == 2 and "<script" not in page


def test_a_value_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TemplateError, match="'value' is undefined"):
        render(template(tmp_path, "{{ value }}"))


DIGEST = "0123456789abcdef" * 4


def test_digests_are_short_to_read_and_whole_to_copy(tmp_path: Path) -> None:
    shown = render(template(tmp_path, "{{ value | short_digests }}"), value=f"f.py:f@{DIGEST}, then {DIGEST[:63]}")
    digest = f'<code class="digest" title="{DIGEST}">{DIGEST[:12]}<span class="rest">{DIGEST[12:]}</span></code>'
    assert shown == f"f.py:f@{digest}, then {DIGEST[:63]}", "only a whole SHA-256 is one"


def test_what_stands_beside_a_digest_is_text(tmp_path: Path) -> None:
    page = render(template(tmp_path, "{{ value | short_digests }}"), value=f"{HOSTILE} {DIGEST} {HOSTILE}")
    assert page.startswith(SHOWN) and page.endswith(SHOWN) and page.count("<code") == 1
    cut = render(template(tmp_path, "{{ value | short_digests(12) }}"), value=HOSTILE)
    assert "<script" not in cut and "alert(" in cut
