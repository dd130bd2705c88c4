"""`posttrain ablate`: one part reset at a time, judged by the protocol, on a toy claim and on the parts of DAPO."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from components.contract.errors import InputError
from components.contract.expressions import Expression
from components.rl.params import RLParams
from pipelines.methods.ablation import Ablation, effects_with
from pipelines.methods.parts import MISSING, Part, Parts, parts_of
from pipelines.methods.reproduce import Finding, Reproduction
from pipelines.methods.verdict import Verdict
from pipelines.recipe.hallmark import Hallmark, Measure
from pipelines.recipe.hallmark_words import HallmarkWords
from pipelines.recipe.recipe import load_recipe
from tests.pipelines.cli.test_commands import Command, posttrain, read

__all__ = ["posttrain"]
TOY = "tests/pipelines/recipes/toy-claim.yaml"
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
        ("objective",),
        ("regularizers", "reference"),
    ]
    assert not parts.refused
    with_arms = load_recipe("methods/dapo", parts.overrides())
    stages = {stage.labels.get("arm"): stage.config for stage in with_arms.stages if stage.component.name == "rl"}
    configs = {arm: config.slots() for arm, config in stages.items() if isinstance(config, RLParams)}
    own, base = configs["method"], configs["baseline"]
    assert configs["without_filters"] == replace(own, filters=base.filters)
    objective = configs["without_objective"].objective
    assert objective.settings["clip_high"] == 0.2 and objective.settings["denominator"] != "tokens"
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
