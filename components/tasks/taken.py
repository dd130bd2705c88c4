"""Foreign rows as rows of a source: converted by their shape, then checked as ours are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from components.contract.errors import InputError
from components.contract.operators import OperatorSpec
from components.tasks.answers import extract_answer
from components.tasks.conversations import read_conversation
from components.tasks.item import UNLABELLED
from components.tasks.row_kinds.labelled import labelled_of
from components.tasks.row_kinds.preferences import preference_of
from components.tasks.shapes.convert import converted
from components.tasks.shapes.shape import Shape
from components.tasks.shapes.values import at
from components.tasks.source import SourceRow
from components.tasks.table_values import checked_text, row_answers
from components.tasks.tables import ALIASES, further_data
from components.tasks.verifiers.numeric import parse_number
from components.tasks.verify import SETTINGS
from components.tasks.weights import WEIGHT, checked_weight

ASKED = ("prompt", "messages", "domain", "id")
"""What of a judged row stands in fields of its own."""


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


def taken_row(where: str, row: Mapping[str, Any], taking: Taking) -> SourceRow:
    """Return the row of a source; raise InputError for what is missing or cannot be read."""
    found = converted(row, taking.shape)
    data = {**found.pop("data", {}), **further_data(row, taking.data)}
    labels = {"domain": _label(found.get("domain"), "domain"), "id": None}
    if taking.id_column:
        labels["id"] = checked_text(at(row, taking.id_column), taking.id_column, "id")
    if taking.shape.kind == "text":
        return SourceRow(where, text=checked_text(found.get("text"), "text", "text"), **labels)
    if taking.shape.kind != "task":
        return _judged(where, found, taking.shape, data, labels)
    return _asked(where, found, taking, data, labels)


def _judged(
    where: str, found: Mapping[str, Any], shape: Shape, data: dict[str, Any], labels: Mapping[str, Any]
) -> SourceRow:
    """Return a prompt that holds a pair, or a response with its label."""
    row = {**{name: value for name, value in data.items() if name not in ASKED}, **found}
    judged = preference_of(row) if shape.kind == "pairs" else labelled_of(row)
    task = {"prompt": judged.task} if isinstance(judged.task, str) else {"messages": judged.task}
    kept = {name: value for name, value in judged.row().items() if name not in ASKED}
    more = {name: value for name, value in data.items() if name not in kept}
    return SourceRow(where, **task, verifier=UNLABELLED, data=more, extras=kept, **labels)


def _asked(
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


def _label(value: Any, column: str) -> str | None:
    return None if value is None else checked_text(value, column, column)
