"""Shards in Kubeflow's pipeline: as many parallel tasks, and the stage that joins behind them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pipelines.engines.kubeflow.names import PLAN
from tests.pipelines.engines.kubeflow.examples import compiled, parsed, tasks_of
from tests.pipelines.recipe.test_shards import real

LABEL = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")


@pytest.mark.parametrize("count", [1, 16, 64])
def test_shards_are_parallel_tasks_before_the_join(tmp_path: Path, cluster: None, count: int) -> None:
    path = real(tmp_path, str(count))
    path.write_text(path.read_text().replace("path: ./rows.jsonl", "path: s3://bucket/rows.jsonl"))
    pipeline, _ = parsed(compiled(path))
    tasks = tasks_of(pipeline)
    shards = {f"corpus-shard-{index:02d}" for index in range(count)}
    assert shards <= set(tasks) and all(LABEL.fullmatch(name) for name in tasks)
    for name in shards:
        assert set(tasks[name]["dependentTasks"]) - {PLAN} == {"heldout"}
    assert set(tasks["corpus"]["dependentTasks"]) - {PLAN} == {"heldout", *shards}
    taken = [name for name in tasks["corpus"]["inputs"]["artifacts"] if name.startswith("shards")]
    assert len(taken) == count
