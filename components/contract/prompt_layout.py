"""What a chat template does with the messages before a response, found by probes; free of torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from components.contract.chat_template import ERRORS, render

SYSTEM, QUESTION, PROBE = "Answer tersely, please.", "What is six times seven?", "forty-two"
ASKED = {"role": "user", "content": QUESTION}


def ignored_header(template: str, variables: Mapping[str, Any]) -> str:
    """Return the header of the assistant's turn where the template writes it with a response only; else "".

    Such a template ignores `add_generation_prompt`: a model would be sampled without the header and trained to write
    it. Blank text, such as the space behind Llama 2's [/INST], is part of the response. Raises one of ERRORS.
    """
    start, without = (render(template, [ASKED], generation=wanted, **variables) for wanted in (True, False))
    answered = [ASKED, {"role": "assistant", "content": PROBE}]
    whole = render(template, answered, generation=False, **variables)
    if start != without or not whole.startswith(start):
        return ""
    header, found, _ = whole[len(start) :].partition(PROBE)
    return header if found and header.strip() else ""


def drops_system(template: str, variables: Mapping[str, Any]) -> bool:
    """Return whether the template leaves a system message out without a word; one that raises does not."""
    try:
        text = render(template, [{"role": "system", "content": SYSTEM}, ASKED], generation=True, **variables)
    except ERRORS:
        return False
    return SYSTEM not in text
