"""`integrity`: a stage with a reward gets an audit before it, with its parameters and inputs."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.language.problems import RecipeErrors
from pipelines.recipe.audits import SOUND
from pipelines.recipe.recipe import Recipe, load_recipe

RECIPE = """
name: audited
matrix: {{seed: [1, 2]}}
stages:
  prompts:
    uses: curate
    matrix: none
    with: {{kind: prompts, size: 8, sources: [{{domain: d, source: {{name: reasoning_gym, task: chain_sum}}}}]}}
  {rl}:
    uses: rl
    {integrity}
    in: {{model: "hf:org/tiny", dataset: prompts.dataset}}
    with: {{method: dapo, steps: 3, max_new_tokens: 20}}
    register: mine
"""


def load(tmp_path: Path, integrity: str = "integrity: required", rl: str = "rl", extra: str = "") -> Recipe:
    path = tmp_path / "audited.yaml"
    path.write_text(RECIPE.format(integrity=integrity, rl=rl) + extra, encoding="utf-8")
    return load_recipe(str(path))


def test_each_cell_gets_its_audit_and_waits_for_it(tmp_path: Path) -> None:
    stages = {stage.name: stage for stage in load(tmp_path).stages}
    assert list(stages) == ["prompts", "rl-integrity-seed-1", "rl-seed-1", "rl-integrity-seed-2", "rl-seed-2"]
    audit, rl = stages["rl-integrity-seed-2"], stages["rl-seed-2"]
    assert (audit.component.name, audit.gate, audit.seed, audit.register_as) == ("audit_reward", [SOUND], 2, None)
    assert audit.params == rl.params and audit.inputs == rl.inputs
    assert "rl-integrity-seed-2" in rl.after and rl.register_as == "mine" and rl.gate == []


def test_a_report_stops_nothing(tmp_path: Path) -> None:
    stages = {stage.name: stage for stage in load(tmp_path, "integrity: report").stages}
    assert stages["rl-integrity-seed-1"].gate == []


def test_without_the_word_nothing_changes(tmp_path: Path) -> None:
    assert [stage.name for stage in load(tmp_path, "summary: plain").stages] == ["prompts", "rl-seed-1", "rl-seed-2"]


def test_defaults_hold_for_the_stages_that_have_a_reward(tmp_path: Path) -> None:
    recipe = load(tmp_path, "summary: plain", extra="defaults: {integrity: required}\n")
    assert [stage.name for stage in recipe.stages if stage.component.name == "audit_reward"] == [
        "rl-integrity-seed-1",
        "rl-integrity-seed-2",
    ]


@pytest.mark.parametrize(
    ("extra", "integrity", "said"),
    [
        ("", "integrity: always", "expected one of required, report"),
        (
            "  rl-integrity: {uses: curate, with: {kind: prompts, sources: []}}\n",
            "integrity: report",
            "is there already",
        ),
        (
            "  eval: {uses: evaluate, integrity: required, in: {model: rl.model, dataset: prompts.dataset}}\n",
            "integrity: report",
            "stage 'eval', integrity: evaluate has no reward to audit; leave it out",
        ),
    ],
)
def test_what_cannot_be_audited_is_refused_with_its_line(tmp_path: Path, extra: str, integrity: str, said: str) -> None:
    with pytest.raises(RecipeErrors) as refused:
        load(tmp_path, integrity, extra=extra)
    text = str(refused.value)
    assert said in text and "audited.yaml:" in text
