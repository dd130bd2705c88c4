"""The program in a response."""

from __future__ import annotations

import re
from collections.abc import Collection

from components.tasks.answers import ANSWER_CLOSE, ANSWER_OPEN, THINK_CLOSE

FENCE = re.compile(r"^[ \t]*```[ \t]*([\w+#-]*)[^\n]*\n(.*?)(?:^[ \t]*```|\Z)", re.DOTALL | re.MULTILINE)


def extract_program(response: str, tags: Collection[str]) -> str:
    """Return the program that a response gives.

    In the text after the last `<answer>`, or after the last `</think>`: the last fenced block that is marked
    with one of the language's `tags`, else the last fenced block, else all of the text.
    """
    _, mark, rest = response.rpartition(ANSWER_OPEN)
    text = rest.partition(ANSWER_CLOSE)[0] if mark else response.rpartition(THINK_CLOSE)[2]
    blocks = FENCE.findall(text)
    marked = [body for tag, body in blocks if tag.lower() in tags]
    if marked:
        return marked[-1]
    return blocks[-1][1] if blocks else text.strip("\n")
