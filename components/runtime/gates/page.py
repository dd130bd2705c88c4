"""Data Docs of one validation as a self-contained page: no network, no script, deterministic bytes.

Great Expectations renders the page; it links a dozen files on CDNs, which a report must not need.
"""

from __future__ import annotations

import html
import json
import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import great_expectations as gx
from great_expectations.core.expectation_validation_result import (
    ExpectationSuiteValidationResult,
    ExpectationValidationResult,
)
from great_expectations.expectations.expectation_configuration import ExpectationConfiguration
from great_expectations.render.renderer import ValidationResultsPageRenderer
from great_expectations.render.view import DefaultJinjaPageView
from markupsafe import Markup

from components.pages.pages import render

PAGE = "index.html"
TEMPLATE = Path(__file__).with_name("page.html")
DROPPED = {
    "body", "button", "footer", "head", "html", "iframe", "img", "input", "label", "link", "meta", "nav", "script",
    "style", "svg", "title",
}  # fmt: skip
SIDEBAR = "col-lg-2"
RUN_INFORMATION = "section-1-content-block-3"
"""Times and names of a run, which a deterministic report leaves out."""
VOID = {"br", "hr", "img", "input", "link", "meta", "col", "wbr"}
KEPT_ATTRIBUTES = {"class", "id", "colspan", "rowspan", "hidden"}
UUID = re.compile(r"-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
REFERENCE = re.compile(r"""(?:src|href|action|poster|data)\s*=\s*["']?(?!#)[^"'\s>]|url\(|@import""", re.IGNORECASE)


def write_page(report: Path, outcome: ExpectationSuiteValidationResult, *, port: str, kind: str) -> None:
    """Write the Data Docs page of a validation to index.html in `report`."""
    document = ValidationResultsPageRenderer().render(_plain(outcome, port))
    page = stand_alone(page_view().render(document), f"{port} ({kind})")
    (report / PAGE).write_text(page, encoding="utf-8")


@cache
def page_view() -> DefaultJinjaPageView:
    """Return what renders pages: compiling its templates takes longer than filling them."""
    return DefaultJinjaPageView()


def stand_alone(page: str, title: str) -> str:
    """Return the page's body with an inline style, without anything that it would load, run or link to elsewhere."""
    parser = _Body()
    parser.feed(page)
    parser.close()
    result = render(TEMPLATE, title=title, body=Markup(parser.body()))
    found = external_reference(result)
    assert found is None, f"the page still refers to {found}"
    return result


def external_reference(page: str) -> str | None:
    """Return the first attribute or style of a page that would load or link to something else, or None."""
    for tag in re.finditer(r"<style>.*?</style>|<[a-zA-Z][^>]*>", page, re.DOTALL):
        if REFERENCE.search(tag.group()):
            return tag.group()
    return None


class _Body(HTMLParser):
    """Keeps elements and text of the body; drops scripts, images, navigation, handlers and outward links."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._out: list[str] = []
        self._open: list[tuple[str, bool]] = []
        """Open elements below the body, each with whether it is kept."""
        self._in_body = False
        self._ids: dict[str, str] = {}

    def body(self) -> str:
        """Return the kept content, with random identifiers numbered in order and empty lines removed."""
        text = UUID.sub(lambda match: self._ids.setdefault(match.group(), f"-{len(self._ids)}"), "".join(self._out))
        return "\n".join(line.rstrip() for line in text.splitlines() if line.strip())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open an element, or start skipping one."""
        if tag == "body":
            self._in_body = True
            self._open.clear()
            return
        given = {name: value or "" for name, value in attrs}
        kept = self._keeping() and tag not in DROPPED and SIDEBAR not in given.get("class", "").split()
        # without a script there is nothing to unfold
        kept = kept and given.get("data-toggle") != "collapse" and given.get("id") != RUN_INFORMATION
        if tag not in VOID:
            self._open.append((tag, kept))
        if kept:
            inner = {name: value for name, value in given.items() if name in KEPT_ATTRIBUTES}
            if given.get("href", "").startswith("#"):
                inner["href"] = given["href"]
            shown = "".join(f' {name}="{html.escape(value)}"' for name, value in inner.items())
            self._out.append(f"<{tag}{shown}>")

    def handle_endtag(self, tag: str) -> None:
        """Close an element and any unclosed ones inside it."""
        if tag not in (name for name, _ in self._open):
            return
        while self._open:
            name, kept = self._open.pop()
            if kept:
                self._out.append(f"</{name}>")
            if name == tag:
                return

    def handle_data(self, data: str) -> None:
        """Keep text, escaped again."""
        if self._keeping():
            self._out.append(html.escape(data, quote=False))

    def _keeping(self) -> bool:
        return self._in_body and all(kept for _, kept in self._open)


def _plain(outcome: ExpectationSuiteValidationResult, port: str) -> ExpectationSuiteValidationResult:
    """Return the result in plain numbers and escaped text, without identifiers, times and traces.

    The renderer escapes arguments but not values, and rows are full of tags such as <think>.
    """
    results = []
    for item in sorted(outcome.results, key=lambda item: item.expectation_config.meta["number"]):
        found = json.loads(json.dumps(item.to_json_dict(), default=str))
        config = found["expectation_config"]
        results.append(
            ExpectationValidationResult(
                success=item.success,
                expectation_config=ExpectationConfiguration(config["type"], config["kwargs"]),
                result=_escaped(found["result"]),
                exception_info=_crash(found["exception_info"]),
            )
        )
    return ExpectationSuiteValidationResult(
        success=bool(outcome.success),
        results=results,
        suite_name=outcome.suite_name,
        statistics=outcome.statistics,
        meta={"great_expectations_version": gx.__version__, "batch_spec": {"data_asset_name": port}},
    )


def _crash(info: dict[str, Any]) -> dict[str, Any]:
    """Return exception information without its traceback; it comes flat, or nested by metric."""
    records = [info] if "raised_exception" in info else list(info.values())
    messages = sorted({str(item["exception_message"]) for item in records if item.get("raised_exception")})
    message = html.escape("; ".join(messages))
    return {"raised_exception": bool(messages), "exception_message": message, "exception_traceback": ""}


def _escaped(value: Any) -> Any:
    if isinstance(value, str):
        return html.escape(value, quote=False)
    if isinstance(value, list):
        return [_escaped(item) for item in value]
    return {key: _escaped(item) for key, item in value.items()} if isinstance(value, dict) else value
