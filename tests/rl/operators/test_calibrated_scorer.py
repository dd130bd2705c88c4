"""Reward calibrated_scorer and guidance baseline_answers: by hand, whose answer is the baseline, and whole steps."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from pydantic import ValidationError

from components.contract.errors import InputError, UnknownName
from components.modeling.serving.models import Rater
from components.rl.batch.batch import FOREIGN, Batch
from components.rl.component import asks, heads
from components.rl.labels import labels_read
from components.rl.params import RLParams
from tests.rl.build import batch_of, context, near, operator
from tests.rl.tiny_loop import items, loop_of, write_model
from tests.rl.trajectories import conversations


class Lengths(Rater):
    """Rates a text by its length, times a factor; what is in `silent` it cannot rate."""

    def __init__(self, name: str, factor: float = 1.0, silent: Sequence[str] = ()) -> None:
        self.name, self.factor, self.silent = name, factor, silent
        self.asked: list[Any] = []

    def rate(self, pairs: Sequence[tuple[Any, str]]) -> list[float | None]:
        self.asked += [text for _, text in pairs]
        return [None if text in self.silent else self.factor * len(text) for _, text in pairs]


class Start:
    """A collector whose starting policy answers with stars, as many as the prompt's number says."""

    def __init__(self) -> None:
        self.metrics: dict[str, float] = {}
        self.drawn: list[str] = []

    def draw(self, prompts: Sequence[Any], num_samples: int, **given: Any) -> Any:
        assert num_samples == 1 and given["temperature"] == 0.0 and given["to_learn"] is False
        assert given["policy"] == "start" and given["generator"] is not None
        self.drawn += [prompt.item.id for prompt in prompts]
        return SimpleNamespace(texts=tuple("*" * int(prompt.item.answer) for prompt in prompts))


def answers(texts: list[list[str]], domains: str = "") -> Batch:
    batch = batch_of([[0.0] * len(group) for group in texts])
    prompts = tuple(
        replace(prompt, item=prompt.item.model_copy(update={"domain": domain}))
        for prompt, domain in zip(batch.prompts, domains or "A" * len(texts), strict=True)
    )
    return replace(batch, prompts=prompts, texts=tuple(text for group in texts for text in group))


def now_of(models: Sequence[Rater], **changes: Any) -> Any:
    return context(
        0, collector=Start(), policies=SimpleNamespace(start="start"), further={"scorers": models}, **changes
    )


def further() -> Any:
    """What a loop is given in the place of real reward models."""
    return {"scorers": [Lengths("rm.model")]}


def sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value))


def test_by_hand_against_what_the_start_answers() -> None:
    now = now_of([Lengths("rm.model")])
    found = operator("reward", "calibrated_scorer")(answers([["", "xx"], ["x", "xxxx"]]), now)
    # baselines: no star for prompt 0, one star for prompt 1
    assert near(found, [0.5, sigmoid(2), 0.5, sigmoid(3)])
    assert now.metrics == {"scorer_failed": 0.0, "calibrated_A": pytest.approx(float(found.mean()))}


def test_a_demonstrator_gives_the_baseline_of_its_domain() -> None:
    now = now_of([Lengths("rm.model")])
    config = {"demonstrators": {"B": {"name": "gold", "markup": False}}}
    found = operator("reward", "calibrated_scorer", **config)(answers([["xx"], ["xx"]], "AB"), now)
    assert near(found, [sigmoid(2), sigmoid(1)]), "no star, and the reference '1'"
    assert now.collector.drawn == ["p0"] and set(now.metrics) == {"scorer_failed", "calibrated_A", "calibrated_B"}


def test_each_domain_has_its_own_reward_model() -> None:
    models = [Lengths("a.model"), Lengths("b.model", -2.0)]
    config = {"places": {"B": 1}, "model": "a.model"}
    found = operator("reward", "calibrated_scorer", **config)(answers([["xx"], ["xx"]], "AB"), now_of(models))
    assert near(found, [sigmoid(2), sigmoid(-2 * (2 - 1))])
    mean = operator("reward", "calibrated_scorer")(answers([["xx"]]), now_of(models))
    assert near(mean, [sigmoid(2 * (1 - 2) / 2)]), "without a name all at the port"
    with pytest.raises(UnknownName, match=r"model at input scorers.*'c\.model'"):
        operator("reward", "calibrated_scorer", model="c.model")(answers([["x"]]), now_of(models))
    with pytest.raises(InputError, match=r"place 2, and input scorers has 2, from place 0: a\.model, b\.model"):
        operator("reward", "calibrated_scorer", places={"A": 2})(answers([["x"]]), now_of(models))
    with pytest.raises((InputError, ValidationError), match="places"):
        operator("reward", "calibrated_scorer", places={"A": -1})


def test_a_constant_of_the_reward_model_changes_nothing() -> None:
    class Shifted(Lengths):
        def rate(self, pairs: Sequence[tuple[Any, str]]) -> list[float | None]:
            return [None if value is None else value + 100 for value in super().rate(pairs)]

    batch = answers([["", "xx"], ["x", "xxxx"]])
    scores = [operator("reward", "calibrated_scorer")(batch, now_of([made("rm")])) for made in (Lengths, Shifted)]
    assert near(scores[0], scores[1].tolist())


def test_what_cannot_be_rated_is_a_failed_verification() -> None:
    now = now_of([Lengths("rm.model", silent=["?", "*"])])
    found = operator("reward", "calibrated_scorer")(answers([["x", "?"], ["x", "xx"]]), now)
    assert found.isnan().tolist() == [False, True, True, True], "of prompt 1 the baseline has no score"
    assert now.metrics["calibrated_A"] == pytest.approx(sigmoid(1))
    json.dumps(now.memory, allow_nan=False)


