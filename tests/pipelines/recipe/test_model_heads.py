"""A reward model where a language model is expected, and the reverse, is refused before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.language.problems import RecipeErrors
from pipelines.recipe.recipe import load_recipe

RECIPE = """
name: heads
seed: 0
stages:
  data: {{uses: curate, with: {{sources: [{{domain: a, count: 8, source: notes}}]}}}}
  base: {{uses: pretrain, in: {{dataset: data.dataset}}, with: {{steps: 1}}}}
  rm: {{uses: reward_model, in: {{model: base.model, dataset: data.dataset}}, with: {{steps: 1}}}}
  kept: {{uses: adopt, in: {{model: rm.model}}}}
  last: {line}
"""
RL = "in: {{model: {model}, dataset: data.dataset{more}}}, with: {{method: rloo, steps: 1, rewards: [{rewards}]}}"


def problems(tmp_path: Path, line: str) -> list[str]:
    path = tmp_path / "heads.yaml"
    path.write_text(RECIPE.format(line=line))
    try:
        load_recipe(str(path))
    except RecipeErrors as errors:
        return [problem.message for problem in errors.problems]
    return []


def rl(model: str = "base.model", scorers: str | None = None, rewards: str = "verifier") -> str:
    more = "" if scorers is None else f", scorers: {scorers}"
    return "{uses: rl, " + RL.format(model=model, more=more, rewards=rewards) + "}"


@pytest.mark.parametrize(
    "line",
    [
        rl(),
        rl(scorers="rm.model", rewards="scorer"),
        rl(scorers="kept.model", rewards="scorer"),
        rl(scorers="base.model", rewards="likelihood_under"),
        rl(scorers="s3://bucket/rm", rewards="scorer"),
        "{uses: evaluate, in: {model: base.model, dataset: data.dataset, scorers: rm.model}, "
        "with: {num_samples: 4, strategies: [best_of_n_reward], metrics: [reward]}}",
        "{uses: adopt, in: {model: rm.model}}",
    ],
)
def test_what_fits_is_valid(line: str, tmp_path: Path) -> None:
    assert problems(tmp_path, line) == []


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (rl("rm.model"), "input 'model' of stage 'last' takes a language model, and rm.model is a reward model"),
        (
            "{uses: evaluate, in: {model: rm.model, dataset: data.dataset}}",
            "input 'model' of stage 'last' takes a language model, and rm.model is a reward model",
        ),
        (
            "{uses: select, in: {checkpoints: rm.checkpoints, dataset: data.dataset}}",
            "input 'checkpoints' of stage 'last' takes a language model, and rm.checkpoints is a reward model",
        ),
        (
            rl(scorers="base.model", rewards="scorer"),
            "input 'scorers' of stage 'last' takes a reward model, and base.model is a language model",
        ),
        (
            rl(scorers="[rm.model, base.model]", rewards="scorer"),
            "input 'scorers' of stage 'last' takes a reward model, and base.model is a language model",
        ),
        (
            rl(scorers="rm.model", rewards="likelihood_under"),
            "input 'scorers' of stage 'last' takes a language model, and rm.model is a reward model",
        ),
        (
            "{uses: evaluate, in: {model: base.model, dataset: data.dataset, scorers: rm.model}}",
            "input 'scorers' of stage 'last' takes a language model, and rm.model is a reward model",
        ),
        (
            "{uses: reward_model, in: {model: rm.model, dataset: data.dataset}}",
            "input 'model' of stage 'last' takes a language model, and rm.model is a reward model",
        ),
        (
            rl(rewards="scorer"),
            "stage 'last': reward operator 'scorer' asks the input 'scorers', which is not connected",
        ),
    ],
)
def test_what_does_not_fit_gets_one_line(line: str, message: str, tmp_path: Path) -> None:
    found = problems(tmp_path, line)
    assert len(found) == 1 and found[0].startswith(message)


def test_an_endpoint_gives_no_scores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pools = tmp_path / "pools.yaml"
    own = Path(__file__).parents[3] / "infra" / "pools.yaml"
    text = own.read_text()
    assert "\nendpoints:" not in text
    pools.write_text(text + "\nendpoints:\n  far: {base_url: 'https://e.example/v1', model: m, api: completions}\n")
    monkeypatch.setenv("POSTTRAIN_POOLS", str(pools))
    found = problems(tmp_path, rl(scorers="endpoint:far", rewards="scorer"))
    assert found == ["input 'scorers' of stage 'last' takes a reward model, and 'endpoint:far' is a language model"]


def test_operators_that_want_different_models_of_one_port_cannot_share_it(tmp_path: Path) -> None:
    found = problems(tmp_path, rl(scorers="rm.model", rewards="scorer, likelihood_under"))
    assert len(found) == 1 and "takes nothing (some of its operators want a reward model, others none)" in found[0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("with: {steps: 1, scorer_loss: bradley_tery}", "unknown scorer_loss operator 'bradley_tery'; did you mean"),
        (
            "with: {steps: 1, scorer_loss: {name: gaussian_ensemble, head: 3}}",
            "unknown key 'head'; did you mean 'heads'?",
        ),
        (
            "with: {steps: 1}, gate: pair_acuracy > 0.5",
            "unknown metric of 'reward_model': 'pair_acuracy'; did you mean",
        ),
        (
            "with: {steps: 1, scorer_loss: stepwise}, gate: pair_accuracy > 0.5",
            "pair_accuracy is not measured: scorer_loss stepwise reads stepwise",
        ),
        ("with: {steps: 1, holdout: 1}", "with.holdout: got 1, expected"),
    ],
)
def test_a_wrong_reward_model_gets_one_line(words: str, message: str, tmp_path: Path) -> None:
    found = problems(tmp_path, "{uses: reward_model, in: {model: base.model, dataset: data.dataset}, " + words + "}")
    assert len(found) == 1 and message in found[0]
