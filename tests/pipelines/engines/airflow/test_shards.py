"""Shards in Airflow's graph: as many tasks side by side, in a group, and the stage that joins behind them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.engines.airflow.dag import recipe_dag
from pipelines.engines.airflow.names import PLAN, REPORT
from pipelines.recipe.recipe import load_recipe
from tests.pipelines.recipe.test_shards import real


@pytest.mark.parametrize("pods", ["worker", "pod"])
def test_sixteen_shards_stand_side_by_side_before_the_join(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pods: str
) -> None:
    monkeypatch.setenv("POSTTRAIN_RUNS_ON", pods)
    dag = recipe_dag(load_recipe(str(real(tmp_path)), whole=True), "real")
    shards = {f"corpus-shard-{index:02d}" for index in range(16)}
    assert set(dag.task_dict) == {PLAN, "heldout", *shards, "corpus", REPORT}
    for name in shards:
        task = dag.task_dict[name]
        assert task.upstream_task_ids == {"heldout"} and task.downstream_task_ids == {"corpus"}
        assert task.task_group.group_id == "corpus-shards"
    assert dag.task_dict["corpus"].upstream_task_ids == {"heldout", *shards}
    assert dag.task_dict["corpus"].downstream_task_ids == {REPORT}
    assert dag.task_group.children["corpus-shards"].group_display_name == "shards of corpus"
