"""How a small Python program is written: its comments, its names, its length. Parsed, and never run.

What a model wrote is hostile: a text that is long, or that the parser refuses in any way, has no style.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from collections.abc import Callable, Mapping
from typing import Literal, get_args

from components.contract.python_text import parse_module

Preference = Literal["comments", "names", "short"]
PREFERENCES: tuple[Preference, ...] = get_args(Preference)
MAX_CHARS = 2000
"""Longest program that is parsed: nesting, which costs the parser's stack, cannot be deeper."""
SAYS = re.compile(r"[A-Za-z]{3}")
"""A comment, or a name, that says something."""


def style(code: str, preference: Preference) -> float:
    """Return from 0 to 1 how well a program meets a preference; 0 for one that is no Python or has no statement.

    comments: share of the lines of statements with a comment, behind them or on the line above. names: share of the
    arguments and assigned names with three letters in a row. short: 1 over the statements. Lines of `def` and what
    stands in comprehensions do not count.
    """
    tree = _parsed(code)
    lines = _statements(tree) if tree is not None else []
    return _SCORES[preference](code, tree, lines) if tree is not None and lines else 0.0


def _parsed(code: str) -> ast.Module | None:
    if len(code) > MAX_CHARS:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of odd escapes in strings
        try:
            return parse_module(code)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def _statements(tree: ast.Module) -> list[int]:
    """Return the line of each statement but definitions."""
    found = (node for node in ast.walk(tree) if isinstance(node, ast.stmt))
    return [
        node.lineno for node in found if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    ]


def _comments(code: str, tree: ast.Module, lines: list[int]) -> float:
    said, alone = set(), set()
    try:
        for token in tokenize.generate_tokens(io.StringIO(code).readline):
            if token.type == tokenize.COMMENT and SAYS.search(token.string):
                said.add(token.start[0])
                if not token.line[: token.start[1]].strip():
                    alone.add(token.start[0])
    except (tokenize.TokenError, SyntaxError):
        return 0.0
    own = set(lines)
    return sum(line in said or line - 1 in alone for line in own) / len(own)


def _names(code: str, tree: ast.Module, lines: list[int]) -> float:
    names = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    for node in ast.walk(tree):
        targets = node.targets if isinstance(node, ast.Assign) else ()
        names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return sum(bool(SAYS.search(name)) for name in names) / len(names) if names else 0.0


def _short(code: str, tree: ast.Module, lines: list[int]) -> float:
    return 1 / len(lines)


_SCORES: Mapping[Preference, Callable[[str, ast.Module, list[int]], float]] = {
    "comments": _comments,
    "names": _names,
    "short": _short,
}
