"""How commands print: tables that fit a terminal, plain columns when piped, JSON for scripts."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from components.contract.errors import PosttrainError
from components.contract.terminal import visible, visible_line

PIPED_WIDTH = 200


def print_json(value: Any) -> None:
    """Print a value as indented JSON."""
    print(json.dumps(value, indent=2, ensure_ascii=True))


def problems_json(error: PosttrainError) -> list[dict[str, Any]]:
    """Return errors as JSON for scripts; each mistake of a recipe with its source location."""
    from pipelines.language.problems import RecipeErrors

    if not isinstance(error, RecipeErrors):
        return [{"message": str(error)}]
    return [
        {"file": p.mark.file, "line": p.mark.line, "column": p.mark.column, "message": p.message}
        for p in error.problems
    ]


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, title: str = "") -> None:
    """Print rows under headers: with rich in a terminal, as aligned plain columns otherwise. Each cell is one line."""
    title, headers = visible_line(title), [*map(visible_line, headers)]
    rows = [[*map(visible_line, row)] for row in rows]
    if sys.stdout.isatty():
        _draw(headers, rows, title)
        return
    if title:
        print(title)
    widths = [max(map(len, column)) for column in zip(headers, *rows, strict=True)]
    for row in (headers, *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def print_text(text: str) -> None:
    """Print a text that may hold what rows, models, files or servers wrote; everything invisible is spelled out."""
    print(visible(text))


def print_rich(renderable: Any) -> None:
    """Print a rich renderable; without colours and at any width when piped."""
    from rich.console import Console

    Console(width=None if sys.stdout.isatty() else PIPED_WIDTH).print(renderable)


def print_styled(text: str, style: str) -> None:
    """Print a line in a style, plainly when piped; nothing in it is markup."""
    from rich.console import Console

    Console(highlight=False, soft_wrap=True).print(visible(text), style=style, markup=False)


def _draw(headers: Sequence[str], rows: Sequence[Sequence[str]], title: str) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for header in headers:
        table.add_column(header, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    Console().print(table)


def seconds_text(seconds: float | None) -> str:
    """Return a duration for people: 0.4 s, 12 s, 3 min 5 s, 2 h 10 min; "-" for none."""
    if seconds is None:
        return "-"
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def effect_text(interval: dict[str, float]) -> str:
    """Return an effect with its interval: +0.0123 [+0.004, +0.021]."""
    ends = f" [{interval['low']:+.3g}, {interval['high']:+.3g}]" if "low" in interval else " [one seed: unknown]"
    return f"{interval['value']:+.3g}{ends}"
