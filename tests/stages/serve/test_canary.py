"""The canary: a served model that is worse than a stage before it ends the run there, by the launcher and a store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from components.contract.errors import GateFailed
from components.contract.job import Job
from components.runtime.job.launch import Launch
from components.runtime.store import open_store
from pipelines.recipe.recipe import load_recipe
from tests.modeling.chat_models import LAYOUTS, save_model
from tests.stages.serve.standing_in import PARAMS, command, journal, small_model, sums
from tests.support.stage_context import write_jsonl

pytestmark = pytest.mark.usefixtures("one_thread")
CLOSE = "pass_at_1 >= reference.pass_at_1 - 0.05"


def launch(folder: Path, model: Path, mode: str, monkeypatch: pytest.MonkeyPatch, stage: str, **fields: Any) -> Any:
    monkeypatch.setattr("components.serve.run.command_for", command(mode, folder / "journal"))
    data = write_jsonl(folder / "data", sums())
    job = Job.model_validate(
        {
            "run_id": "run-1", "recipe": "test", "stage": stage, "component": "serve", "params": PARAMS, "seed": 0,
            "inputs": {"model": [{"uri": str(model)}], "dataset": [{"uri": str(data)}]},
            "store": str(folder / "store"), **fields,
        }
    )  # fmt: skip
    return Launch(job, lambda event: None, gates_here=True).run()


def test_a_worse_server_is_held_back_and_an_equal_one_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = small_model(tmp_path / "model")
    reference = launch(tmp_path, model, "well", monkeypatch, "reference")
    assert reference["metrics"]["pass_at_1"] == 0.5
    action = open_store(str(tmp_path / "store")).get(f"actions/{reference['fingerprint']}.json")
    assert action is not None
    servers = {f"components/serve/server/{name}.py" for name in ("app", "drawing", "requests", "guard", "commands")}
    assert servers <= action["parts"]["code"].keys()  # an edited server measures again
    assert "components/evaluate/run.py" not in action["parts"]["code"]
    assert action["parts"]["params"]["cluster_cpus"] == 1  # what the manifest says of the pool counts, too
    equal = launch(tmp_path, model, "well", monkeypatch, "equal", seed=1, gate=[CLOSE, "num_failed_requests == 0"])
    assert equal["status"] == "done"
    with pytest.raises(GateFailed, match=r"does not hold: pass_at_1 = 0, reference.pass_at_1 = 0.5"):
        launch(tmp_path, model, "worse", monkeypatch, "worse", seed=2, gate=[CLOSE])
    asked = len(journal(tmp_path))
    again = launch(tmp_path, model, "dies-at-start", monkeypatch, "again")  # from the cache: no server is started
    assert again["cache"] == "hit" and len(journal(tmp_path)) == asked


def test_the_manifest_names_the_folder_as_served_where_the_export_completed_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A base's generation_config.json leaves out the template's end: a deployment must stop where it was measured."""
    save_model(LAYOUTS["qwen2.5-base"], tmp_path / "base")
    made = launch(tmp_path, tmp_path / "base", "well", monkeypatch, "serve")
    store = open_store(str(tmp_path / "store"))
    folder = store.fetch(made["outputs"]["deployment"]["digest"])
    found = yaml.safe_load((folder / "inferenceservice.yaml").read_text())
    served = made["outputs"]["model"]["digest"]
    assert found["metadata"]["annotations"]["posttrain.dev/model"] == served != made["inputs"]["model"][0]["digest"]
    assert (store.fetch(served) / "config.json").is_file()


def test_the_recipe_lets_only_a_good_server_become_the_champion() -> None:
    stages = {stage.name: stage for stage in load_recipe("canary", ["canary_margin=0.02"]).stages}
    serve, champion = stages["serve"], stages["champion"]
    assert serve.gate == ["pass_at_1 >= evaluate.pass_at_1 - 0.02", "num_failed_requests == 0"]
    assert "evaluate" in serve.after and "serve" in champion.after and champion.register_aliases == ["champion"]
