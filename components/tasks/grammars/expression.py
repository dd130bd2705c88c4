"""Arithmetic and algebra: text that is harmless even where Python's machinery evaluates it.

Accepted text has numbers, names, operators, brackets and calls of functions that are allowed by name. It has no
attribute, index, string, keyword argument or other call, so evaluating it computes a value without
side effects. The parser is one pass over the tokens with a list of open brackets: it ends on every input.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from keyword import iskeyword

MAX_CHARS = 4_000
MAX_DEPTH = 50
"""Brackets and signs that may be open at once: far below what makes Python's own parser give up."""
DECIMAL = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?"
INTEGER = r"\d+"
HEXADECIMAL = r"0[xX][0-9a-fA-F]+|\d+"
NAME = r"[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)?"


@dataclass(frozen=True)
class Grammar:
    """Which numbers, operators, names and functions an expression may have."""

    number: str = INTEGER
    operators: tuple[str, ...] = ("+", "-", "*", "/")
    """Between two operands; longer ones first where one begins like another."""
    signs: tuple[str, ...] = ("+", "-")
    """Before an operand."""
    names: bool = False
    """Whether names may stand for unknowns and constants."""
    functions: frozenset[str] = frozenset()
    """Names that may be called."""

    def accepts(self, text: str) -> bool:
        """Return whether `text` is one expression of this grammar. Never raises."""
        if len(text) > MAX_CHARS or not text.isascii():
            return False
        tokens = self._tokens(text)
        return bool(tokens) and self._is_expression(tokens)

    def _tokens(self, text: str) -> list[tuple[str, str]]:
        marks = "|".join(map(re.escape, dict.fromkeys((*self.operators, *self.signs, "(", ")", ","))))
        marks = marks.replace(re.escape("**"), r"\*[ \t]*\*")  # sympy also accepts a power with a gap
        kinds = re.compile(rf"\s*(?:(?P<name>{NAME})|(?P<number>{self.number})|(?P<mark>{marks}))")
        found, place, text = [], 0, text.rstrip()
        while place < len(text):
            match = kinds.match(text, place)
            if match is None:
                return []
            kind = str(match.lastgroup)
            found.append((kind, "".join(match[kind].split())))
            place = match.end()
        return found

    def _is_expression(self, tokens: list[tuple[str, str]]) -> bool:
        opened: list[str] = []
        signs, wants_operand = 0, True
        following = [text for _, text in tokens[1:]]
        for (kind, text), after in zip(tokens, [*following, ""], strict=True):
            if not wants_operand:
                if kind == "mark" and text == ")" and opened:
                    opened.pop()
                elif kind == "mark" and (text in self.operators or (text == "," and opened and opened[-1] == "call")):
                    wants_operand = True
                else:
                    return False
                continue
            if kind == "mark" and text in self.signs:
                signs += 1
            elif kind == "mark" and text == "(":
                opened.append("group")
            elif kind == "name" and after == "(" and text in self.functions:
                opened.append("function")  # its bracket follows at once and replaces it
            elif kind == "number" or (kind == "name" and self.names and after != "(" and not iskeyword(text)):
                signs, wants_operand = 0, False
            else:
                return False
            if text == "(" and opened[-2:-1] == ["function"]:
                opened[-2:] = ["call"]
            if signs + len(opened) > MAX_DEPTH:
                return False
        return not wants_operand and not opened
