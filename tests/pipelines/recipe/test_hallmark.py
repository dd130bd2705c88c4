"""Hallmarks: which cells a claim is about, and what it has to say to be judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.recipe.hallmark_words import PreconditionWords
from tests.pipelines.writing import load, messages, sources, stages

RECIPE = """
matrix: {seed: [4, 9], arm: {method: {steps: 5}, baseline: {steps: 6}}}
params: {k: 8}
stages:
  base: {uses: pretrain, matrix: {arm: none}, with: {layers: 2}}
  data: {uses: curate, matrix: none}
  before: {uses: evaluate, matrix: {arm: none}, in: {model: base.model, dataset: data.heldout}}
  rl: {uses: rl, in: {model: base.model, dataset: data.dataset}, with: "${matrix.arm}"}
  after: {uses: evaluate, in: {model: rl.model, dataset: data.heldout}}
hallmark:
  claim: Gains more
  preconditions: {room: {value: before.pass_at_8, at_most: 0.5}}
  outcome:
    name: gain
    value: "after.pass_at_${params.k} - before.pass_at_8"
    direction: higher
    floor: 0.1
    floor_from: half of the paper's effect
  secondary: {fixed: {value: "rl[arm=baseline].kl@10_20"}}
  also: {rows: data.num_rows}
"""


@pytest.mark.usefixtures("toy_catalog")
def test_a_value_means_the_cells_of_one_arm_and_seed(tmp_path: Path) -> None:
    hallmark = load(tmp_path, RECIPE).hallmark
    assert hallmark is not None
    assert (hallmark.arms, hallmark.seeds) == (("method", "baseline"), (4, 9))
    gain, fixed, rows = hallmark.claims["outcome"], hallmark.secondary["fixed"], hallmark.also["rows"]
    assert gain.sources["method", 9] == {
        "after.pass_at_8": ("after-seed-9-arm-method", "pass_at_8"),
        "before.pass_at_8": ("before-seed-9", "pass_at_8"),
    }
    assert fixed.sources["method", 4] == {"rl[arm=baseline].kl@10_20": ("rl-seed-4-arm-baseline", "kl@10_20")}
    assert rows.sources["baseline", 9] == {"data.num_rows": ("data", "num_rows")}
    assert gain.effect is not None and gain.effect.source == "method - baseline"
    room = hallmark.preconditions["room"].effect
    assert room is not None and room.source == "baseline" and rows.effect is None


@pytest.mark.usefixtures("toy_catalog")
def test_one_axis_of_the_matrix_can_be_left_out(tmp_path: Path) -> None:
    found = stages(load(tmp_path, RECIPE))
    assert [name for name in found if name.startswith(("base", "data"))] == ["base-seed-4", "base-seed-9", "data"]
    assert sources(found["rl-seed-9-arm-method"])["model"] == ["base-seed-9.model"]
    assert found["rl-seed-9-arm-method"].params == {"steps": 5}
    assert (found["base-seed-9"].seed, found["base-seed-9"].labels) == (9, {"seed": 9})


@pytest.mark.usefixtures("toy_catalog")
def test_a_child_adds_arms_and_removes_the_claim(tmp_path: Path) -> None:
    load(tmp_path, RECIPE)
    (tmp_path / "recipe.yaml").rename(tmp_path / "parent.yaml")
    recipe = load(tmp_path, "extends: parent.yaml\nmatrix: {arm: {third: {steps: 7}, method: null}}\nhallmark: null\n")
    assert recipe.hallmark is None
    assert {stage.labels.get("arm") for stage in recipe.stages} == {None, "baseline", "third"}


@pytest.mark.usefixtures("toy_catalog")
def test_a_testbed_claims_nothing_and_a_claim_is_judged(tmp_path: Path) -> None:
    head, _, _ = RECIPE.partition("  claim")
    bed = load(tmp_path, f"{head}  preconditions: {{room: {{value: before.pass_at_8, at_most: 0.5}}}}\n").hallmark
    assert bed is not None and not bed.claims and list(bed.preconditions) == ["room"]
    for words in ("  claim: Gains\n", "  looks: [5]\n", RECIPE.partition("hallmark:\n")[2].replace("Gains more", "''")):
        (found,) = messages(tmp_path, head + words)
        assert "expected a claim with mechanism, outcome or both" in found


@pytest.mark.usefixtures("toy_catalog")
@pytest.mark.parametrize(
    "change, words",
    [
        (("floor: 0.1", "floor: 0"), "a number greater than 0"),
        (("    floor_from: half of the paper's effect\n", ""), "'floor_from' is missing"),
        (("at_most: 0.5", "arm: method"), "unknown key 'arm'"),
        ((", at_most: 0.5", ""), "expected at_least, at_most or both"),
        (("  also:", "  looks: [3, 5]\n  also:"), "expected ascending numbers of seeds from 5 to 20"),
        (("  also:", "  looks: [8, 5]\n  also:"), "expected ascending numbers of seeds from 5 to 20"),
        (("  also:", "  budget: rl.steps\n  also:"), "unknown metric of 'rl': 'steps'"),
        (("  also:", "  measures: {}\n  also:"), "unknown key 'measures'"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, change: tuple[str, str], words: str) -> None:
    found = messages(tmp_path, RECIPE.replace(*change))
    assert any(words in message for message in found), found


@pytest.mark.parametrize(
    "bounds, value, holds",
    [
        ({"at_least": 0.1}, 0.1, True),
        ({"at_least": 0.1}, 0.09, False),
        ({"at_most": 0.1}, 0.1, True),
        ({"at_most": 0.1}, 0.11, False),
        ({"at_least": 0.0, "at_most": 1.0}, 0.5, True),
        ({"at_least": 0.0}, float("nan"), False),
    ],
)
def test_a_condition_holds_within_its_bounds(bounds: dict[str, float], value: float, holds: bool) -> None:
    assert PreconditionWords(value="a.b", **bounds).holds(value) is holds
