"""Who writes: models, endpoints and programs, asked alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from components.contract.errors import InputError, OperatorFailed
from components.contract.operators import Bound
from components.modeling.serving.models import Drawing, Scorer, Writer, Written
from components.tasks.item import Item
from components.tasks.seeds import derive_rng


@dataclass(frozen=True)
class Text:
    """A text and who wrote it: hostile input."""

    text: str
    writer: str
    finished: bool


class TaskWriter(Protocol):
    """Writes texts to items."""

    name: str

    def write(self, items: Sequence[Item], drawing: Drawing) -> list[list[Written | None]]:
        """Return `num_samples` texts to every item; None for one that is refused."""


class ModelWriter:
    """A model or an endpoint that reads the prompt, or the messages, of an item."""

    def __init__(self, model: Writer) -> None:
        self.name, self._model = model.name, model
        self.control_marks: Sequence[str] = getattr(model, "control_marks", ())
        """Of its tokenizer, where it is in this process: judged texts must not hold them."""

    def write(self, items: Sequence[Item], drawing: Drawing) -> list[list[Written | None]]:
        """Ask for all texts at once; raise InputError for an item with open turns before its last."""
        for item in items:
            if any(message.is_open for message in item.messages):
                raise InputError(f"item {item.id}: writers write one turn, and its messages leave more than one open")
        return self._model.write([item.task for item in items], drawing)


class ProgramWriter:
    """A demonstrator: it reads the item itself, its answer and data included."""

    def __init__(self, program: Bound, name: str) -> None:
        self.name, self._program = name, program

    def write(self, items: Sequence[Item], drawing: Drawing) -> list[list[Written | None]]:
        """Write text by text; the same item, seed and number give the same text. Temperature has no meaning here."""
        return [[self._one(item, drawing.seed, number) for number in range(drawing.num_samples)] for item in items]

    def _one(self, item: Item, seed: int, number: int) -> Written:
        text = self._program(item, derive_rng(seed, self.name, item.id, number))
        if not isinstance(text, str):
            raise OperatorFailed(f"demonstrator {self.name}: wrote {len(text)} turns where one text is asked for")
        return Written(text, finished=True)


@dataclass(frozen=True)
class Writers:
    """All writers of a stage."""

    teachers: Sequence[TaskWriter] = ()
    judges: Sequence[TaskWriter] = ()
    scorers: Sequence[Scorer] = ()

    def write(self, items: Sequence[Item], drawing: Drawing, *, judges: bool = False) -> list[list[Text | None]]:
        """Return the texts of all teachers, or judges, to each item: `num_samples` of each, in their order."""
        found: list[list[Text | None]] = [[] for _ in items]
        for writer in self.judges if judges else self.teachers:
            for texts, more in zip(found, writer.write(items, drawing) if items else (), strict=bool(items)):
                texts += [None if one is None else Text(one.text, writer.name, one.finished) for one in more]
        return found
