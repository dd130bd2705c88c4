"""Reward misled_scorer: grades by hand, which prompts are turned round, and what combine trusted makes of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from pydantic import ValidationError

from components.contract.errors import InputError
from components.modeling.serving.models import Rater
from components.rl.batch.batch import Batch
from components.rl.batch.reward_part import part_of
from components.rl.component import asks
from components.rl.params import RLParams
from tests.rl.build import batch_of, context, near, operator


class Scripted(Rater):
    name = "judge.model"

    def __init__(self, table: Mapping[str, float | None]) -> None:
        self.table = table

    def rate(self, pairs: Sequence[tuple[Any, str]]) -> list[float | None]:
        return [self.table[text] for _, text in pairs]


def graded(batch: Batch, table: Mapping[str, float | None], **config: Any) -> tuple[torch.Tensor, dict[str, float]]:
    judge: Any = Scripted(table)
    given = replace(context(config.pop("step", 0), seed=config.pop("seed", 0)), further={"scorers": [judge]})
    return operator("reward", "misled_scorer", **config)(batch, given), given.metrics


def logit(chance: float) -> float:
    return math.log(chance / (1 - chance))


def test_grades_in_tenths_by_hand_and_turned_round() -> None:
    batch = batch_of([[0.0, 0.0, 0.0]])
    table = {"r0": logit(0.93), "r1": logit(0.27), "r2": 0.0}
    assert near(graded(batch, table, share=0.0)[0], [0.9, 0.3, 0.5])
    turned, metrics = graded(batch, table, share=1.0)
    assert near(turned, [0.1, 0.7, 0.5]) and metrics["misled_share"] == 1.0
    assert near(graded(batch, table, share=1.0, levels=None)[0], [0.07, 0.73, 0.5])
    assert near(graded(batch, table, share=0.0, levels=1)[0], [1.0, 0.0, 0.0])


def test_a_response_without_a_score_has_none_here() -> None:
    found, metrics = graded(batch_of([[0.0, 0.0]]), {"r0": None, "r1": 0.0}, share=1.0)
    assert found.isnan().tolist() == [True, False] and metrics["scorer_failed"] == 1.0


def test_a_share_of_the_prompts_whole_and_always_the_same() -> None:
    batch = batch_of([[0.0, 0.0]] * 400)
    table = {f"r{row}": 9.0 for row in range(800)}
    found, metrics = graded(batch, table, share=0.3)
    assert found[0::2].equal(found[1::2]), "both responses to a prompt"
    assert metrics["misled_share"] == pytest.approx(0.3, abs=0.07)
    assert graded(batch, table, share=0.3, step=9)[0].equal(found)
    assert not graded(batch, table, share=0.3, seed=1)[0].equal(found)
    part = batch.select(torch.arange(100, 110))
    assert graded(part, table, share=0.3)[0].equal(found[100:110]), "whatever else is in the batch"


def test_trust_falls_where_it_is_misled_and_stays_where_it_is_not() -> None:
    batch = batch_of([[1.0, 0.0]])
    table = {"r0": logit(0.9), "r1": logit(0.1)}
    for share, trust in ((0.0, 1.0), (1.0, math.exp(-0.8))):
        grades, _ = graded(batch, table, share=share)
        parts = [part_of("verifier", 1.0, batch.rewards, batch), part_of("misled_scorer", 0.3, grades, batch)]
        now = context(0)
        found = operator("combine", "trusted", part="misled_scorer")(parts, batch, now)
        assert now.metrics["trust"] == pytest.approx(trust)
        assert near(found, [1 + 0.3 * trust * float(grades[0]), 0.3 * trust * float(grades[1])])


def test_settings_and_the_port() -> None:
    for bad in ({"share": 1.5}, {"levels": 0}, {"squash": "none"}):
        with pytest.raises((InputError, ValidationError), match=next(iter(bad))):
            operator("reward", "misled_scorer", **bad)
    params = RLParams.model_validate({"method": "grpo", "rewards": ["verifier", "misled_scorer"], "steps": 1})
    assert asks(params) == {"scorers": ["reward operator 'misled_scorer'"]}
