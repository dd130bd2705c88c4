"""The recipe `calibrated` at a size of seconds: from demonstrations with a confidence to the reliability diagram."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipelines.cli import main

SIZES = (
    "base_steps=20",
    "sft_steps=30",
    "rl_steps=2",
    "corpus_rows=400",
    "demo_rows=192",
    "prompt_rows=32",
    "eval_rows=8",
    "stages.sft.with.batch_size=16",
    "eval_samples=2",
    "defaults.with.rl.prompts_per_step=4",
    "defaults.with.rl.group_size=4",
    "defaults.with.evaluate.bootstrap_samples=100",
    "stages.base.with.batch_size=16",
)


@pytest.mark.slow
def test_confidences_are_written_scored_and_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("POSTTRAIN_LINEAGE", "later")
    store = ["--store", str(tmp_path / "store")]
    sizes = [text for change in SIZES for text in ("--set", change)]
    assert main(["run", "calibrated", *sizes, *store, "--json"]) == 0
    shown: dict[str, Any] = json.loads(capsys.readouterr().out)
    stages = {stage["name"]: stage["metrics"] for stage in shown["stages"]}
    assert stages["evaluate"]["verbal_unstated_sums"] < 16, "some responses state a confidence"
    assert 0 <= stages["evaluate"]["verbal_ece_sums"] <= 1
    assert {"vote_at_2_sums", "best_at_2_sums", "delta_verbal_score_sums"} <= stages["evaluate"].keys()
    assert main(["report", "latest", "--output", str(tmp_path / "report.html"), *store]) == 0
    page = (tmp_path / "report.html").read_text()
    assert "<h2>Diagnostics</h2>" in page and "reliability" in page and "calibrated" in page
