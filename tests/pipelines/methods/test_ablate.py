"""`posttrain ablate`: one part reset at a time, judged by the protocol, on a toy claim and on the parts of DAPO."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from components.contract.errors import InputError
from components.contract.expressions import Expression
from components.rl.params import RLParams
from pipelines.methods.ablation.judge import Ablation, effects_with
from pipelines.methods.ablation.parts import MISSING, Part, Parts, parts_of
from pipelines.methods.ablation.plain import ablation_json
from pipelines.methods.reproduce import Finding, Reproduction
from pipelines.methods.verdict import Verdict
from pipelines.recipe.hallmark import Hallmark, Measure
from pipelines.recipe.hallmark_words import HallmarkWords
from pipelines.recipe.recipe import load_recipe
from tests.pipelines.cli.test_commands import Command, posttrain, read
from tests.support.toy_command import ROOT

__all__ = ["posttrain"]
TOY = "tests/pipelines/recipes/toy-claim.yaml"
CLIP_MEASURES = ("preconditions.upper_clip_is_reached", "active", "also.clip_fraction_high")
VALUE = Measure(Expression("rl.x"), {}, Expression("method - baseline"))


def ablation(method: float, ablated: float, direction: str = "higher", budget: float = 1.0) -> Ablation:
    """Return an ablation of 12 seeds whose arms are at these values, beside a baseline at 0."""
    outcome = {"name": "x", "value": "rl.x", "direction": direction, "floor": 1, "floor_from": "a guess"}
    words = HallmarkWords.model_validate({"claim": "More", "outcome": outcome})
    arms = {"method": (method,) * 12, "baseline": (0.0,) * 12, "without_a": (ablated,) * 12}
    claim = Finding(VALUE, arms, (method,) * 12)
    spent = Finding(VALUE, {"method": (1.0,), "baseline": (1.0,), "without_a": (budget,)})
    hallmark = Hallmark(words, tuple(arms), tuple(range(12)), {"outcome": VALUE}, {}, {}, {}, {})
    found = Reproduction("m", hallmark, {"outcome": claim}, {}, {}, {}, {}, spent, {}, 0.0)
    return Ablation(found, Parts({}, (Part(("a",), {"a": 1}),), {}))


def ablation_parts(parts: Parts) -> dict[str, Any]:
    """Return the JSON of an ablation's parts, of arms that all measured nothing."""
    made = ablation(0.0, 0.0).found
    arms = dict.fromkeys(("method", "baseline", *(part.arm for part in parts.found)), (0.0,) * 12)
    spent = replace(made, claims={"outcome": Finding(VALUE, arms, (0.0,) * 12)}, budget=None)
    found: dict[str, Any] = ablation_json(Ablation(spent, parts))["parts"]
    return found


@pytest.mark.parametrize(
    ("method", "ablated", "direction", "verdict", "carries"),
    [
        (5.0, 0.0, "higher", Verdict.NO_EFFECT, "carries it"),
        (5.0, 5.0, "higher", Verdict.SEEN, "does nothing"),
        (5.0, 9.0, "higher", Verdict.SEEN, "works against it"),
        (-5.0, 0.0, "lower", Verdict.NO_EFFECT, "carries it"),
        (0.0, -5.0, "not_lower", Verdict.OPPOSITE, "carries it"),
        (0.0, 0.0, "same", Verdict.SEEN, "-"),
    ],
)
def test_what_a_part_carries(method: float, ablated: float, direction: str, verdict: Verdict, carries: str) -> None:
    found = ablation(method, ablated, direction)
    (part,) = found.parts.found
    assert (found.verdict(part, "outcome"), found.carries(part, "outcome")) == (verdict, carries)
    assert found.is_settled


def test_an_arm_that_spends_more_is_invalid_and_the_method_is_not() -> None:
    found = ablation(5.0, 0.0, budget=1.2)
    (part,) = found.parts.found
    assert found.verdict(part, "outcome") is Verdict.INVALID and found.carries(part, "outcome") == "-"
    assert found.whole.verdict("outcome") is Verdict.SEEN
    assert found.found.invalid is not None, "with the ablated arm among them the budgets are unequal"
    told = ablation_json(replace(found, steps={"without_a": 12}))
    assert (told["spent"], told["parts"]["without_a"]["spent"], told["parts"]["without_a"]["steps"]) == (1.0, 1.2, 12)


def test_other_arms_of_an_effect_stay() -> None:
    """DAPO's effect is against a third arm: only `method` is replaced."""
    measure = replace(VALUE, effect=Expression("method - symmetric"))
    arms = {"method": (5.0,), "symmetric": (2.0,), "baseline": (0.0,), "without_a": (3.0,)}
    assert effects_with(Finding(measure, arms, (3.0,)), "without_a") == (1.0,)


