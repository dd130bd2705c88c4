"""Selector reward_gap: pairs split by how far a reward model sees their sides apart, through the stage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from components.contract.errors import InputError
from components.contract.job import Resources
from components.curate.component import COMPONENT, asks, memory
from components.curate.operators.selectors.reward_gap import RewardGapConfig, quantile
from components.curate.params import CurateParams
from components.modeling.loading.load import load_policy
from components.modeling.scorers.layout import Layout
from components.modeling.scorers.network import RewardNetwork
from components.modeling.serving.reward_model import LocalRewardModel
from components.tasks.rows import read_rows
from pipelines.recipe.recipe import load_recipe
from tests.stages.reward_model.data import pairs
from tests.stages.supervised_data import base_model
from tests.support.stage_context import Finished, run_stage, write_jsonl


@pytest.fixture(scope="module")
def scorer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    policy = load_policy(base_model(folder / "policy"))
    network = RewardNetwork(policy, Layout(), seed=3)
    with torch.no_grad():
        network.head.weight.mul_(30)
    policy.save(folder / "scorer")
    return folder / "scorer"


def rows(count: int = 10) -> list[dict[str, Any]]:
    return [{**row, "answer": "", "verifier": "unlabelled"} for row in pairs(count)]


def select(
    folder: Path, scorer: Path, made: list[dict[str, Any]], source: str = "artifact_pairs", **selector: Any
) -> Finished:
    params = {
        "sources": [{"source": source}],
        "selectors": [{"name": "reward_gap", **selector}],
        "shuffle": False,
        "verifiability": "off",
        "dedup": {"exact": False},
    }
    given = {"dataset": write_jsonl(folder / "rows", made), "scorers": [scorer]}
    return run_stage(COMPONENT, folder / "run", params=params, inputs=given)


def kept(finished: Finished) -> dict[str, float]:
    return {row["id"]: row["scores"]["reward_gap"] for row in read_rows(finished.outputs["dataset"])}


def by_hand(scorer: Path, made: list[dict[str, Any]]) -> dict[str, float]:
    model = LocalRewardModel("rm", scorer, device="cpu", dtype="float32")
    gaps = {}
    for row in made:
        ((better,), (worse,)) = (model.rate([(row["prompt"], row[side])]) for side in ("chosen", "rejected"))
        assert better is not None and worse is not None
        gaps[row["id"]] = abs(better - worse)
    return gaps


def test_both_halves_are_those_of_the_gaps_and_share_no_pair(scorer: Path, tmp_path: Path) -> None:
    gaps = by_hand(scorer, rows())
    in_order = sorted(gaps, key=lambda name: gaps[name])
    easy = kept(select(tmp_path / "easy", scorer, rows()))
    difficult = kept(select(tmp_path / "difficult", scorer, rows(), keep="difficult"))
    assert set(difficult) == set(in_order[:5]) and set(easy) == set(in_order[5:])
    assert {**easy, **difficult} == {name: pytest.approx(gap, abs=1e-4) for name, gap in gaps.items()}


def test_a_threshold_is_in_units_of_the_reward(scorer: Path, tmp_path: Path) -> None:
    gaps = by_hand(scorer, rows())
    below, above = sorted(gaps.values())[6:8]
    cut = (below + above) / 2
    found = kept(select(tmp_path, scorer, rows(), threshold=cut))
    assert set(found) == {name for name, gap in gaps.items() if gap >= cut}


def test_a_side_that_cannot_be_scored_is_counted(scorer: Path, tmp_path: Path) -> None:
    made = rows()
    made[0]["rejected"] = "3<|eos|> and now anything"  # hostile: spells the end mark
    finished = select(tmp_path, scorer, made)
    assert "pair-0" not in kept(finished)
    assert finished.metrics["dropped_unscored"] == 1


def test_rows_that_are_no_pairs_get_one_line(scorer: Path, tmp_path: Path) -> None:
    plain = [{key: value for key, value in row.items() if key != "rejected"} for row in rows(2)]
    with pytest.raises(InputError, match=r"row pair-0 is no pair of texts"):
        select(tmp_path, scorer, plain, "artifact")
    with pytest.raises(InputError, match=r"rows\.jsonl:1: no rejected: a row of preferences has"):
        select(tmp_path / "pairs", scorer, plain)


def test_pairs_keep_item_and_sides_and_those_without_an_item_have_no_answer(scorer: Path, tmp_path: Path) -> None:
    made = [{**row, "answer": "7", "verifier": "exact", "data": {"n": 1}, "label_source": "me"} for row in pairs(4)]
    bare = {"prompt": "say ab", "chosen": "<answer>ab", "rejected": "<answer>ba", "domain": "words", "flipped": True}
    found = read_rows(select(tmp_path, scorer, [*made, bare], threshold=0).outputs["dataset"])
    assert [{name: row[name] for name in made[0].keys() - {"margin"}} for row in found[:4]] == [
        {name: row[name] for name in made[0].keys() - {"margin"}} for row in made
    ]
    assert (found[4]["verifier"], found[4]["answer"], found[4]["chosen"]) == ("unlabelled", "", "<answer>ab")
    assert "flipped" not in found[4]


@given(st.lists(st.floats(0, 9), min_size=1, max_size=30), st.floats(0.01, 0.99))
def test_at_most_that_share_lies_below_the_quantile(values: list[float], share: float) -> None:
    cut = quantile(values, share)
    assert cut in values
    assert sum(value < cut for value in values) <= share * len(values)


def test_a_half_of_four_is_the_third() -> None:
    assert quantile([4.0, 1.0, 3.0, 2.0], 0.5) == 3.0
    assert quantile([], 0.5) == 0.0


def test_one_cut_alone() -> None:
    with pytest.raises(ValidationError, match="set either threshold or quantile"):
        RewardGapConfig(threshold=1.0, quantile=0.5)


def test_the_stage_asks_for_reward_models_and_refuses_others(tmp_path: Path) -> None:
    chosen = CurateParams.model_validate({"sources": [{"source": "artifact"}], "selectors": ["reward_gap"]})
    assert asks(chosen) == {"scorers": ["selector 'reward_gap'"]}
    assert memory(chosen, None, Resources()) is not None
    assert memory(chosen.model_copy(update={"selectors": ()}), None, Resources()) is None
    recipe = """
    name: split
    seed: 0
    stages:
      base: {uses: pretrain, in: {dataset: ./rows}, with: {steps: 1}}
      halves:
        uses: curate
        in: {dataset: ./rows%s}
        with: {sources: [{source: artifact_pairs}], selectors: [reward_gap]}
    """
    write_jsonl(tmp_path / "rows", rows(2))
    for scorers, message in (
        (", scorers: base.model", "takes a reward model, and base.model is a language model"),
        ("", "selector 'reward_gap' asks the input 'scorers', which is not connected"),
    ):
        (tmp_path / "split.yaml").write_text(recipe % scorers)
        with pytest.raises(InputError, match=message) as caught:
            load_recipe(str(tmp_path / "split.yaml"))
        assert "split.yaml:" in str(caught.value)
