"""The trigger form: choices are lists, with every value that a run may have and no other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow.sdk import Param
from airflow.sdk.definitions.param import ParamsDict

from components.rl.presets import preset_names
from pipelines.engines.airflow.form import fields_of
from pipelines.recipe.pools import load_pools
from pipelines.recipe.recipe import load_recipe

RECIPE = """\
name: choosing
params:
  method: grpo
  precision: float32
  kind: {default: prompts, choices: [prompts, demonstrations]}
  objective: ppo_clip
  steps: {default: 3, min: 1, max: 9}
  base: hf:organisation/model
  place: cpu
stages:
  data:
    uses: curate
    with: {kind: "${params.kind}", sources: [{domain: s, count: 8, source: {name: reasoning_gym, task: chain_sum}}]}
  rl:
    uses: rl
    in: {model: "${params.base}", dataset: data.dataset}
    pool: "${params.place}"
    with: {method: "${params.method}", dtype: "${params.precision}", steps: "${params.steps}"}
"""


def schemas(path: str) -> dict[str, Any]:
    """Return the JSON schema of every field of a recipe's form, as Airflow's page gets it."""
    params = ParamsDict({name: Param(**field) for name, field in fields_of(load_recipe(path, whole=True)).items()})
    params.validate()
    return {name: {**params.get_param(name).schema, "default": params[name]} for name in params}


def test_what_has_few_values_is_a_list_of_them(tmp_path: Path) -> None:
    (tmp_path / "choosing.yaml").write_text(RECIPE)
    fields = schemas(str(tmp_path / "choosing.yaml"))
    assert fields["method"]["enum"] == preset_names() and len(preset_names()) >= 39
    assert fields["method"]["type"] == "string", "the list cannot be emptied"
    assert fields["precision"]["enum"] == ["float32", "bfloat16"]
    assert fields["kind"]["enum"] == ["prompts", "demonstrations"]
    assert fields["place"]["enum"] == ["cpu"], "a process of the worker stays in the pool that the graph is drawn for"
    assert "enum" not in fields["steps"] and (fields["steps"]["minimum"], fields["steps"]["maximum"]) == (1, 9)
    assert "enum" not in fields["base"] and "enum" not in fields["objective"]
    assert all(field["default"] in field["enum"] for field in fields.values() if "enum" in field)


def test_pods_move_between_pools_of_pods() -> None:
    pods = [name for name, pool in load_pools().items() if pool.runs_on == "pod"]
    fields = schemas("gsm8k")
    assert fields["pool"]["enum"] == fields["eval_pool"]["enum"] == pods
    assert {"h100x8", "h100x1"} <= set(pods) and "cpu" not in pods


def test_a_slot_proposes_its_operators_and_takes_others(tmp_path: Path) -> None:
    text = RECIPE.replace('steps: "${params.steps}"', 'objective: "${params.objective}"')
    (tmp_path / "choosing.yaml").write_text(text)
    field = schemas(str(tmp_path / "choosing.yaml"))["objective"]
    assert "ppo_clip" in field["examples"] and "enum" not in field and field["type"] == "string"
