"""The DAG file while git-sync moves its recipes: one parse shows one commit."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.engines.airflow import dag
from pipelines.engines.airflow.dag import airflow_dags
from pipelines.engines.airflow.graphs import shown
from pipelines.language.find import VARIABLE
from tests.pipelines.language.git_sync import GitSync

RECIPE = """\
name: {name}
summary: of commit {commit}
stages: {{base: {{uses: pretrain, with: {{layers: 1}}}}}}
"""


def test_a_link_that_moves_in_the_middle_of_parsing_mixes_no_commits(
    toy_catalog: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = GitSync(tmp_path)
    for commit in (1, 2):
        sync.commit({f"recipes/{name}.yaml": RECIPE.format(name=name, commit=commit) for name in ("one", "two")})
    sync.move_to(sync.commits[0])
    (tmp_path / "pools.yaml").write_text("cpu: {cpus: 1, memory_gib: 4}\n")
    monkeypatch.setenv("POSTTRAIN_POOLS", str(tmp_path / "pools.yaml"))
    monkeypatch.setenv("POSTTRAIN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv(VARIABLE, str(sync.link / "recipes"))
    own = {name: sync.link / "recipes" / f"{name}.yaml" for name in ("one", "two")}
    monkeypatch.setattr(shown, "shown_recipes", lambda: own)
    monkeypatch.setattr(dag, "recipe_files", lambda: own)
    read, seen = shown.read, []

    def moving(path: Path) -> object:
        recipe = read(path)
        seen.append((path.stem, recipe.summary))
        if len(seen) == 1:
            sync.move_to(sync.commits[1])
        return recipe

    monkeypatch.setattr(shown, "read", moving)
    found = {name: made.description for name, made in airflow_dags().items()}
    assert found == {"one": "of commit 2", "two": "of commit 2"}
    assert seen[0] == ("one", "of commit 1"), "the first try saw the earlier commit"
