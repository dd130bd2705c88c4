"""People and their relations: some facts are to be remembered, others are told in the prompt, and a chain needs both.

`kob B F?` asks for the F of the B of kob. Relations of one half are remembered: a hash of the world says who it is, so
that every dataset agrees and a corpus of `task: remembered` can teach them. Those of the other half are told, fresh in
each prompt: `lim F tas. rok F mer. kob B F?`. Source: From Atomic to Composite (2025); sizes are reconstructed.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import product
from typing import Literal, Self

from pydantic import Field, model_validator

from components.contract.artifacts import hash_parts
from components.contract.errors import InputError
from components.tasks.domains.made import Made, MadeConfig, made_rows
from components.tasks.domains.worlds.people import MAX_PEOPLE, people, person
from components.tasks.seeds import derive_rng
from components.tasks.source import SourceRequest, SourceRows

VERIFIER = "exact"
Task = Literal["remembered", "told", "composite"]
Chain = tuple[str, ...]
TEST_SHARE = 0.2
"""Share of the starts of a trained chain that `iid` asks for and `train` never does."""


class BiographiesConfig(MadeConfig):
    """How large the world is, what is asked, and for composites: which of the four disjoint splits."""

    people: int = Field(default=60, ge=4, le=MAX_PEOPLE)
    """People of the world, each with a name of three letters."""
    relations: int = Field(default=4, ge=2, le=9)
    """Relations of each half: remembered ones are called A, B, ..., told ones N, O, ..."""
    task: Task = "composite"
    """Remembered hops, told hops, or a chain with at least one of each."""
    atom_hops: int = Field(default=1, ge=1, le=6)
    """Most hops of a chain of remembered hops alone, or of told ones alone; fewer are drawn as well."""
    split: Literal["train", "iid", "composition", "zero_shot"] = "train"
    """Of composites. train and iid: chains that are trained, from other people. composition: chains that never are, of
    relations that are. zero_shot: chains with a relation that is in no trained chain."""
    min_hops: int = Field(default=2, ge=2, le=6)
    """Fewest hops of a composite."""
    max_hops: int = Field(default=3, ge=2, le=6)
    """Most hops: the knob of difficulty."""
    unseen: float = Field(default=0.3, gt=0, lt=1)
    """Share of the chains of trained relations that `composition` asks for."""
    fresh: int = Field(default=1, ge=1)
    """Relations of each half that only `zero_shot` has in a chain."""
    distractors: int = Field(default=1, ge=0, le=20)
    """Told facts beside those that are needed, about others."""
    world: int = 0
    """Seed of the world: its people, who is whose, and which chains are trained."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        self.check_order("biographies", ("min_hops", "max_hops"))
        if self.fresh >= self.relations:
            raise InputError(
                f"source biographies: {self.fresh} of {self.relations} relations fresh leave none to train"
            )
        if self.task == "composite" and self.atom_hops > 1:
            raise InputError("source biographies: atom_hops is of tasks remembered and told; composites have max_hops")
        if self.task != "composite" and self.split != "train":
            raise InputError(f"source biographies: task {self.task} has no split {self.split}; composites have")
        return self

    def verifiers(self) -> tuple[str, ...]:
        """Return the verifier of all rows."""
        return (VERIFIER,)


def biographies(request: SourceRequest, *, config: BiographiesConfig) -> SourceRows:
    """Draw questions without end. `data` holds the `hops` of the chain in order, `kob B lim`, and the `facts` told."""
    asked, names = chains(config), people(config.people, config.world)
    if not asked:
        raise InputError(f"source biographies: no chain of this world is {config.split}; change `world` or `unseen`")

    def draw(rng: random.Random) -> Made | None:
        start, chain = rng.choice(names), rng.choice(asked)
        if config.task == "composite" and config.split in ("train", "iid"):
            tested = derive_rng(config.world, "test", start, *chain).random() < TEST_SHARE
            if tested != (config.split == "iid"):
                return None
        return _made(start, chain, names, rng, config)

    return made_rows("biographies", request, config, VERIFIER, draw)


def remembered(config: BiographiesConfig) -> list[str]:
    """Return the relations that are remembered."""
    return [chr(ord("A") + place) for place in range(config.relations)]


def told(config: BiographiesConfig) -> list[str]:
    """Return the relations that are told in prompts."""
    return [chr(ord("N") + place) for place in range(config.relations)]


def chains(config: BiographiesConfig) -> list[Chain]:
    """Return the chains of relations that are asked for, sorted."""
    own, given = remembered(config), told(config)
    if config.task != "composite":
        alike = own if config.task == "remembered" else given
        return [chain for hops in range(1, config.atom_hops + 1) for chain in product(alike, repeat=hops)]
    fresh = {*own[-config.fresh :], *given[-config.fresh :]}
    found = []
    for hops in range(config.min_hops, config.max_hops + 1):
        for chain in product([*own, *given], repeat=hops):
            if set(chain) & set(own) and set(chain) & set(given) and _split_of(chain, fresh, config) == config.split:
                found.append(chain)
    return found


def _split_of(chain: Chain, fresh: set[str], config: BiographiesConfig) -> str:
    """Return the split of a chain; iid shares its chains with train."""
    if fresh & set(chain):
        return "zero_shot"
    if int(hash_parts(str(config.world), "chain", *chain)[:8], 16) / (1 << 32) < config.unseen:
        return "composition"
    return config.split if config.split in ("train", "iid") else "train"


def _made(start: str, chain: Chain, names: Sequence[str], rng: random.Random, config: BiographiesConfig) -> Made:
    known = set(remembered(config))
    at, hops, facts = start, [], {}
    for relation in chain:
        if relation in known:
            reached = person(at, relation, names, config.world)
        else:
            reached = facts.setdefault((at, relation), rng.choice([name for name in names if name != at]))
        hops.append(f"{at} {relation} {reached}")
        at = reached
    relations = sorted({relation for _, relation in facts})
    for _ in range(config.distractors if facts else 0):
        other, relation = rng.choice(names), rng.choice(relations)
        facts.setdefault((other, relation), rng.choice([name for name in names if name != other]))
    context = [f"{one} {relation} {other}." for (one, relation), other in facts.items()]
    rng.shuffle(context)
    question = f"{start} {' '.join(chain)}?"
    data = {"hops": hops, "facts": context, "people": config.people, "world": config.world}
    return Made(f"{start} {' '.join(chain)}", " ".join([*context, question]), at, data)
