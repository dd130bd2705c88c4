r"""Finding the answer in a response: the one place that decides what a response answers.

An answer stands behind the thought. `<think>`, `<thinking>`, `<reasoning>` and `[THINK]` open one, and a template may
have opened it before the response. A thought that is not closed was cut, and answers nothing; so does one with nothing
behind it.
Two forms of `<answer>` count beside a thought, because models are trained to write them: one that ends an unclosed
thought (`<think>12+3=15<answer>15`), and a complete one before a thought.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from typing import Literal, NamedTuple

from pydantic import Field

from components.contract.params import Params

ANSWER_OPEN, ANSWER_CLOSE = "<answer>", "</answer>"
THINK_OPEN, THINK_CLOSE = "<think>", "</think>"
THOUGHT = re.compile(
    r"<(?P<close>/?)(?:think(?:ing)?|reasoning)>|\[(?P<shut>/?)THINK\]"
    r"|<\|channel\|>(?:(?P<final>final)|analysis)\b[^<]{0,80}<\|message\|>"
)
"""Opens or closes a thought, as DeepSeek-R1, Qwen, Magistral and gpt-oss write it, and prompts ask for it."""
BRACE = re.compile(r"\\(?:boxed|fbox)\s*\{|[{}]")
BARE_BOX = re.compile(r"\\(?:boxed|fbox)\s*([+-]?\d[\d.,]*)")
JOINT = re.compile(r"[\s$*]*(?:,|\\text\{\s*and\s*\}|\band\b|\bor\b)+[\s$*]*(?:(?:and|or)\b[\s$*]*)?")
"""Stands between two boxes that are one answer: a comma, `and`, `or`."""
MOST_BETWEEN = 40
HASHES = "####"
LABEL = re.compile(r"\W*(?:the )?(?:final |correct )?(?:answer|result|solution)\W*", re.IGNORECASE)
BOLD = "**"
NUMBER = re.compile(r"(?<![\w.,/])[+\-\u2212]?[$\u00a3\u20ac]?(?:\d[\d,]*\.?\d*|\.\d+)(?:/\d+)?%?")

Unmarked = Literal["all", "last_line", "last_number"]


class AnswerConfig(Params):
    """How the answer of a response is read."""

    unmarked: Unmarked = Field(default="all")
    """The answer of a response without a mark (`<answer>`, a box, `####`): all that follows the thought, its last line
    with text, or the last number in it."""


class Answer(NamedTuple):
    """The final answer of a response, and whether it stands behind a mark."""

    text: str
    marked: bool


class _Span(NamedTuple):
    text: str
    start: int
    end: int


class _Box(NamedTuple):
    start: int
    inside: int
    end: int


def extract_answer(response: str, unmarked: Unmarked = "all") -> str:
    r"""Return the final answer that a response gives, without surrounding white space or bold type; "" for none.

    Behind the thought, in this order: the text after the last `<answer>` (up to `</answer>` or the end); the last
    `\boxed{...}` with its braces matched, also within an answer block or behind it (boxes joined by a comma, `and` or
    `or` are one list); the line after the last `####`; and for a response without any mark, what `unmarked` says.
    """
    return find_answer(response, unmarked).text


def find_answer(response: str, unmarked: Unmarked = "all") -> Answer:
    """Return the final answer of a response as `extract_answer` does, and whether it stands behind a mark."""
    text = after_thought(response)
    block = _last_block(text) if ANSWER_OPEN in text else None
    box = _last_box(text) if "box" in text else None
    if block is not None and (box is None or box.start < block.end):
        inner = _last_box(block.text) if "box" in block.text else None
        return Answer(_plain((inner or block).text), True)
    if box is not None:
        return Answer(_plain(box.text), True)
    _, mark, rest = text.rpartition(HASHES)
    if mark:
        return Answer(_plain(_line_behind(rest)), True)
    return Answer(_unmarked(text.strip(), unmarked), False)


def after_thought(response: str) -> str:
    """Return the part of a response in which its answer stands; "" where there is none."""
    if "<" not in response and "[" not in response:
        return response
    marks = list(THOUGHT.finditer(response))
    if not marks:
        return response
    last = marks[-1]
    rest = response[last.end() :]
    if _closes(last):
        return rest if rest.strip() else _complete_before(response, marks)
    return _ending_block(rest) or _complete_before(response, marks)


def answer_block(text: str) -> str | None:
    """Return what stands behind the last `<answer>`, up to `</answer>` or the end; None without one."""
    block = _last_block(text)
    return None if block is None else block.text


def path_to_answer(response: str) -> str:
    """Return what a response writes before its answer, marks and repeated white space aside."""
    before, mark, _ = response.rpartition(ANSWER_OPEN)
    if not mark:
        answer = extract_answer(response)
        before = response.rpartition(answer)[0] if answer else response
    return " ".join(before.replace(THINK_OPEN, " ").replace(THINK_CLOSE, " ").split())


def _closes(mark: re.Match[str]) -> bool:
    return bool(mark["close"] or mark["shut"] or mark["final"])


def _ending_block(thought: str) -> str:
    """Return from its last `<answer>` on a thought that this ends: behind `</answer>` stand at most further tags."""
    block = _last_block(thought)
    if block is None or thought[block.end :].strip()[:1] not in ("", "<"):
        return ""
    return thought[block.start :]


def _complete_before(response: str, marks: list[re.Match[str]]) -> str:
    """Return the last complete answer block outside of every thought, "" for none."""
    outside: list[str] = []
    start: int | None = 0
    for mark in marks:
        if _closes(mark):
            start = mark.end()  # what stands before it is thought, though the template may have opened it
        elif start is not None:
            outside.append(response[start : mark.start()])
            start = None
    for text in reversed(outside):
        block = _last_block(text)
        if block is not None and text.endswith(ANSWER_CLOSE, 0, block.end):
            return text[block.start : block.end]
    return ""


def _last_block(text: str) -> _Span | None:
    """Return the last answer block, from its tag to its closing tag or to the end.

    A complete one before it does not win: a judge's verdict stands behind what it quotes.
    """
    start = text.rfind(ANSWER_OPEN)
    if start < 0:
        return None
    inside, end = start + len(ANSWER_OPEN), text.find(ANSWER_CLOSE, start)
    return (
        _Span(text[inside:], start, len(text)) if end < 0 else _Span(text[inside:end], start, end + len(ANSWER_CLOSE))
    )


def _last_box(text: str) -> _Span | None:
    """Return the content of the last box whose braces close, with those that a comma or `and` joins to it."""
    boxes = sorted(_boxes(text))
    if not boxes:
        bare = deque(BARE_BOX.finditer(text), maxlen=1)
        return _Span(bare[0][1], bare[0].start(), bare[0].end()) if bare else None
    chain = [boxes.pop()]
    while boxes and 0 < chain[-1].start - boxes[-1].end <= MOST_BETWEEN:
        if not JOINT.fullmatch(text, boxes[-1].end, chain[-1].start):
            break
        chain.append(boxes.pop())
    texts = dict.fromkeys(text[box.inside : box.end - 1].strip() for box in reversed(chain))
    return _Span(", ".join(texts), chain[-1].start, chain[0].end)


def _boxes(text: str) -> Iterator[_Box]:
    """Yield the boxes whose braces close; one pass, whatever the nesting."""
    opened: list[re.Match[str]] = []
    for brace in BRACE.finditer(text):
        if brace[0] != "}":
            opened.append(brace)
        elif opened and (start := opened.pop())[0] != "{":
            yield _Box(start.start(), start.end(), brace.end())


def _line_behind(rest: str) -> str:
    """Return the line behind `####`; the next one if it is a heading such as `Final answer`."""
    line, _, following = rest.strip().partition("\n")
    return following.strip().partition("\n")[0] if following.strip() and LABEL.fullmatch(line) else line


def _plain(text: str) -> str:
    text = text.strip()
    bold = text.startswith(BOLD) and text.endswith(BOLD) and len(text) > 4 and BOLD not in text[2:-2]
    return text[2:-2].strip() if bold else text


def _unmarked(text: str, unmarked: Unmarked) -> str:
    if unmarked == "last_line":
        return text.rpartition("\n")[2].strip()
    if unmarked == "last_number":
        numbers = NUMBER.findall(text)
        return numbers[-1].rstrip(".,") if numbers else ""
    return text
