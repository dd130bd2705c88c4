"""Worked items of source beams: moments about the pin, then the sum of the forces."""

from __future__ import annotations

import random
from fractions import Fraction

from pydantic import Field

from components.contract.errors import InputError
from components.contract.params import Params
from components.tasks.answers import ANSWER_OPEN
from components.tasks.demonstrators.chain_sum_trace import THINK_OPEN
from components.tasks.domains.worlds.beams import Beam
from components.tasks.item import Item


class BeamsTraceConfig(Params):
    """How careful the worker is, and whether the work is written."""

    think: bool = True
    """Whether the work precedes: `<think>3*2+4*5=26 26/6=13/3 7-13/3=8/3<answer>8/3 13/3`."""
    error_rate: float = Field(default=0.0, ge=0, le=1)
    """Probability that the moment is wrong by one; what follows goes on from there."""


def beams(item: Item, rng: random.Random, *, config: BeamsTraceConfig) -> str:
    """Write both reactions."""
    pin, roller, loads = (item.data.get(key) for key in ("pin", "roller", "loads"))
    if not (isinstance(pin, int) and isinstance(roller, int) and isinstance(loads, list) and loads):
        raise InputError(f"demonstrator beams: item {item.id} is not of source beams (loads: {loads!r:.80})")
    beam = Beam(pin, roller, tuple((size, place) for size, place in loads))
    moment = beam.moment
    if rng.random() < config.error_rate:
        moment += rng.choice((-1, 1))
    span, total = roller - pin, sum(size for size, _ in beam.loads)
    right = Fraction(moment, span)
    left = total - right
    products = "".join(f"{size:+d}*{place - pin}" for size, place in beam.loads).removeprefix("+")
    work = f"{products}={moment} {moment}/{span}={right} {total}-{right}={left}".replace("--", "+")
    thought = f"{THINK_OPEN}{work}" if config.think else ""
    return f"{thought}{ANSWER_OPEN}{left} {right}"
