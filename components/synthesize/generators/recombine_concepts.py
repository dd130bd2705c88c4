"""New questions that combine concepts of items, with the answer that most solvers give."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from pydantic import Field, model_validator

from components.synthesize.asking import ask
from components.synthesize.config import GeneratorConfig
from components.synthesize.context import GeneratorContext
from components.synthesize.made import Dropped, Made
from components.synthesize.parsing import body, unusable
from components.synthesize.templates import check_template
from components.synthesize.writers import Text, Writers
from components.tasks.answers import extract_answer
from components.tasks.item import Item, item_id

NO_CONCEPTS, NO_MAJORITY = "no_concepts", "no_majority"


class RecombineConceptsConfig(GeneratorConfig):
    """Where concepts are, how they are combined, and how many solvers must agree."""

    kind = "prompts"
    key: str = Field(default="concepts", min_length=1)
    """Key of an item's data that lists its concepts."""
    num_concepts: int = Field(default=2, ge=1)
    """Concepts of a new question: one of the item itself, the others of the whole stage's items."""
    template: str = "Write a new question in which you need: {concepts}. An example of one of them: {prompt}"
    """Asks for a question; {concepts} is replaced, and {prompt} may be shown. It may be put in <question> tags."""
    verifier: str = Field(default="exact", min_length=1)
    """Verifier of the new items."""
    num_solutions: int = Field(default=8, ge=1)
    """Solutions that each writer writes to a new question."""
    agreement: float = Field(default=0.5, gt=0, le=1)
    """Share of the solutions that must give the most frequent answer, which becomes the reference."""

    @model_validator(mode="after")
    def _template_is_whole(self) -> RecombineConceptsConfig:
        check_template("template", self.template, needs=("concepts",), may=("prompt", "answer"))
        return self


def recombine_concepts(
    items: Sequence[Item], writers: Writers, context: GeneratorContext, *, config: RecombineConceptsConfig
) -> Iterator[Made | Dropped]:
    """Yield new questions on concepts of the items, answered by a majority of the solutions.

    Liang et al. 2025 (SwS): the items are those that a policy fails (`pass_rate` of the stage), and their concepts its
    weaknesses; consistency of at least a half stands for a verified answer.
    """
    known = sorted({name for item in context.pool for name in concepts_of(item, config.key)})
    able = [item for item in items if concepts_of(item, config.key)]
    yield from [Dropped(NO_CONCEPTS)] * (len(items) - len(able))
    chosen = {item.id: _combined(item, known, context, config) for item in able}
    asked = [
        ask(item, "ask", config.template, shown={"concepts": ", ".join(chosen[item.id])}, names=chosen[item.id])
        for item in able
    ]
    texts = writers.write(asked, context.drawing(config, "ask"))
    fresh: list[tuple[Item, dict[str, object]]] = []
    for item, written in zip(able, texts, strict=True):
        for one in written:
            if reason := unusable(one):
                yield Dropped(reason)
            elif one is not None:
                prompt, marks = body(one.text, "question"), {"concepts": chosen[item.id], "quality": one.writer}
                new = Item(
                    id=item_id(item.domain, prompt, ""),
                    domain=item.domain,
                    prompt=prompt,
                    answer="",
                    verifier=config.verifier,
                    data={config.key: chosen[item.id]},
                )
                fresh.append((new, {"of": item.id, **marks}))
    drawing = context.drawing(config, "solve", num_samples=config.num_solutions)
    solutions = writers.write([new for new, _ in fresh], drawing)
    for (new, marks), found in zip(fresh, solutions, strict=True):
        yield _answered(new, marks, found, config.agreement)


def concepts_of(item: Item, key: str) -> list[str]:
    """Return the concepts that an item's data lists, sorted; what is no text is left out."""
    found = item.data.get(key)
    return sorted({name for name in found if isinstance(name, str) and name}) if isinstance(found, list) else []


def _combined(
    item: Item, known: Sequence[str], context: GeneratorContext, config: RecombineConceptsConfig
) -> list[str]:
    """Return one concept of the item and others of all items, drawn by chance."""
    rng = context.rng("concepts", item.id)
    first = rng.choice(concepts_of(item, config.key))
    others = [name for name in known if name != first]
    return [first, *rng.sample(others, min(config.num_concepts - 1, len(others)))]


def _answered(new: Item, marks: dict[str, object], found: Sequence[Text | None], agreement: float) -> Made | Dropped:
    given = Counter(extract_answer(one.text) for one in found if one is not None and one.finished)
    given.pop("", None)
    answer, votes = given.most_common(1)[0] if given else ("", 0)
    share = votes / max(1, len(found))
    if not answer or share < agreement:
        return Dropped(NO_MAJORITY)
    identifier = item_id(new.domain, new.prompt, answer)
    return Made(new.model_copy(update={"id": identifier, "answer": answer}), None, {**marks, "agreement": share})
