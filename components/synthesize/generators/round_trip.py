"""Solutions described in words and rebuilt from the words: what can be rebuilt is described well."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pydantic import Field, model_validator

from components.synthesize.asking import ask
from components.synthesize.config import GeneratorConfig
from components.synthesize.context import GeneratorContext
from components.synthesize.made import Dropped, Made
from components.synthesize.parsing import unusable
from components.synthesize.sifting import judged
from components.synthesize.templates import check_template, fill
from components.synthesize.writers import Writers
from components.tasks.answers import ANSWER_OPEN
from components.tasks.item import Item, item_id

NOT_REBUILT = "not_rebuilt"


class RoundTripConfig(GeneratorConfig):
    """How solutions are described, and how sure the way back must be."""

    describe: str = "{answer}\nDescribe in words what this does."
    """Asks for a description; {answer} is the item's solution, and {prompt} may be shown."""
    rebuild: str = "{description}"
    """The new prompt, which asks for the solution again; {description} is replaced."""
    num_descriptions: int = Field(default=1, ge=1)
    """Descriptions that each writer writes of a solution."""
    min_rebuilt: float = Field(default=0.5, ge=0, le=1)
    """Share of the texts written to a description that the item's verifier must accept. 0 keeps every description, with
    the item's own answer where nothing was rebuilt: the comparison."""

    @model_validator(mode="after")
    def _templates_are_whole(self) -> RoundTripConfig:
        check_template("describe", self.describe, needs=("answer",), may=("prompt",))
        check_template("rebuild", self.rebuild, needs=("description",))
        return self


def round_trip(
    items: Sequence[Item], writers: Writers, context: GeneratorContext, *, config: RoundTripConfig
) -> Iterator[Made | Dropped]:
    """Yield a new item for each description from which the solution could be rebuilt, with the first right rebuild.

    The answer, the verifier and its data stay: only the words of the prompt are new. Zhu et al. 2025 (CodeV-R1).
    """
    drawing = context.drawing(config, "describe", num_samples=config.num_descriptions)
    described = writers.write([ask(item, "describe", config.describe) for item in items], drawing)
    pairs = []
    for item, texts in zip(items, described, strict=True):
        for one in texts:
            if reason := unusable(one):
                yield Dropped(reason)
            elif one is not None:
                pairs.append((item, one.text.strip(), one.writer))
    asked = [ask(item, "rebuild", config.rebuild, shown={"description": text}) for item, text, _ in pairs]
    rebuilt = judged([item for item, _, _ in pairs], writers.write(asked, context.drawing(config, "rebuild")))
    for (item, text, writer), found in zip(pairs, rebuilt, strict=True):
        right = [one for one in found if one.kept]
        share = len(right) / max(1, len(found))
        if share < config.min_rebuilt or (config.min_rebuilt and not right):
            yield Dropped(NOT_REBUILT)
            continue
        prompt = fill(config.rebuild, description=text)
        solution = right[0].text if right else f"{ANSWER_OPEN}{item.answer}"
        new = {"id": item_id(item.domain, prompt, item.answer), "prompt": prompt, "messages": ()}
        yield Made(item.model_copy(update=new), solution, {"of": item.id, "rebuilt": share, "quality": writer})
