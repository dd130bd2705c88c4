"""Judges of a synthesize stage, asked as judges are everywhere: with what is judged behind a fence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from components.contract.errors import InputError
from components.modeling.serving.models import Asked, Drawing, Likelihood, Written, as_text
from components.synthesize.asking import REQUEST
from components.synthesize.writers import TaskWriter
from components.tasks.item import UNLABELLED, Item, text_id

JUDGING = "judge"
"""Name of the request, for programs that judge, and the domain of its item."""


class JudgeModel:
    """A model, an endpoint or a program at input `judges`, as a judge asks it."""

    def __init__(self, writer: TaskWriter) -> None:
        self.name, self._writer = writer.name, writer
        self.control_marks: Sequence[str] = getattr(writer, "control_marks", ())
        """Of the judge's tokenizer: they are broken in what it is shown."""

    def write(self, prompts: Sequence[Asked], drawing: Drawing) -> list[list[Written | None]]:
        """Return texts to every request."""
        return self._writer.write([_request(as_text(prompt)) for prompt in prompts], drawing) if prompts else []

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[Likelihood | None]:
        """Raise InputError: judges of this stage write."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise InputError(f"judge {self.name}: judges of synthesize write their verdicts: take reading mark or json")


def _request(text: str) -> Item:
    name, data = text_id(JUDGING, text), {REQUEST: JUDGING}
    return Item(id=name, domain=JUDGING, prompt=text, answer="", verifier=UNLABELLED, data=data)
