"""Alarms of whole recipes: a learning rate of 1, and none where nothing is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.command_line import MICRO, Project

Finished = tuple[Project, dict[str, Any]]
EXPLODING = (
    *("--set", "stages.sft.with.optimizer.muon_scale=original", "--set", "sft_steps=8"),
    *("--set", "stages.sft.with.optimizer.peak_learning_rate=1"),
)
"""The largest rate that `validate` takes."""


def test_a_healthy_recipe_raises_none(finished: Finished) -> None:
    assert [stage["alarms"] for stage in finished[1]["stages"]] == [[]] * len(finished[1]["stages"])


def test_a_learning_rate_of_1_stops_the_run_where_the_recipe_says_so(copied: Finished) -> None:
    project, _ = copied
    out = project.call("run", str(MICRO), *EXPLODING, "--set", "stages.sft.on_alarm=stop", code=1)
    assert "alarm loss_exploded since step" in out
    assert "lower stages.sft.with.optimizer.peak_learning_rate (1)" in out
    assert "sft failed: stage 'sft': stopped by alarm loss_exploded" in out
    shown = {stage["name"]: stage for stage in project.json("show", "latest")["stages"]}
    assert (shown["sft"]["status"], shown["rl"]["status"]) == ("failed", "blocked")
    assert list(shown["sft"]["kept"]) == ["metrics"]
    page = Path(project.call("report", "latest").strip()).read_text()
    assert "loss exploded" in page
    assert "<figcaption>loss</figcaption>" in page  # the curve of what was kept
    logs = (Path(project.store).parent / "logs").glob("*/sft.log")
    assert any("alarm loss_exploded" in path.read_text() for path in logs)


def test_a_policy_that_runs_away_returns_to_the_checkpoint_before_and_the_run_goes_on(copied: Finished) -> None:
    project, _ = copied
    settings = (
        "rl_steps=12",
        "stages.rl.with.save_every=2",
        "stages.rl.with.optimizer.peak_learning_rate=0.05",
        "stages.rl.alarms.kl_beyond_bound=0.2",
        "stages.rl.alarms.all_truncated=off",
        "stages.rl.on_alarm=rollback",
        "stages.rl.keep_partial=every 2",
        *(f"stages.{name}.when=false" for name in ("eval-rl", "replay", "select", "evaluate")),
    )
    changed = [word for setting in settings for word in ("--set", setting)]
    shown = project.run(*changed)
    (rl,) = (stage for stage in shown["stages"] if stage["name"] == "rl")
    (alarm,) = rl["alarms"]
    step = int(alarm["text"].rpartition("; returned to step ")[2])
    assert alarm["since"] - 2 <= step < alarm["since"]
    made = {
        port: project.folder / "store" / "objects" / rl["outputs"][port]["digest"] / "files" for port in rl["outputs"]
    }
    weights = [made["model"], made["checkpoints"] / f"step-{step:06d}"]
    assert len({(folder / "model.safetensors").read_bytes() for folder in weights}) == 1
    assert len((made["metrics"] / "history.jsonl").read_text().splitlines()) == step
    assert sorted(path.name for path in made["checkpoints"].iterdir())[-1] == f"step-{step:06d}"
    planned = {stage["name"]: stage["outlook"] for stage in project.json("plan", str(MICRO), *changed)["stages"]}
    assert planned["rl"] == "cached"
