"""The recipe `distill` at a size of seconds: one teacher, four students, and a table of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipelines.cli import main

SIZES = (
    "matrix.seed=[0]",
    "teacher_steps=150",
    "base_steps=20",
    "start_steps=10",
    "sft_steps=4",
    "draw_steps=4",
    "rl_steps=2",
    "token_budget=400",
    "corpus_rows=1000",
    "demo_rows=192",
    "prompt_rows=32",
    "prompts_per_step=4",
    "group_size=4",
    "eval_rows=8",
    "eval_samples=2",
    "stages.base.with.batch_size=16",
    "stages.texts.with.batch_size=8",
    "stages.logits.with.batch_size=8",
    "defaults.with.evaluate.bootstrap_samples=100",
    "stages.table.with.bootstrap_samples=100",
)


@pytest.mark.slow
def test_students_of_one_teacher_are_trained_and_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("POSTTRAIN_LINEAGE", "later")
    sizes = [text for change in SIZES for text in ("--set", change)]
    assert main(["run", "distill", *sizes, "--store", str(tmp_path / "store"), "--json"]) == 0
    shown: dict[str, Any] = json.loads(capsys.readouterr().out)
    stages = {stage["name"]: stage["metrics"] for stage in shown["stages"]}
    assert {"texts-seed-0", "logits-seed-0", "rl-seed-0", "on-policy-seed-0"} <= stages.keys()
    assert stages["on-policy-seed-0"]["num_tokens"] > 0 and stages["on-policy-seed-0"]["skipped_updates"] == 0
    table = stages["table"]
    arms = {name for name in table if name.startswith("value_") and name.endswith("_sums")}
    assert {f"value_eval_{arm}_sums" for arm in ("start", "teacher", "texts", "logits", "rl", "on_policy")} <= arms