@pytest.mark.parametrize("keep", [0, 1, 4096])
def test_baselines_are_rated_once_and_kept_as_json(keep: int) -> None:
    model, batch = Lengths("rm.model"), answers([["x"], ["xx"]])
    reward = operator("reward", "calibrated_scorer", keep=keep)
    first = now_of([model])
    found = reward(batch, first)
    again = now_of([model], memory=json.loads(json.dumps(first.memory, sort_keys=True)))
    assert reward(batch, again).tolist() == found.tolist()
    assert len(again.collector.drawn) == max(0, 2 - keep)


def test_external_responses_are_rewarded_and_not_measured() -> None:
    batch = answers([["x", "xx"]])
    batch = replace(batch, author=torch.where(batch.to_tokens(torch.tensor([False, True])), FOREIGN, batch.author))
    now = now_of([Lengths("rm.model")])
    found = operator("reward", "calibrated_scorer")(batch, now)
    assert near(found, [sigmoid(1), sigmoid(2)]) and now.metrics["calibrated_A"] == pytest.approx(sigmoid(1))


def test_conversations_are_refused() -> None:
    with pytest.raises(InputError, match="calibrated_scorer works on single responses"):
        operator("reward", "calibrated_scorer")(conversations([[1.0]], [[[(0, 2), (1, 2)]]]), now_of([Lengths("rm")]))


def test_a_reward_model_is_asked_for_and_labels_are_read_by_demonstrators_alone() -> None:
    plain, told = (
        RLParams.model_validate({"method": "rloo", "rewards": [{"name": "calibrated_scorer", **given}], "steps": 1})
        for given in ({}, {"demonstrators": {"A": "gold"}})
    )
    assert asks(plain) == {"scorers": ["reward operator 'calibrated_scorer'"]}
    assert {head.value for head in heads(plain)["scorers"]} == {"score", "steps"}
    reads = [
        labels_read(next(bound for bound in given.operators() if bound.name == "calibrated_scorer"))
        for given in (plain, told)
    ]
    assert reads == [frozenset(), frozenset({"answers"})]


STEP: dict[str, Any] = {"method": "rloo", "rewards": ["calibrated_scorer", {"name": "verifier", "weight": 0.0}]}


def test_a_step_against_the_start_draws_as_many_tokens_as_without_a_baseline(tmp_path: Path) -> None:
    write_model(tmp_path / "policy")
    told = []
    for rewards in (STEP["rewards"], ["scorer"]):
        loop = loop_of(tmp_path / "policy", **{**STEP, "rewards": rewards})
        loop.further = further()
        told.append(loop.step())
    assert told[0]["num_tokens"] == told[1]["num_tokens"] and told[0]["num_samples"] == told[1]["num_samples"]
    assert 0 < told[0]["calibrated_A"] < 1 and 0 < told[0]["calibrated_B"] < 1


CONSTRAINED: dict[str, Any] = {"combine": {"name": "constrained_rank", "by": {"verifier": 1.0}}}


def groups_of(tmp_path: Path, **config: Any) -> tuple[Batch, dict[str, float], list[str]]:
    """Return the batch behind the guidance of one step over prompts that the policy seldom solves, and the answers."""
    write_model(tmp_path / "policy")
    pool = items(8, data={"solution": "abc"})
    given = {"name": "baseline_answers", "demonstrators": {"A": "recorded", "B": {"name": "gold"}}, **config}
    loop = loop_of(tmp_path / "policy", pool=pool, **STEP, **CONSTRAINED, guidance=given)
    loop.further = further()
    kept: list[Batch] = []
    loop.journal = lambda got, step: kept.append(got.batch)
    metrics = loop.step()
    return kept[0], metrics, [prompt.item.domain for prompt in kept[0].prompts]


def test_a_baseline_answer_joins_where_nothing_satisfies(tmp_path: Path) -> None:
    batch, metrics, domains = groups_of(tmp_path)
    for group, domain in enumerate(domains):
        rows = (batch.group == group).nonzero().squeeze(1).tolist()
        own = [row for row in rows if not bool(batch.external[row])]
        others = [row for row in rows if bool(batch.external[row])]
        assert len(others) == int(all(float(batch.rewards[row]) <= 0 for row in own))
        for row in others:
            # recorded: "abc", which the verifier accepts; gold: "x", which it refuses
            assert (float(batch.rewards[row]) > 0) is (domain == "A")
    assert metrics["baselines"] == float(batch.external.sum())


def test_every_group_of_some_domains_may_have_one(tmp_path: Path) -> None:
    batch, metrics, domains = groups_of(tmp_path, when="always", domains=["A"])
    external = {domains[int(batch.group[row])] for row in batch.external.nonzero().squeeze(1).tolist()}
    assert external == {"A"} and metrics["baselines"] == domains.count("A") == float(batch.external.sum())


def test_the_baseline_of_guidance_is_that_of_the_reward(tmp_path: Path) -> None:
    """Its calibrated reward is 1/2, whoever wrote it."""
    write_model(tmp_path / "policy")
    loop = loop_of(tmp_path / "policy", **STEP, guidance={"name": "baseline_answers", "when": "always"})
    loop.further = further()
    kept: list[Batch] = []
    loop.journal = lambda got, step: kept.append(got.batch)
    loop.step()
    (batch,) = kept
    assert int(batch.external.sum()) == 4 and batch.rewards[batch.external].tolist() == [0.5] * 4
