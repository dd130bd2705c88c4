"""Reward robust_score: mixtures of heads by hand and by brute force, refusals, and a real ensemble in a step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from transformers import AutoModelForSequenceClassification

from components.contract.errors import InputError, UnknownName
from components.contract.heads import Head
from components.modeling.loading.load import load_policy
from components.modeling.scorers.layout import LOG_STD, Layout
from components.modeling.scorers.network import RewardNetwork
from components.modeling.serving.models import Opinions, Rater
from components.modeling.serving.reward_model import LocalRewardModel
from components.rl.batch.batch import Batch
from components.rl.component import heads
from components.rl.params import RLParams
from tests.rl.build import batch_of, context, near, operator
from tests.rl.tiny_loop import loop_of, write_model

ENSEMBLE = Layout(outputs=6, reward="mean_of_gaussians")


class Scripted(Rater):
    """Three heads by a table of texts."""

    def __init__(self, name: str, table: dict[str, Opinions | None]) -> None:
        self.name, self.table = name, table

    def opinions(self, pairs: Sequence[tuple[Any, str]]) -> list[Opinions | None]:
        return [self.table[text] for _, text in pairs]


def answers(texts: list[str]) -> Batch:
    return replace(batch_of([[0.0] * len(texts)], [[2] * len(texts)]), texts=tuple(texts))


def reward(batch: Batch, models: list[Any], **config: Any) -> tuple[torch.Tensor, dict[str, float]]:
    given = replace(context(0), further={"scorers": models})
    return operator("reward", "robust_score", **config)(batch, given), given.metrics


SURE = Opinions((1.0, 3.0, 2.0), (0.0, -1.0, 0.5))
"""The second head is the surest: nominal 3, worst 1."""


def test_a_mixture_of_the_surest_and_the_harshest_head_by_hand() -> None:
    model = Scripted("a", {"x": SURE, "y": Opinions((-1.0, -1.0, -1.0), (2.0, 1.0, 0.0))})
    found, metrics = reward(answers(["x", "y"]), [model])
    assert near(found, [0.6 * 3 + 0.4 * 1, -1.0])
    assert metrics["robust_penalty"] == pytest.approx(1.0)  # 2 and 0
    assert metrics["robust_disagreement"] == pytest.approx(math.sqrt(2 / 3) / 2)
    assert metrics["robust_failed"] == 0
    assert near(reward(answers(["x"]), [model], nominal=1.0)[0], [3.0])
    assert near(reward(answers(["x"]), [model], nominal=0.0)[0], [1.0])


@given(
    told=st.lists(
        st.lists(st.tuples(st.floats(-9, 9, width=32), st.floats(-3, 3)), min_size=2, max_size=5),
        min_size=1,
        max_size=4,
    ),
    nominal=st.floats(0, 1),
)
def test_any_mixture_is_that_of_a_loop_and_never_above_the_nominal(told: list[Any], nominal: float) -> None:
    size = min(map(len, told))
    told = [one[:size] for one in told]
    table = {
        str(at): Opinions(tuple(mean for mean, _ in one), tuple(log for _, log in one)) for at, one in enumerate(told)
    }
    found, _ = reward(answers(list(table)), [Scripted("a", dict(table))], nominal=nominal)
    for value, one in zip(found.tolist(), told, strict=True):
        surest = min(one, key=lambda head: head[1])[0]  # the first of equally sure ones
        worst = min(mean for mean, _ in one)
        assert value == pytest.approx(nominal * surest + (1 - nominal) * worst, abs=1e-5)
        assert worst - 1e-5 <= value <= surest + 1e-5


def test_what_has_no_score_is_a_failed_verification_and_counts_over_a_step() -> None:
    model: Any = Scripted("a", {"x": SURE, "y": None})
    given = replace(context(0), further={"scorers": [model]})
    scorer = operator("reward", "robust_score")
    assert scorer(answers(["x", "y"]), given).isnan().tolist() == [False, True]
    assert given.metrics["robust_penalty"] == pytest.approx(2.0), "means are over what was scored"
    assert scorer(answers(["y", "y"]), given).isnan().tolist() == [True, True]
    assert given.metrics["robust_failed"] == 3.0


def test_the_ensemble_is_named_where_there_are_several_models() -> None:
    models = [Scripted("a.model", {"x": SURE}), Scripted("b.model", {"x": Opinions((0.0, 1.0), (0.0, 1.0))})]
    with pytest.raises(InputError, match=r"robust_score asks one model, and input scorers has a\.model, b\.model"):
        reward(answers(["x"]), models)
    assert near(reward(answers(["x"]), models, model="b.model", nominal=1.0)[0], [0.0])
    with pytest.raises(UnknownName, match=r"model at input scorers.*'b\.modle'"):
        reward(answers(["x"]), models, model="b.modle")


def test_bad_settings_and_the_port() -> None:
    for bad in (-0.1, 1.1):
        with pytest.raises((InputError, ValidationError), match="nominal"):
            operator("reward", "robust_score", nominal=bad)
    params = RLParams.model_validate({"method": "ppo", "rewards": ["robust_score"], "steps": 1})
    assert heads(params)["scorers"] == {Head.SCORE}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    write_model(folder / "policy")
    for name, layout in (("ensemble", ENSEMBLE), ("single", Layout())):
        policy = load_policy(folder / "policy")
        network = RewardNetwork(policy, layout, seed=3)
        with torch.no_grad():
            network.head.weight.mul_(30)
        policy.save(folder / name)
    return folder


def local(folder: Path, name: str) -> LocalRewardModel:
    return LocalRewardModel(f"{name}.model", folder / name, device="cpu", dtype="float32")


def test_a_real_ensemble_says_what_transformers_computes(folder: Path) -> None:
    model = local(folder, "ensemble")
    theirs = AutoModelForSequenceClassification.from_pretrained(folder / "ensemble", dtype=torch.float32).eval()
    pairs = [("say 0", text) for text in ("3", "1 + 2 = 3", "3<|eos|> and more")]
    readings, _ = model._readings(pairs)
    assert sorted(readings) == [0, 1]
    told, rated = model.opinions(pairs), model.rate(pairs)
    assert told[2] is None and rated[2] is None, "a mark of the template is not read past"
    for at, reading in readings.items():
        with torch.no_grad():
            logits = theirs(input_ids=torch.tensor([reading.tokens])).logits[0].tolist()
        one = told[at]
        assert one is not None and near(list(one.means), logits[:3], 1e-4)
        assert near(list(one.log_stds), [LOG_STD * math.tanh(value / LOG_STD) for value in logits[3:]], 1e-4)
        assert rated[at] == pytest.approx(sum(logits[:3]) / 3, abs=1e-4)


def test_a_step_learns_from_a_real_ensemble(folder: Path) -> None:
    rewards = ["robust_score", {"name": "score", "weight": 0.0}]
    loop = loop_of(folder / "policy", method="rloo", rewards=rewards)
    loop.further = {"scorers": [local(folder, "ensemble")]}
    before = loop.policies.trained.state()
    metrics = loop.step()
    assert metrics["reward_mean"] == pytest.approx(metrics["reward_robust_score"])
    assert metrics["robust_penalty"] > 0 and metrics["robust_disagreement"] > 0
    after = loop.policies.trained.state()
    assert any(not torch.equal(after[name], value) for name, value in before.items())


def test_a_model_without_heads_is_refused_in_one_line(folder: Path) -> None:
    with pytest.raises(InputError, match=r"^single\.model has no heads with means and spreads.*gaussian_ensemble$"):
        reward(answers(["3"]), [local(folder, "single")])
