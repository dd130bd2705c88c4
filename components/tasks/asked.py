"""Foreign rows that ask something: prompts or conversations with their response, answer and verifier."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from components.contract.errors import InputError
from components.contract.operators import OperatorSpec
from components.tasks.answers import extract_answer
from components.tasks.conversations import read_conversation
from components.tasks.item import UNLABELLED
from components.tasks.numbers import parse_number
from components.tasks.shapes.convert import converted
from components.tasks.shapes.shape import Shape
from components.tasks.shapes.values import at
from components.tasks.source import SourceRow
from components.tasks.table_values import checked_text, row_answers
from components.tasks.tables import ALIASES
from components.tasks.verify import SETTINGS
from components.tasks.weights import WEIGHT, checked_weight

LEADING_ZERO = re.compile(r"\s*[+-]?0\d")


@dataclass(frozen=True)
class Taking:
    """How rows of one shape are taken."""

    shape: Shape
    verifier: OperatorSpec | None
    """None without answers."""
    final_answer: bool = False
    id_column: str | None = None
    data: tuple[str, ...] = ()
    """Further columns that the recipe names, also within objects."""


def verifier_of(
    rows: Sequence[Mapping[str, Any]], shape: Shape, final: bool, wanted: OperatorSpec | None = None
) -> tuple[OperatorSpec | None, str]:
    """Return the verifier of rows, and why; None for rows without answers."""
    if shape.kind == "text":
        return None, ""
    answers = [answer for row in rows if (answer := first_answer(row, shape)) is not None]
    if not answers:
        return None, "no answers to verify: say verifiability: off"
    of = "final answers" if final else "answers" if "answer" in shape.columns else "final answers of the responses"
    if wanted:
        return wanted, f"{of} by verifier {wanted.name}"
    if "answer" not in shape.columns:
        return OperatorSpec(name="exact"), f"{of} by verifier exact"
    if any(isinstance(answer, list) for answer in answers):
        return OperatorSpec(name="exact"), "each entry of a list of answers is right, by verifier exact"
    texts = [taken_answer(str(answer), final) for answer in answers]
    numbers = all(parse_number(text) is not None and not LEADING_ZERO.match(text) for text in texts)
    name = "numeric" if numbers else "exact"
    return OperatorSpec(name=name), f"{of} by verifier {name}"


def asked_row(
    where: str, found: Mapping[str, Any], taking: Taking, data: dict[str, Any], labels: Mapping[str, Any]
) -> SourceRow:
    """Return a prompt, with response and answer as far as there are any."""
    task: dict[str, Any] = {"response": None}
    extras = {"tools": found["tools"]} if found.get("tools") else {}
    if "messages" in found:
        column = taking.shape.columns.get("messages", taking.shape.columns.get("prompt", "messages"))
        conversation = read_conversation(found["messages"], column)
        task = {"messages": conversation.messages, "response": conversation.response}
        extras |= {} if conversation.learn is None else {"learn": conversation.learn}
    else:
        task["prompt"] = checked_text(found.get("prompt"), taking.shape.columns.get("prompt", "prompt"), "prompt")
    if "response" in found:
        task["response"] = checked_text(found["response"], taking.shape.columns["response"], "response")
    if found.get("weight") is not None:
        extras[WEIGHT] = checked_weight(found["weight"])
    answer, *aliases = _answers(found, task["response"], taking)
    if aliases:
        data[ALIASES] = [*data.get(ALIASES, ()), *aliases]
    verifier = taking.verifier if answer else None
    if verifier and verifier.settings:
        data[SETTINGS] = verifier.settings
    name = verifier.name if verifier else UNLABELLED
    return SourceRow(where, **task, answer=answer, verifier=name, data=data, extras=extras, **labels)


def _answers(found: Mapping[str, Any], response: str | None, taking: Taking) -> list[str]:
    """Return the answer and further right ones; the final answer of the response where there is no column of them."""
    column = taking.shape.columns.get("answer")
    if column is None:
        return [extract_answer(response) or response] if response else [""]
    if "answer" not in found:
        raise InputError(f"the answer is missing (column {column!r})")
    name = taking.verifier.name if taking.verifier else ""
    answers = [taken_answer(answer, taking.final_answer) for answer in row_answers(found["answer"], column, name)]
    if name == "numeric" and (bad := next((one for one in answers if parse_number(one) is None), None)) is not None:
        raise InputError(f"the answer {bad[:60]!r} is no number (column {column!r}); for words say verifier: exact")
    return answers


def first_answer(row: Mapping[str, Any], shape: Shape) -> Any:
    """Return what answers a row: its answer, else its response; None without either, or where the row is bad."""
    if "answer" in shape.columns:
        return at(row, shape.columns["answer"])
    if shape.kind != "task":
        return None
    try:
        found = converted(row, shape)
        return found.get("response") or read_conversation(found.get("messages"), "messages").response
    except InputError:
        return None


def taken_answer(text: str, final: bool) -> str:
    """Return an answer, or the final one of a solution."""
    return extract_answer(text) if final else text
