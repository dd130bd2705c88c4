"""A merge by the launcher and a store: what it commits, when it is taken from the cache, and what its code is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from components.contract.job import Job
from components.runtime.job.launch import Launch
from components.runtime.store import open_store
from pipelines.recipe.recipe import load_recipe
from tests.stages.merge.folders import folder_of

MERGE = "components/merge"


def launch(folder: Path, models: list[Path], stage: str, params: dict[str, Any]) -> dict[str, Any]:
    job = Job.model_validate(
        {
            "run_id": "run-1", "recipe": "test", "stage": stage, "component": "merge", "params": params, "seed": 0,
            "inputs": {"models": [{"uri": str(one)} for one in models]}, "store": str(folder / "store"),
        }
    )  # fmt: skip
    return Launch(job, lambda event: None, gates_here=True).run()


def test_a_merge_is_committed_cached_and_its_merger_is_its_code(tmp_path: Path) -> None:
    models = [folder_of(tmp_path, name, seed) for name, seed in (("a", 1), ("b", 2))]
    first = launch(tmp_path, models, "first", {"merger": "slerp"})
    assert first["status"] == "done" and set(first["outputs"]) == {"model", "report"}
    assert launch(tmp_path, models, "again", {"merger": "slerp"})["cache"] == "hit"
    assert launch(tmp_path, models[::-1], "turned", {"merger": "slerp"})["cache"] != "hit"  # the order counts
    action = open_store(str(tmp_path / "store")).get(f"actions/{first['fingerprint']}.json")
    assert action is not None
    code = action["parts"]["code"].keys()
    assert {f"{MERGE}/mergers/slerp.py", f"{MERGE}/stack.py", f"{MERGE}/writing.py"} <= code
    assert not {f"{MERGE}/mergers/ties.py", f"{MERGE}/probe.py", f"{MERGE}/component.py"} & code


def test_a_sweep_commits_checkpoints_in_the_place_of_a_model(tmp_path: Path) -> None:
    models = [folder_of(tmp_path, name, seed) for name, seed in (("a", 1), ("b", 2))]
    made = launch(tmp_path, models, "swept", {"merger": "slerp", "sweep": {"t": [0.25, 0.75]}})
    assert set(made["outputs"]) == {"checkpoints", "report"} and made["metrics"]["num_candidates"] == 2
    folder = open_store(str(tmp_path / "store")).fetch(made["outputs"]["checkpoints"]["digest"])
    index = json.loads((folder / "index.json").read_text())
    assert all((folder / entry["path"] / "model.safetensors").is_file() for entry in index)


def test_the_recipe_chooses_the_shortest_under_a_bound() -> None:
    stages = {stage.name: stage for stage in load_recipe("merged", ["most_lost=0.05"]).stages}
    select = stages["select"].config.model_dump()
    assert select["objective"]["minimise"] and select["constraints"][0]["max_drop"] == 0.05
    assert [len(stages[name].config.candidates) for name in ("mean", "arithmetic", "ties")] == [5, 3, 2]
    assert set(stages["mean"].component.outputs) == {"checkpoints", "report"}
