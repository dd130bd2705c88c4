"""Instructions that need several skills at once, with their responses, from a list of skills alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

from pydantic import Field, model_validator

from components.contract.errors import InputError
from components.synthesize.asking import ask
from components.synthesize.config import GeneratorConfig
from components.synthesize.context import GeneratorContext
from components.synthesize.made import Dropped, Made
from components.synthesize.parsing import UNPARSED, tagged, unusable
from components.synthesize.templates import check_template
from components.synthesize.writers import Writers
from components.tasks.item import UNLABELLED, Item, item_id

Skill = Annotated[str, Field(min_length=1)]


class SkillMixConfig(GeneratorConfig):
    """Which skills, how many at once, and how they are asked for."""

    seeded = False
    labelled = False
    skills: tuple[Skill, ...] = Field(min_length=1)
    """The skills."""
    queries: tuple[Skill, ...] = ("an instruction",)
    """Kinds of instruction; one is drawn for each row."""
    k: int = Field(default=2, ge=1)
    """Skills of a row: each choice of k different ones is as likely as any other."""
    template: str = (
        "Write {query} that needs these skills: {skills}. Put it in <instruction></instruction>, and the best "
        "response to it in <response></response>."
    )
    """Asks for a row; {skills} and {query} are replaced."""
    domain: str = Field(default="instructions", min_length=1)
    """Domain of the rows."""
    num_samples: int = Field(default=1, ge=1)
    """Rows that each writer writes to one choice of skills."""

    @model_validator(mode="after")
    def _is_whole(self) -> SkillMixConfig:
        check_template("template", self.template, needs=("skills",), may=("query",))
        if not self.queries:
            raise InputError("queries: name at least one kind of instruction")
        if len(set(self.skills)) != len(self.skills):
            raise InputError("skills: one is named twice")
        if self.k > len(self.skills):
            raise InputError(f"k: {self.k} skills at once of {len(self.skills)} that are named")
        return self


def skill_mix(
    items: Sequence[Item], writers: Writers, context: GeneratorContext, *, config: SkillMixConfig
) -> Iterator[Made | Dropped]:
    """Yield instructions with responses, each made for k skills drawn by chance.

    Kaur et al. 2024 (Instruct-SkillMix).
    """
    rng = context.rng("skills")
    asked, mixes = [], []
    for number in range(context.count):
        mix, query = rng.sample(config.skills, config.k), rng.choice(config.queries)
        name = f"{context.seed}-{number}"
        blank = Item(id=name, domain=config.domain, prompt="", answer="", verifier=UNLABELLED)
        asked.append(ask(blank, "mix", config.template, shown={"skills": ", ".join(mix), "query": query}, names=mix))
        mixes.append(mix)
    for mix, written in zip(mixes, writers.write(asked, context.drawing(config, "mix")), strict=True):
        for one in written:
            reason = unusable(one)
            parts = tagged(one.text, "instruction", "response") if one is not None and not reason else None
            if one is None or parts is None:
                yield Dropped(reason or UNPARSED)
                continue
            prompt = parts["instruction"]
            identifier = item_id(config.domain, prompt, "")
            item = Item(id=identifier, domain=config.domain, prompt=prompt, answer="", verifier=UNLABELLED)
            yield Made(item, parts["response"], {"skills": mix, "quality": one.writer})
