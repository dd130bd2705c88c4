"""Rewards of a step: parts in the history, NaN as a failed verification, items without labels."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from components.contract.errors import InputError
from components.contract.operators import Bound
from components.contract.registry import operators
from components.rl.batch.batch import FAILED, UNSCORED, Batch
from components.rl.configs import RewardConfig
from components.rl.labels import check_labelled, labels_read
from components.rl.params import RLParams
from components.rl.slots import step_slots
from components.rl.step.context import SlotContext
from components.rl.step.loop import Loop
from components.tasks.verify import Outcome, verify
from tests.rl.build import operator
from tests.rl.tiny_loop import items, loop_of, write_model

LETTERS = {"name": "pattern", "pattern": "[a-m]"}


class OddConfig(RewardConfig):
    """A toy: 1 for an even number of characters, NaN for none."""


def toy_even(batch: Batch, context: SlotContext, *, config: OddConfig) -> Tensor:
    """Return [S]: NaN for short responses."""
    return torch.tensor([torch.nan if len(text) < 3 else float(len(text) % 2 == 0) for text in batch.texts])


def toy_every_other(batch: Batch, context: SlotContext, *, config: OddConfig) -> Tensor:
    """Return [S]: NaN for every other response, and 1."""
    return torch.where(torch.arange(len(batch.texts)) % 2 == 0, 1.0, torch.nan)


def toy_each_token(batch: Batch, context: SlotContext, *, config: OddConfig) -> Tensor:
    """Return [N]: a tenth at each token."""
    return torch.full((batch.num_tokens,), 0.1)


class AnswersConfig(RewardConfig):
    """A toy that reads answers."""

    reads: ClassVar[frozenset[str]] = frozenset({"answers"})


def toy_answers(batch: Batch, context: SlotContext, *, config: AnswersConfig) -> Tensor:
    """Return [S]: the length of the answer."""
    return torch.tensor([float(len(batch.prompts[group].item.answer)) for group in batch.group.tolist()])


@pytest.fixture(autouse=True)
def _toys() -> None:
    for name in ("toy_even", "toy_every_other", "toy_each_token", "toy_answers"):
        operators("reward").add(name, f"{__name__}:{name}", origin="test")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model"))


def weights(loop: Loop) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in loop.policies.trained.state().items()}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return all(torch.equal(value, other[name]) for name, value in one.items())


def test_every_part_is_in_the_history_before_its_weight(folder: Path) -> None:
    rewards = ["verifier", LETTERS | {"weight": 0.5}, {"name": "overlong", "weight": 0}]
    row = loop_of(folder, method="dr-grpo", rewards=rewards).step()
    assert row["reward_mean"] == pytest.approx(row["reward_verifier"] + 0.5 * row["reward_pattern"])
    assert row["reward_verifier"] == row["pass_rate"]
    assert row["reward_overlong"] <= 0
    twice = loop_of(folder, method="dr-grpo", rewards=[LETTERS, {"name": "pattern", "pattern": "z"}]).step()
    assert {"reward_pattern", "reward_pattern_2"} <= twice.keys()


def test_a_gate_changes_what_is_learned(folder: Path) -> None:
    given: dict[str, Any] = {"method": "dr-grpo", "rewards": ["verifier", LETTERS], "max_new_tokens": 3}
    plain, gated = (loop_of(folder, **given, **more) for more in ({}, {"combine": {"name": "gate", "by": ["pattern"]}}))
    rows = plain.step(), gated.step()
    assert rows[0]["reward_pattern"] == rows[1]["reward_pattern"]
    assert rows[0]["reward_mean"] > rows[1]["reward_mean"]
    assert not same(weights(plain), weights(gated))


@pytest.mark.parametrize("combine", ["sum", "standardised", "product", "minimum"])
def test_a_reward_that_is_only_watched_fails_no_response(folder: Path, combine: str) -> None:
    given: dict[str, Any] = {"method": "dr-grpo", "combine": combine}
    counted, plain, watched = (
        loop_of(folder, rewards=[LETTERS, *more], **given)
        for more in (["toy_every_other"], [], [{"name": "toy_every_other", "weight": 0}])
    )
    rows = [loop.step() for loop in (counted, plain, watched)]
    assert [row["num_failed"] for row in rows] == [8, 0, 0]
    assert rows[1]["reward_mean"] == rows[2]["reward_mean"]
    assert rows[0]["reward_toy_every_other"] == rows[2]["reward_toy_every_other"] == 1  # of those that it can judge
    assert same(weights(plain), weights(watched))


def test_a_part_that_a_gate_names_fails_responses_without_a_weight(folder: Path) -> None:
    rewards, gate = [LETTERS, {"name": "toy_every_other", "weight": 0}], {"name": "gate", "by": ["toy_every_other"]}
    row = loop_of(folder, method="dr-grpo", rewards=rewards, combine=gate).step()
    assert row["num_failed"] == 8


def test_nan_is_a_failed_verification(folder: Path) -> None:
    loop = loop_of(folder, method="dr-grpo", rewards=["verifier", "toy_even"], combine="standardised")
    collector = loop.collector()
    collector.settings = loop.phase.settings
    drawn = collector.draw([loop.pool[0], loop.pool[1]], 16)
    kept = collector.score(drawn)
    short = [len(text) < 3 for text in drawn.texts]
    assert any(short) and not all(short)
    (seen,) = collector.seen
    assert (seen.outcomes == FAILED).tolist() == short
    assert seen.rewards.isnan().tolist() == short
    assert kept.texts == tuple(text for text, gone in zip(drawn.texts, short, strict=True) if not gone)
    assert bool(kept.rewards.isfinite().all())
    row = short.index(True)
    assert collector.reason(seen, row) == "reward toy_even is NaN"
    assert loop.state.ledger.get("p0") is not None
    assert sum(visit.num_failed for visit in loop.state.ledger.visits()) == sum(short)
    whole = loop_of(folder, method="dr-grpo", rewards=["verifier", "toy_even"], group_size=16, max_new_tokens=2)
    metrics = whole.step()
    assert 0 < metrics["num_failed"] < metrics["num_samples"]


def test_rewards_of_tokens_are_summed(folder: Path) -> None:
    row = loop_of(folder, method="dr-grpo", rewards=["toy_each_token"]).step()
    assert row["reward_mean"] == pytest.approx(0.1 * row["length_mean"], abs=1e-6)
    assert row["reward_toy_each_token"] == pytest.approx(row["reward_mean"])
    critic = loop_of(folder, method="ppo", rewards=["verifier", "toy_each_token"])
    assert critic.step()["reward_mean"] > critic.step()["reward_verifier"]


def test_unlabelled_items_train_on_rewards_alone(folder: Path) -> None:
    bare = [item.unlabelled() for item in items()]
    loop = loop_of(folder, pool=bare, method="dr-grpo", rewards=[LETTERS], steps=2)
    before = weights(loop)
    rows = [loop.step() for _ in range(2)]
    assert not same(before, weights(loop))
    assert all("pass_rate" not in row and "signal_share" not in row and row["num_failed"] == 0 for row in rows)
    assert all(0 < row["reward_mean"] < 1 for row in rows)
    assert loop.state.record.right_rows() == []
    assert {row["outcome"] for row in loop.state.record.rows()} == {"unscored"}
    visit = loop.state.ledger.visits()[0]
    assert (visit.num_right, visit.num_wrong, visit.num_failed) == (0, 0, 0) and visit.reward_squares > 0
    mixed = loop_of(folder, pool=[items()[0].unlabelled(), *items()[1:]], method="dr-grpo", rewards=[LETTERS])
    collector = mixed.collector()
    collector.score(collector.draw(mixed.pool, 2))
    assert (collector.seen[0].outcomes == UNSCORED).tolist() == [True, True, *[False] * 14]


def test_an_unlabelled_item_is_never_judged() -> None:
    verdict = verify(items()[0].unlabelled(), "a")
    assert verdict.outcome is Outcome.FAILED and "unlabelled" in verdict.detail


def test_operators_that_read_labels_are_refused_where_there_are_none() -> None:
    with pytest.raises(InputError, match="1 of 8 prompts are unlabelled, such as p0, and reward operator 'verifier'"):
        check_labelled([items()[0].unlabelled(), *items()[1:]], [operator("reward", "verifier")])
    check_labelled([items()[0].unlabelled()], [operator("reward", **LETTERS)])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"method": "grpo"}, "reward operator 'verifier' reads outcomes"),
        ({"rewards": [LETTERS], "method": "dapo"}, "filter operator 'dynamic_sampling' reads outcomes"),
        ({"rewards": [LETTERS], "method": "adcl-egsr"}, "reads outcomes"),
        ({"rewards": ["toy_answers"], "method": "dr-grpo"}, "'toy_answers' reads answers, and `labels: ignored`"),
    ],
)
def test_labels_ignored_is_checked_before_anything_runs(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(said)):
        RLParams.model_validate(given | {"labels": "ignored"})
    RLParams.model_validate({"method": "dr-grpo", "rewards": [LETTERS], "labels": "ignored"})


TELLS = re.compile(r"\.outcomes\b|\.pass_rate\b|num_right|\.probe\(|value_steps|complete\(|rl\.curricula")
ONLY_LABELS = {
    "trusted": "num_right_s is of a part of the reward",
    "objective_weights": "softmax of rl.curricula",
    "verify_or_majority": "votes stand in where a prompt has no outcome",
    "trajectory_match": "outcomes make its metrics, and choose nothing",
}


def test_no_reader_of_outcomes_is_left_undeclared() -> None:
    silent = []
    for slot in step_slots().values():
        for name in operators(slot).names():
            path = Path(*slot.package.split(".")) / f"{name}.py"
            if not path.exists() or not TELLS.search(path.read_text()) or name in ONLY_LABELS:
                continue
            function = operators(slot).get(name)
            config = function.__globals__[function.__annotations__["config"]]
            bound = Bound(slot=slot, name=name, function=function, config=config.model_construct())
            if "outcomes" not in labels_read(bound):
                silent.append(f"{slot} {name}")
    assert silent == []
