"""The shape of a file's rows, told by the columns of its first ones and by what they hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from components.contract.errors import InputError
from components.tasks.shapes.convert import TRUTHS
from components.tasks.shapes.further import kept_and_left
from components.tasks.shapes.roles import Columns, RoleColumns
from components.tasks.shapes.shape import Kind, Role, Shape
from components.tasks.shapes.values import is_chat

Format = Literal["auto", "preference", "unpaired", "messages", "completion", "question_answer", "prompts", "text"]
SOLUTION = "solution"
"""A column with an answer, or with the way to one."""
FINAL = ("\\boxed{", "####")
"""Marks of a final answer in a solution."""
RIVALS = ("question", "problem", "query", "instruction")
"""Columns of which two could each be the prompt."""


def recognised(rows: Sequence[Mapping[str, Any]], said: Columns, wanted: Format = "auto") -> Shape:
    """Return the shape of rows; `said` are the columns that the recipe names, `wanted` the format where it names one.

    Raises InputError, with the line to write, for what cannot be decided.
    """
    return _Recogniser(rows, said, wanted).shape()


class _Recogniser(RoleColumns):
    def __init__(self, rows: Sequence[Mapping[str, Any]], said: Columns, wanted: Format) -> None:
        super().__init__(rows, said)
        self._wanted = wanted

    def shape(self) -> Shape:
        wants = self._wanted
        if wants == "preference" or (wants == "auto" and self._find("chosen") and self._find("rejected")):
            return self._pairs()
        if wants == "unpaired" or (wants == "auto" and self._is_unpaired()):
            return self._unpaired()
        if self._holds("completions") and self._holds("labels") and wants == "auto":
            raise InputError(
                "these rows are steps with labels, which no source draws; give the file to the stage itself: "
                "in: {dataset: ./FILE}"
            )
        if wants == "text" or self._said.get("text") or (wants == "auto" and self._is_text()):
            return self._made("texts", "text", ("text",))
        return self._task()

    def _pairs(self) -> Shape:
        self._need("chosen", "rejected")
        self._take("prompt", "system", "domain", "weight")
        if "prompt" not in self._found and not self._whole_sides():
            self._take("messages")
        if self._found.get("prompt") == "instruction":
            self._take("input", "history")
        asked = {"prompt", "messages"} & self._found.keys()
        name = "TRL preference pairs" if self._is_trl("chosen", "rejected") else "preference pairs"
        made = self._made(name if asked else f"{name} with an implicit prompt", "pairs")
        if "messages" not in made.kept:
            return made
        kept = tuple(column for column in made.kept if column != "messages")
        return replace(made, kept=kept, left={**made.left, "messages": "the pair holds what it repeats"})

    def _is_trl(self, *roles: Role) -> bool:
        """Return whether columns have the names that TRL gives them."""
        names = {"response": "completion"}
        asked = self._found.get("prompt", "prompt") == "prompt" and "messages" not in self._found
        return asked and all(self._found.get(role) == names.get(role, role) for role in roles)

    def _whole_sides(self) -> bool:
        side = self._value(self._found["chosen"])
        return is_chat(side) and not isinstance(side, Mapping) and len(side) > 1

    def _is_unpaired(self) -> bool:
        column = self._find("label")
        answered = self._find("response") or self._find("messages")
        return bool(column and answered) and all(
            value.strip().lower() in TRUTHS if isinstance(value, str) else value in (0, 1)
            for value in self._values(column or "")
            if not isinstance(value, list | Mapping)
        )

    def _unpaired(self) -> Shape:
        self._need("label")
        self._take("response", "prompt", "domain", "weight", "system")
        if "prompt" not in self._found or "response" not in self._found:
            self._found.pop("prompt", None)
            self._found.pop("response", None)
            self._need("messages")
        elif self._found["prompt"] == "instruction":
            self._take("input", "history")
        trl = "TRL " if self._is_trl("response", "label") else ""
        return self._made(f"{trl}unpaired preference", "labelled")

    def _is_text(self) -> bool:
        if not self._holds("text") or any(self._find(role) for role in ("prompt", "messages", "response", "answer")):
            return False
        if label := self._find("label"):
            raise self._undecided(
                "a text with a label could be an example, or text (format: text)", prompt="text", answer=label
            )
        return True

    def _task(self) -> Shape:
        self._take("domain", "weight", "system", "tools")
        if self._said.get("prompt") is None and (self._said.get("messages") or self._find("messages")):
            return self._conversations()
        self._prompt()
        self._take("response")
        self._answer()
        final = self._is_solution(self._found.get("answer"))
        if final and "response" not in self._found:
            self._found["response"] = self._found["answer"]
        chat = is_chat(self._value(self._found["prompt"]))
        return self._made(self._task_name(chat, final), "task", final=final, chat=chat)

    def _conversations(self) -> Shape:
        self._need("messages")
        if not is_chat(self._value(self._found["messages"])):
            raise InputError(
                f"column {self._found['messages']!r} holds no list of messages with role and content, or from and value"
            )
        first = self._value(self._found["messages"])
        self._take("answer")
        sharegpt = isinstance(first, list) and "from" in first[0]
        return self._made("ShareGPT conversations" if sharegpt else "conversations", "task", chat=True)

    def _prompt(self) -> None:
        """Find the prompt; raise InputError, with the line to write, where there is none or there could be two."""
        if self._said.get("prompt") is None and not self._holds("prompt"):
            rivals = [name for name in RIVALS if self._holds(name)]
            if len(rivals) > 1:
                raise self._undecided(f"{' and '.join(rivals)} could each be the prompt", prompt=rivals[0])
        self._take("prompt")
        if "prompt" not in self._found:
            raise self._undecided("no column is known as a prompt", prompt="...", answer="...")
        if self._found["prompt"] == "instruction":
            self._take("input", "history")

    def _answer(self) -> None:
        """Find the answer, a column of its own or a solution; raise InputError where only guesses are left."""
        self._take("answer")
        if self._holds(SOLUTION) and self._said.get("answer") is None:
            if "answer" not in self._found:
                self._found["answer"] = SOLUTION
            elif "response" not in self._found and isinstance(self._value(SOLUTION), str):
                self._found["response"] = SOLUTION
        if not {"answer", "response"} & self._found.keys() and self._wanted != "prompts":
            if (label := self._find("label")) and isinstance(self._value(label), str | int | float):
                self._found["answer"] = label
                return
            self._ask_for_an_answer()

    def _ask_for_an_answer(self) -> None:
        """Raise InputError if another column could be the answer; `info` of verifiers' environments may hold it."""
        if self._holds("info"):
            return
        further, _ = kept_and_left(self._rows, self._names, self._found.values())
        if guesses := [name for name in further if isinstance(self._value(name), str | int | float)]:
            hint = "; if none is, say format: prompts"
            raise self._undecided(
                f"no column is known as an answer{hint}", prompt=self._found["prompt"], answer=guesses[0]
            )

    def _is_solution(self, column: str | None) -> bool:
        """Return whether most values of a column mark a final answer in a longer text."""
        values = [value for value in self._values(column or "") if isinstance(value, str)]
        marked = [value for value in values if any(mark in value for mark in FINAL)]
        return 2 * len(marked) > len(values)

    def _task_name(self, chat: bool, final: bool) -> str:
        found = self._found
        if found.get("answer") == "reward_model.ground_truth":
            return "verl's rows"
        if found["prompt"] == "instruction" and found.get("response") == "output":
            return "Alpaca's instructions"
        if "info" in self._names and self._said.get("prompt") is None:
            return "rows of verifiers' environments"
        if final:
            return "problems with worked solutions"
        if "answer" in found:
            return "chat prompts and answers" if chat else "questions and answers"
        if "response" in found:
            trl = "TRL " if self._is_trl("response") else ""
            return f"{trl}{'chat ' if chat else ''}prompts and completions"
        return "chat prompts without answers" if chat else "prompts without answers"

    def _made(
        self, name: str, kind: Kind, needs: tuple[Role, ...] = (), *, final: bool = False, chat: bool = False
    ) -> Shape:
        self._need(*needs)
        taken = {column for role, column in self._found.items() if role != "domain" or column == "domain"}
        kept, left = kept_and_left(self._rows, self._names, taken)
        return Shape(name, kind, dict(self._found), kept, left, final, chat)
