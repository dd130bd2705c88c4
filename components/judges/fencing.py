"""Requests to judges, with what is judged behind a fence: none of it can be read as words of the template."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from components.tasks.questions import filled

Fence = Literal["nonce", "quoted"]
NONCE_DIGITS = 12
CONTROL = re.compile(
    r"<(?=[|\uff5c])|<(?=/?s>|<SYS>|(?:bos|eos|pad|unk|mask|start_of_turn|end_of_turn|end_of_utterance)>)"
    r"|\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|THINK)\])"
)
"""The first character of marks that tokenizers of chat models read as the end of a turn, or the start of another."""


@dataclass(frozen=True)
class Request:
    """What a judge is asked, and what of it was written by others."""

    text: str
    judged: tuple[str, ...]
    """Hostile texts: no line of these counts as the judge's own, even if it repeats one."""
    nonce: str
    """In no text of `judged`."""


def nonce_of(*texts: str) -> str:
    """Return digits that are in none of the texts. They follow from these alone, so that equal requests are equal."""
    number = 0
    while True:
        digest = hashlib.sha256(json.dumps([number, *texts]).encode()).hexdigest()[:NONCE_DIGITS]
        if not any(digest in text for text in texts):
            return digest
        number += 1


def without_control(text: str, marks: Sequence[str] = ()) -> str:
    """Return a text with a space inside each control mark, so that no tokenizer reads it as one.

    `marks` are those of the judge's own tokenizer, where it is known; usual ones are broken in any case.
    """
    for mark in sorted(marks, key=len, reverse=True):
        if len(mark) > 1:
            text = text.replace(mark, f"{mark[0]} {mark[1:]}")
    return CONTROL.sub(lambda found: f"{found[0]} ", text)


def fenced(name: str, text: str, nonce: str, fence: Fence) -> str:
    """Return a text that cannot end its own fence: between tags with the nonce, or as a JSON string on one line."""
    if fence == "quoted":
        return json.dumps(text, ensure_ascii=False)
    return f"<{name} {nonce}>\n{text}\n</{name} {nonce}>"


def request_of(
    template: str,
    judged: Mapping[str, str | Sequence[str]],
    own: Mapping[str, str],
    fence: Fence,
    marks: Sequence[str] = (),
) -> Request:
    """Return a template with its placeholders filled in one pass: texts of `judged` in fences, `own` as they are.

    In judged texts control marks are broken, `marks` among them. A list of texts is numbered from 1. {nonce} is
    replaced in the template and in the texts of `own`, nowhere else.
    """
    texts = [text for one in judged.values() for text in ((one,) if isinstance(one, str) else one)]
    nonce = nonce_of(*texts)
    parts = {name: _shown(name, _broken(one, marks), nonce, fence) for name, one in judged.items()}
    parts |= {name: text.replace("{nonce}", nonce) for name, text in own.items()} | {"nonce": nonce}
    return Request(filled(template, parts), tuple(texts), nonce)


def _broken(judged: str | Sequence[str], marks: Sequence[str]) -> str | list[str]:
    if isinstance(judged, str):
        return without_control(judged, marks)
    return [without_control(text, marks) for text in judged]


def _shown(name: str, judged: str | Sequence[str], nonce: str, fence: Fence) -> str:
    if isinstance(judged, str):
        return fenced(name, judged, nonce, fence)
    return "\n".join(f"{number}:\n{fenced(name, text, nonce, fence)}" for number, text in enumerate(judged, 1))
