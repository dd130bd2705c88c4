"""A trained reward model in the stages that ask it: rl learns from it, evaluate chooses by it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from components.contract.errors import InputError
from components.evaluate.component import COMPONENT as EVALUATE
from components.reward_model.component import COMPONENT as REWARD_MODEL
from components.rl.alarms import RL_ALARMS
from components.rl.component import COMPONENT as RL
from components.runtime.alarms.watch import Watch
from components.tasks.rows import write_rows
from tests.stages.rl_stage import PARAMS, item, make_model
from tests.support.stage_context import Interrupted, run_stage


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A policy, prompts, and a reward model that likes the letter z best."""
    folder = tmp_path_factory.mktemp("asked")
    (folder / "prompts").mkdir()
    write_rows(folder / "prompts", [item(index) for index in range(12)])
    (folder / "pairs").mkdir()
    pairs = [
        {"prompt": f"letter {index}", "chosen": "z", "rejected": other} for index in range(12) for other in "abkmQX"
    ]
    write_rows(folder / "pairs", pairs)
    model = make_model(folder / "model")
    trained = run_stage(
        REWARD_MODEL,
        folder / "run",
        params={"steps": 20, "batch_size": 16, "optimizer": {"peak_learning_rate": 0.02}},
        inputs={"model": model, "dataset": folder / "pairs"},
    )
    assert trained.metrics["pair_accuracy"] > 0.9
    return {"model": model, "dataset": folder / "prompts", "scorers": trained.outputs["model"]}


SCORED: dict[str, Any] = {**PARAMS, "method": "rloo", "rewards": ["scorer", {"name": "score", "weight": 0.0}]}


def test_rl_raises_what_the_reward_model_says_and_resumes(inputs: dict[str, Path], tmp_path: Path) -> None:
    params = {**SCORED, "steps": 10, "save_every": 0}
    straight = run_stage(RL, tmp_path / "straight", params=params, inputs=inputs)
    proxy = [row["reward_scorer"] for row in straight.history]
    assert sum(proxy[-3:]) > sum(proxy[:3]) and all(math.isfinite(value) for value in proxy)
    assert all(0 <= row["reward_score"] <= 1 and row["scorer_failed"] == 0 for row in straight.history)
    with pytest.raises(Interrupted):
        run_stage(RL, tmp_path / "killed", params=params, inputs=inputs, stop_after=4)
    assert run_stage(RL, tmp_path / "killed", params=params, inputs=inputs).digests == straight.digests


def test_evaluate_chooses_by_it_and_says_its_mean(inputs: dict[str, Path], tmp_path: Path) -> None:
    params = {
        "num_samples": 4,
        "max_new_tokens": 1,
        "bootstrap_samples": 100,
        "strategies": ["best_of_n_reward"],
        "metrics": ["reward"],
    }
    found = run_stage(EVALUATE, tmp_path, params=params, inputs=inputs).metrics
    assert {"reward_letters", "best_reward_at_4_letters", "best_reward_tokens_at_4_letters"} <= found.keys()
    assert found["best_reward_at_1_letters"] == pytest.approx(found["pass_at_1_letters"])
    assert not any(name.startswith("likelihood_1") for name in found), "it has no likelihoods"


def test_a_policy_that_turns_out_to_be_a_reward_model_is_one_line(inputs: dict[str, Path], tmp_path: Path) -> None:
    swapped = {"model": inputs["scorers"], "dataset": inputs["dataset"]}
    with pytest.raises(InputError, match=r"is a reward model \(LlamaForSequenceClassification\)") as caught:
        run_stage(RL, tmp_path / "rl", params={**SCORED, "rewards": ["verifier"]}, inputs=swapped)
    assert "\n" not in str(caught.value)
    wrong = {**inputs, "scorers": inputs["model"]}
    with pytest.raises(InputError, match=r"test\.scorers is a language model, and a reward model is wanted") as caught:
        run_stage(RL, tmp_path / "scorers", params=SCORED, inputs=wrong)
    assert "\n" not in str(caught.value)


def test_the_folder_names_the_head(inputs: dict[str, Path]) -> None:
    config = json.loads((inputs["scorers"] / "config.json").read_text())
    assert config["posttrain_reward"] == {"over": "lowest", "reward": "only", "separator": ""}


@pytest.mark.parametrize(
    ("gold_end", "proxy_end", "raised"), [(0.2, 2.0, ["gold_fell"]), (0.45, 2.0, []), (0.2, 0.2, []), (0.6, 2.0, [])]
)
def test_an_alarm_tells_when_gold_and_proxy_part(gold_end: float, proxy_end: float, raised: list[str]) -> None:
    watch = Watch([alarm for alarm in RL_ALARMS if alarm.name == "gold_fell"])
    for step in range(1, 121):
        late = max(0.0, (step - 40) / 80)
        proxy = step / 40 if step <= 40 else 1 + (proxy_end - 1) * late
        gold = 0.2 + 0.3 * min(step, 40) / 40 + (gold_end - 0.5) * late
        watch.take(step, {"step": step, "reward_mean": proxy, "reward_score": gold})
    assert [alarm.name for alarm in watch.raised] == raised