def test_the_parts_of_dapo_are_what_sets_it_apart_from_grpo() -> None:
    recipe = load_recipe("methods/dapo")
    parts = parts_of(recipe)
    # a divergence needs its reference, so both are reset together
    assert [part.names for part in parts.found] == [
        ("rewards",),
        ("filters",),
        ("objective.denominator",),
        ("objective.clip_high",),
        ("regularizers", "reference"),
    ]
    assert not parts.refused
    found = {arm: part["instead"] for arm, part in ablation_parts(parts).items()}
    assert found["without_rewards"].startswith("verifier") and found["without_filters"] == "none"
    assert found["without_objective_clip_high"] == "ppo_clip(clip_high 0.2)"
    assert found["without_objective_denominator"] == "ppo_clip(denominator responses)"
    with_arms = load_recipe("methods/dapo", parts.overrides())
    stages = {stage.labels.get("arm"): stage.config for stage in with_arms.stages if stage.component.name == "rl"}
    configs = {arm: config.slots() for arm, config in stages.items() if isinstance(config, RLParams)}
    own, base = configs["method"], configs["baseline"]
    assert configs["without_filters"] == replace(own, filters=base.filters)
    narrow, mean = configs["without_objective_clip_high"].objective, configs["without_objective_denominator"].objective
    assert (narrow.settings["clip_high"], narrow.settings["denominator"]) == (0.2, "tokens")
    assert (mean.settings["clip_high"], mean.settings["denominator"]) == (0.28, "responses")
    together = configs["without_regularizers_and_reference"]
    assert [spec.name for spec in together.regularizers] == [spec.name for spec in base.regularizers]
    assert (together.reference.name, together.filters) == (base.reference.name, own.filters)


def test_a_method_is_ablated_by_the_protocol(posttrain: Command, tmp_path: Path) -> None:
    """Without its factor the toy method is its baseline: the factor carries the whole effect, 5 s at seed s."""
    store = str(tmp_path / "store")
    found = read(posttrain("ablate", TOY, "--json", "--store", store))
    assert found["seeds"] == list(range(1, 13)), "equal effects of 0 take 12 seeds to be called none"
    without = found["parts"]["without_factor"]["claims"]["outcome"]
    assert (found["verdicts"]["outcome"], without["verdict"], without["carries"]) == ("seen", "no effect", "carries it")
    assert without["effects"] == [0] * 12 and without["carried"]["effects"] == [5 * s for s in range(1, 13)]
    assert found["parts"]["without_factor"]["instead"] == "2"
    assert found["whole"]["outcome"]["decision"]["look"] == 8 and found["run_id"]

    shown = posttrain("ablate", TOY, "--store", store, "--seeds", "5").stdout
    lines = [line for line in shown.splitlines() if line.startswith("without factor")]
    assert len(lines) == 2 and "undecided" in lines[1] and "comparisons; chance alone gives" in shown


@pytest.mark.slow
def test_the_arms_of_dapo_run_at_equal_tokens(tmp_path: Path) -> None:
    """A weak policy is all wrong, so a step with dynamic sampling draws ten batches, and one without it draws one."""
    small = {"base_steps": 20, "sft_steps": 5, "corpus_rows": 200, "demo_rows": 64, "prompt_rows": 16, "eval_rows": 8}
    small |= {"kept_rows": 8, "eval_samples": 64, "prompts_per_step": 4, "group_size": 4, "rl_steps": 20}
    small |= {f"matrix.arm.{arm}.steps": 2 for arm in ("method", "symmetric")} | {"defaults.with.rl.epochs": 1}
    nothing = [text for clip in CLIP_MEASURES for text in ("--set", f"hallmark.{clip}=null")]  # is learned, or clipped
    settings = [text for key, value in small.items() for text in ("--set", f"{key}={value}")]
    command = [sys.executable, "-m", "pipelines.cli", "ablate", "dapo", "--seeds", "1", *settings, *nothing]
    environment = {**os.environ, "POSTTRAIN_STORE": str(tmp_path), "POSTTRAIN_LINEAGE": "later"}

    def run(*more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*command, *more], capture_output=True, text=True, env=environment, cwd=ROOT, timeout=600)

    found = read(run("--json"))
    steps = {arm: part["steps"] for arm, part in found["parts"].items() if part["steps"] is not None}
    assert set(steps) == {"without_filters"} and steps["without_filters"] >= 19  # more, once it learns to be brief
    assert all(0.95 < part["spent"] < 1.05 for part in found["parts"].values()) and found["invalid"] is None
    assert all(len(part["claims"]["mechanism"]["effects"]) == 1 for part in found["parts"].values())
    (row, _) = (line for line in run().stdout.splitlines() if line.startswith("without filters"))
    assert f"x in {steps['without_filters']} steps" in row


def test_a_setting_that_the_baseline_lacks_is_taken_away(tmp_path: Path) -> None:
    parts = Parts({"steps": 3, "fail": False}, (Part(("steps",), {"steps": MISSING}),), {})
    (override,) = parts.overrides()
    assert json.loads(override.partition("=")[2]) == {"fail": False}


def test_mistakes_are_one_line(posttrain: Command, tmp_path: Path) -> None:
    for change, words in (
        ("hallmark=null", "claims nothing"),
        ("matrix.arm.method={factor: 2, fail: null}", "differ in nothing"),
    ):
        done = posttrain("ablate", TOY, "--set", change, "--store", str(tmp_path))
        assert done.returncode == 2 and words in done.stderr and "Traceback" not in done.stderr, done.stderr


def test_arms_that_do_not_differ_are_told() -> None:
    same = load_recipe("methods/dapo", ["matrix.arm.method={method: grpo}"])
    with pytest.raises(InputError, match="differ in nothing that can be reset"):
        parts_of(same)
