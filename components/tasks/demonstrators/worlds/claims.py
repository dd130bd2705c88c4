"""Verdicts on items of source claims: the sum is worked out, then the claim is judged by what came out."""

from __future__ import annotations

import random

from pydantic import Field

from components.contract.errors import InputError
from components.contract.params import Params
from components.tasks.answers import ANSWER_OPEN, extract_answer
from components.tasks.demonstrators.chain_sum_trace import ChainSumTraceConfig, chain_sum_trace
from components.tasks.domains.worlds.statements import Statement
from components.tasks.item import Item


class ClaimsTraceConfig(Params):
    """How careful the worker is, and what a guess says."""

    think: bool = True
    """Whether the sum precedes the verdict: `<think>4+7=11 11-3=8<answer>true`, else `<answer>true`."""
    step_error_rate: float = Field(default=0.0, ge=0, le=1)
    """Probability that a step of the sum is wrong; the verdict is then about the wrong number."""
    guess: float = Field(default=0.0, ge=0, le=1)
    """Probability that the verdict is a guess, whatever the sum came to."""
    lean: float = Field(default=0.5, ge=0, le=1)
    """Probability that a guess says true."""


def claims(item: Item, rng: random.Random, *, config: ClaimsTraceConfig) -> str:
    """Write a proof by calculation, and `true` or `false`."""
    relation, operand = item.data.get("relation"), item.data.get("operand")
    if not (isinstance(relation, str) and isinstance(operand, int)):
        raise InputError(f"demonstrator claims: item {item.id} is not of source claims (relation: {relation!r:.80})")
    worked = chain_sum_trace(item, rng, config=ChainSumTraceConfig(step_error_rate=config.step_error_rate))
    verdict = Statement(relation, operand).holds(int(extract_answer(worked)))  # type: ignore[arg-type]
    if rng.random() < config.guess:
        verdict = rng.random() < config.lean
    thought = worked.rpartition(ANSWER_OPEN)[0] if config.think else ""
    return f"{thought}{ANSWER_OPEN}{'true' if verdict else 'false'}"
