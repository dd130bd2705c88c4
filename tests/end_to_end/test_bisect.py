"""Bisection of real trainings: a planted cause among twelve differences, in a few runs' worth of new work."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.support.command_line import MICRO, Project

GOOD = """\
# Micro whose data and base model are the same at all seeds, so that seeds are cheap pairs: they differ in sft alone.
name: good
extends: ./micro.yaml
stages:
  heldout: {seed: 0}
  dev: {seed: 0}
  corpus: {seed: 0}
  base: {seed: 0}
  demos: {seed: 0}
"""
WORSE = """\
# The same with twelve differences, of which one makes the loss of sft worse: it hardly learns.
name: worse
extends: ./good.yaml
params: {demo_rows: 168}
stages:
  base: {with: {optimizer: {weight_decay: 0.01}}}
  sft:
    with:
      max_tokens: 512
      micro_batch_tokens: 8192
      optimizer:
        clip_norm: 2.0
        warmup_steps: 1
        peak_learning_rate: 1.0e-6
        weight_decay: 0.01
        betas: [0.9, 0.96]
        eps: 1.0e-9
        momentum: 0.94
        floor_ratio: 0.1
"""
PLANTED = "stages.sft.with.optimizer.peak_learning_rate"
MOST_RUNS = 5


def test_a_planted_cause_among_twelve_is_found_in_five_runs_worth_of_new_work(tmp_path: Path) -> None:
    shutil.copyfile(MICRO, tmp_path / "micro.yaml")
    (tmp_path / "good.yaml").write_text(GOOD, encoding="utf-8")
    (tmp_path / "worse.yaml").write_text(WORSE, encoding="utf-8")
    project = Project(tmp_path, str(tmp_path / "store"))
    found = project.json("bisect", "good.yaml", "worse.yaml", "--metric", "sft.loss", "--max-seeds", "3")
    assert len(found["differences"]) == 12
    kinds = {one["kind"]: one["names"] for one in found["differences"]}
    assert kinds["data"] == ["demo_rows"]
    assert [cause["names"] for cause in found["causes"]] == [[PLANTED]]
    effect = found["causes"][0]["effect"]
    assert 0 < effect["low"] < effect["value"] < effect["high"]
    assert found["without_causes"] == "good"
    assert len(found["tried"]) <= 6
    assert found["halves_seconds"] <= MOST_RUNS * found["run_seconds"]
    assert "What moved sft.loss" in Path(found["page"]).read_text(encoding="utf-8")
