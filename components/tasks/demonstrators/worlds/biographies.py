"""Chains of source biographies, hop by hop, or straight to the person."""

from __future__ import annotations

import random

from pydantic import Field

from components.contract.errors import InputError
from components.contract.params import Params
from components.tasks.answers import ANSWER_OPEN
from components.tasks.demonstrators.chain_sum_trace import THINK_OPEN
from components.tasks.domains.worlds.people import people, person
from components.tasks.item import Item

FIRST_TOLD = "N"


class BiographiesTraceConfig(Params):
    """How careful the worker is, and whether the hops are written."""

    think: bool = True
    """Whether the hops precede the answer: `<think>kob B lim lim F tas<answer>tas`, else `<answer>tas`."""
    hop_error_rate: float = Field(default=0.0, ge=0, le=1)
    """Probability that a hop ends at somebody else; later hops go on from there."""


def biographies(item: Item, rng: random.Random, *, config: BiographiesTraceConfig) -> str:
    """Write a chain; after a wrong hop, what is remembered is of the wrong person, and what is told is anybody."""
    hops, count, world = (item.data.get(key) for key in ("hops", "people", "world"))
    if not (isinstance(hops, list) and hops and isinstance(count, int) and isinstance(world, int)):
        raise InputError(f"demonstrator biographies: item {item.id} is not of source biographies (hops: {hops!r:.80})")
    names = people(count, world)
    at, written = hops[0].split()[0], []
    for hop in hops:
        true, relation, reached = hop.split()
        if true != at:
            remembered = relation < FIRST_TOLD
            reached = person(at, relation, names, world) if remembered else _other(at, at, names, rng)
        if rng.random() < config.hop_error_rate:
            reached = _other(at, reached, names, rng)
        written.append(f"{at} {relation} {reached}")
        at = reached
    thought = f"{THINK_OPEN}{' '.join(written)}" if config.think else ""
    return f"{thought}{ANSWER_OPEN}{at}"


def _other(one: str, other: str, names: tuple[str, ...], rng: random.Random) -> str:
    return rng.choice([name for name in names if name not in (one, other)])
