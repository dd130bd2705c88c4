"""The guides as Markdown: their links, anchors, code and tables."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from markdown_it import MarkdownIt
from markdown_it.token import Token

from pipelines.docs.guides import ROOT, guides

READER = MarkdownIt("commonmark").enable("table")


def texts() -> dict[str, str]:
    """Return path -> text of all guides."""
    return {path: (ROOT / path).read_text(encoding="utf-8") for path in guides()}


def tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of a text, those inside of lines included."""
    for token in READER.parse(text):
        yield token
        yield from token.children or ()


def links(text: str) -> list[str]:
    """Return the targets of links and pictures."""
    named = {"link_open": "href", "image": "src"}
    return [str(token.attrGet(named[token.type])) for token in tokens(text) if token.type in named]


def anchors(text: str) -> set[str]:
    """Return the anchors of headings, as GitHub makes them."""
    parsed = READER.parse(text)
    headings = [parsed[index + 1] for index, token in enumerate(parsed) if token.type == "heading_open"]
    found: Counter[str] = Counter()
    named = set()
    for heading in headings:
        plain = "".join(part.content for part in heading.children or () if part.type in ("text", "code_inline"))
        name = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        named.add(f"{name}-{found[name]}" if found[name] else name)
        found[name] += 1
    return named


def blocks(text: str, *languages: str) -> list[str]:
    """Return the contents of code blocks in one of the languages."""
    return [token.content for token in READER.parse(text) if token.type == "fence" and token.info.strip() in languages]


def inline_code(text: str) -> list[str]:
    """Return what stands between backticks inside of lines, each in one line."""
    return [" ".join(token.content.split()) for token in tokens(text) if token.type == "code_inline"]


def rows(text: str, heading: str) -> list[list[str]]:
    """Return the cells of the first table below a heading, without its head."""
    section = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    assert lines, heading
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[2:]]
