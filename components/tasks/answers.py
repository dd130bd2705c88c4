"""Finding the answer in a response."""

from __future__ import annotations

import re

ANSWER_OPEN, ANSWER_CLOSE = "<answer>", "</answer>"
THINK_CLOSE = "</think>"
BRACE = re.compile(r"\\(?:boxed|fbox)\{|[{}]")
HASHES = "####"


def extract_answer(response: str) -> str:
    r"""Return the final answer that a response gives, without surrounding white space.

    In this order: the text after the last `<answer>` (up to `</answer>` or the end); the last `\boxed{...}` with its
    braces matched; the line after the last `####`; and for a response without any mark, all that follows its last
    `</think>`.
    """
    _, mark, rest = response.rpartition(ANSWER_OPEN)
    if mark:
        return rest.partition(ANSWER_CLOSE)[0].strip()
    boxed = _last_boxed(response)
    if boxed is not None:
        return boxed.strip()
    _, mark, rest = response.rpartition(HASHES)
    if mark:
        return rest.strip().partition("\n")[0].strip()
    return response.rpartition(THINK_CLOSE)[2].strip()


def path_to_answer(response: str) -> str:
    """Return what a response writes before its answer, marks and repeated white space aside."""
    before, mark, _ = response.rpartition(ANSWER_OPEN)
    if not mark:
        answer = extract_answer(response)
        before = response.rpartition(answer)[0] if answer else response
    return " ".join(before.replace("<think>", " ").replace(THINK_CLOSE, " ").split())


def _last_boxed(text: str) -> str | None:
    """Return the content of the last box whose braces close, or None; one pass, whatever the nesting."""
    opened: list[re.Match[str]] = []
    best = (-1, -1)
    for brace in BRACE.finditer(text):
        if brace[0] != "}":
            opened.append(brace)
        elif opened and (start := opened.pop())[0] != "{":
            best = max(best, (start.end(), brace.start()))
    return text[slice(*best)] if best[0] >= 0 else None
