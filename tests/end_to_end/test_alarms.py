"""Alarms of whole recipes: a learning rate of 100, a verifier that always fails, and none where nothing is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.command_line import MICRO, Project

Finished = tuple[Project, dict[str, Any]]
EXPLODING = ("--set", "stages.sft.with.optimizer.peak_learning_rate=100", "--set", "sft_steps=8")
FAILING = """
name: failing
stages:
  rl:
    uses: rl
    in: {model: "artifact:MODEL", dataset: ./rows.jsonl}
    with: {steps: 7, prompts_per_step: 2, group_size: 2, max_new_tokens: 4, save_every: 0}
    on_alarm: REACTION
"""


def test_a_healthy_recipe_raises_none(finished: Finished) -> None:
    assert [stage["alarms"] for stage in finished[1]["stages"]] == [[]] * len(finished[1]["stages"])


def test_a_learning_rate_of_100_stops_the_run_where_the_recipe_says_so(copied: Finished) -> None:
    project, _ = copied
    out = project.call("run", str(MICRO), *EXPLODING, "--set", "stages.sft.on_alarm=stop", code=1)
    assert "alarm loss_exploded since step" in out
    assert "lower stages.sft.with.optimizer.peak_learning_rate (100)" in out
    assert "sft failed: stage 'sft': stopped by alarm loss_exploded" in out
    shown = {stage["name"]: stage for stage in project.json("show", "latest")["stages"]}
    assert (shown["sft"]["status"], shown["rl"]["status"]) == ("failed", "blocked")
    assert list(shown["sft"]["kept"]) == ["metrics"]
    page = Path(project.call("report", "latest").strip()).read_text()
    assert "loss exploded" in page
    assert "<figcaption>loss</figcaption>" in page  # the curve of what was kept
    logs = (Path(project.store).parent / "logs").glob("*/sft.log")
    assert any("alarm loss_exploded" in path.read_text() for path in logs)


def test_a_verifier_that_always_fails_is_an_alarm_and_its_samples_are_kept(copied: Finished) -> None:
    project, shown = copied
    model = next(stage["outputs"]["model"]["digest"] for stage in shown["stages"] if stage["name"] == "sft")
    row = {"domain": "a", "prompt": "1+1", "answer": "2", "verifier": "exact", "data": {"aliases": "no list"}}
    rows = (json.dumps({**row, "id": str(index), "prompt_id": str(index)}) for index in range(4))
    (project.folder / "rows.jsonl").write_text("".join(f"{row}\n" for row in rows))
    recipe = project.folder / "failing.yaml"
    recipe.write_text(FAILING.replace("MODEL", model).replace("REACTION", "warn"))
    warned = project.run(recipe=recipe)["stages"][0]
    assert (warned["status"], [(a["name"], a["since"]) for a in warned["alarms"]]) == (
        "done",
        [("verifier_failures", 1)],
    )
    recipe.write_text(FAILING.replace("MODEL", model).replace("REACTION", "stop").replace("steps: 7", "steps: 8"))
    project.call("run", str(recipe), code=1)
    stopped = project.json("show", "latest")["stages"][0]
    assert set(stopped["kept"]) == {"metrics", "rollouts"}
    samples = Path(stopped["kept"]["rollouts"]["uri"], "rows.jsonl")
    assert {json.loads(line)["step"] for line in samples.read_text().splitlines()} == {5}
