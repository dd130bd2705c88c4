"""What validate says of a judge that is a reward."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.language.problems import RecipeErrors
from pipelines.plan.advice import advice
from pipelines.recipe.recipe import load_recipe

RECIPE = """
name: judged
stages:
  audit:
    uses: evaluate
    in: {model: /models/start, dataset: /data/rows.jsonl, judges: %s}
    with: {num_samples: 2, diagnostics: [master_keys]}
%s
  rl:
    uses: rl
    in: {model: /models/start, dataset: /data/rows.jsonl%s}
%s
    with: {steps: 2, method: rloo, rewards: [%s]}
"""
JUDGED = ", judges: /models/judge"
GATE = "    gate: [key_rate_worst_sums <= 0.01]"
REMARK = "rl: a judge is a reward, and nothing stops the run"


def remarks(folder: Path, *, gate: str = "", judges: str = JUDGED, words: str = "", reward: str = "judge") -> list[str]:
    path = folder / "judged.yaml"
    judge = "/models/judge" if "other" not in gate else "/models/other"
    path.write_text(RECIPE % (judge, gate.removesuffix(" other"), judges, words, reward))
    return [line for line in advice(load_recipe(str(path))) if "a judge is a reward" in line]


def test_a_judge_without_an_audit_gets_a_remark(tmp_path: Path) -> None:
    (line,) = remarks(tmp_path)
    assert line.startswith(REMARK) and "`integrity: required`" in line and "\n" not in line
    assert len(remarks(tmp_path, words="    integrity: report")) == 1, "a report stops nothing"
    assert len(remarks(tmp_path, gate=f"{GATE} other", words="    after: [audit]")) == 1, "another judge was audited"
    assert len(remarks(tmp_path, words="    after: [audit]")) == 1, "a number without a gate stops nothing"
    assert len(remarks(tmp_path, gate=GATE)) == 1, "it does not wait for the audit"


def test_an_audited_judge_and_other_rewards_get_none(tmp_path: Path) -> None:
    assert remarks(tmp_path, words="    integrity: required") == []
    assert remarks(tmp_path, gate=GATE, words="    after: [audit]") == []
    assert remarks(tmp_path, judges="", reward="verifier") == []


def test_a_reward_without_its_judge_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecipeErrors, match="judges"):
        remarks(tmp_path, judges="")
    with pytest.raises(RecipeErrors, match=r"lacks \{response\}"):
        remarks(tmp_path, reward="{name: judge, template: '{task}'}")
    with pytest.raises(RecipeErrors, match="needs labels"):
        remarks(tmp_path, reward="{name: judge, reading: probability}")
    (tmp_path / "audit.yaml").write_text(
        "name: audit\nstages:\n  audit:\n    uses: evaluate\n"
        "    in: {model: /models/start, dataset: /data/rows.jsonl, judges: /models/judge}\n"
        "    with: {diagnostics: [{name: master_keys, reading: probability}]}\n"
    )
    with pytest.raises(RecipeErrors, match="needs labels"):
        load_recipe(str(tmp_path / "audit.yaml"))
