"""A writer whose texts are given: rows of generators can then be worked out by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from components.modeling.serving.models import Drawing, Written
from components.synthesize.context import GeneratorContext
from components.synthesize.writers import TaskWriter, Writers
from components.tasks.item import Item

Say = Callable[[Item, int], str | None]


@dataclass
class Scripted(TaskWriter):
    """Says what `say` returns for an item and a sample's number; None refuses, a text that ends in "..." is cut."""

    say: Say
    name: str = "scripted"
    asked: list[tuple[str, Drawing]] = field(default_factory=list)

    def write(self, items: Sequence[Item], drawing: Drawing) -> list[list[Written | None]]:
        """Write as told, and remember what was asked."""
        self.asked += [(item.prompt, drawing) for item in items]
        return [[self._one(item, number) for number in range(drawing.num_samples)] for item in items]

    def _one(self, item: Item, number: int) -> Written | None:
        text = self.say(item, number)
        return None if text is None else Written(text, finished=not text.endswith("..."))


def scripted(say: Say, judge: Say | None = None) -> Writers:
    """Return one teacher, and perhaps one judge."""
    return Writers(teachers=[Scripted(say)], judges=[Scripted(judge, "judge")] if judge else [])


def item(name: str, prompt: str, answer: str, verifier: str = "numeric", **data: object) -> Item:
    """Return an item of domain d."""
    return Item(id=name, domain="d", prompt=prompt, answer=answer, verifier=verifier, data=data)


CONTEXT = GeneratorContext(seed=3, count=4)
