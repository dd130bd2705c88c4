"""The program in a response."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection

from components.tasks.answers import after_thought, answer_block

FENCE = re.compile(
    r"^(?P<indent>[ \t]*)(?P<fence>`{3,}+|~{3,}+)[ \t]*+\{?\.?(?P<tag>[\w+#-]*+)[^\n]*+\n"
    r"(?P<body>.*?)(?:^[ \t]*(?P=fence)|\Z)",
    re.DOTALL | re.MULTILINE,
)
DEFINES = (
    r"^[ \t]*(?:async def|def|class|function\*?|const|let|var|export function)[ \t]+{name}\b"
    r"|^{name}[ \t]*(?::[^=\n]*)?=(?!=)"
)
"""How Python and JavaScript define a name, as a method too."""
READS_INPUT = re.compile(r"\binput\s*\(|\bstdin\b|\bopen\s*\(\s*0|\breadFileSync\b|\bscanf\b|\bgetchar\b|\bf?gets\b")


def extract_program(response: str, tags: Collection[str], entry_point: str = "", *, reads_input: bool = False) -> str:
    """Return the program that a response gives.

    Behind the thought, in the last answer block or else all of the text: of the fenced blocks that are marked with one
    of the language's `tags` (else of those without a mark), the last that defines `entry_point`, or that reads input
    where the tests give it; else the last one in the language, else the last block, else all of the text. So an example
    of use or of output behind the program is not taken for it.
    """
    text = after_thought(response)
    block = answer_block(text)
    text = text if block is None else block
    blocks = list(FENCE.finditer(text))
    if not blocks:
        return text.strip("\n")
    marked = [block for block in blocks if block["tag"].lower() in tags]
    for among in (marked, [block for block in blocks if not block["tag"]]):
        if fitting := [block for block in among if _fits(block["body"], entry_point, reads_input)]:
            return _body(fitting[-1])
    return _body((marked or blocks)[-1])


def _fits(body: str, entry_point: str, reads_input: bool) -> bool:
    if entry_point:
        return re.search(DEFINES.format(name=re.escape(entry_point)), body, re.MULTILINE) is not None
    return reads_input and READS_INPUT.search(body) is not None


def _body(block: re.Match[str]) -> str:
    """Return what is in a block; one that is indented as a whole, as in a list, stands at the margin."""
    return textwrap.dedent(block["body"]) if block["indent"] else block["body"]
