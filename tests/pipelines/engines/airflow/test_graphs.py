"""Drawings of recipes that are kept: the same DAGs, never of what was there before, and never what others wrote."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.serialization.serialized_objects import DagSerialization

from components.runtime.store.records import seal
from pipelines.engines.airflow.dag import airflow_dags
from pipelines.engines.airflow.graphs import cache, shown

RECIPE = """\
name: own
extends: parent.yaml
stages:
  measure: {uses: evaluate, in: {model: "hf:organisation/model", dataset: data.dataset}, approve: {timeout: 1h}}
"""
PARENT = """\
name: parent
schedule: {cron: "0 3 * * *", on: ["s3://bucket/rows/"]}
params: {rows: {default: 8, min: 1}}
stages:
  data:
    uses: curate
    with:
      kind: prompts
      sources: [{domain: sums, count: "${params.rows}", source: {name: reasoning_gym, task: chain_sum}}]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A recipe that has a parent; only it is shown, and the code of this tree counts as settled."""
    recipes = tmp_path / "recipes"
    recipes.mkdir()
    (recipes / "own.yaml").write_text(RECIPE)
    (recipes / "parent.yaml").write_text(PARENT)
    monkeypatch.setenv("POSTTRAIN_RECIPES", str(recipes))
    monkeypatch.setenv("POSTTRAIN_AIRFLOW_GRAPHS", str(tmp_path / "graphs"))
    monkeypatch.setattr(shown, "shown_recipes", lambda: {"own": recipes / "own.yaml"})
    monkeypatch.setattr(cache, "LOADED", 1e12)
    return recipes


def parse(monkeypatch: pytest.MonkeyPatch, **environment: str) -> tuple[dict[str, Any], int]:
    """Return the serialised DAG as the DAG processor makes it, and how many recipes were read for it."""
    read: list[Path] = []
    with monkeypatch.context() as patch:
        original = shown.read
        patch.setattr(shown, "read", lambda path: (read.append(path), original(path))[1])
        for name, value in environment.items():
            patch.setenv(name, value)
        dags = airflow_dags()
    return DagSerialization.to_dict(dags["own"]), len(read)


def kept(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "graphs").glob("*.json"))


def test_a_kept_drawing_gives_the_same_dag(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, read = parse(monkeypatch)
    assert read == 1 and len(kept(tmp_path)) == 1
    again, read = parse(monkeypatch)
    assert (read, again) == (0, first)
    assert kept(tmp_path)[0].stat().st_mode & 0o077 == 0 or (tmp_path / "graphs").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("pods", ["worker", "pod"])
def test_shipped_recipes_give_the_same_dags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pods: str) -> None:
    monkeypatch.setenv("POSTTRAIN_AIRFLOW_GRAPHS", str(tmp_path / "graphs"))
    monkeypatch.setenv("POSTTRAIN_RUNS_ON", pods)
    monkeypatch.setattr(cache, "LOADED", 1e12)
    fresh = {name: DagSerialization.to_dict(dag) for name, dag in airflow_dags().items()}
    assert len(kept(tmp_path)) == len(fresh) > 5
    monkeypatch.setattr(shown, "read", lambda path: pytest.fail(f"{path} was read"))
    assert {name: DagSerialization.to_dict(dag) for name, dag in airflow_dags().items()} == fresh


CHANGES: dict[str, Callable[[Path, Path, pytest.MonkeyPatch], object]] = {
    "the recipe": lambda folder, code, patch: (folder / "own.yaml").write_text(RECIPE.replace("1h", "2h")),
    "its parent": lambda folder, code, patch: (folder / "parent.yaml").write_text(PARENT.replace("8", "9")),
    "a name": lambda folder, code, patch: (folder / "curate.yaml").write_text("name: curate\n"),
    "code": lambda folder, code, patch: (code / "pipelines" / "one.py").write_text("changed = 1\n"),
    "new code": lambda folder, code, patch: (code / "components" / "two.py").write_text(""),
    "pools": lambda folder, code, patch: patch.setenv("POSTTRAIN_POOLS", _pools(code)),
    "where stages run": lambda folder, code, patch: patch.setenv("POSTTRAIN_RUNS_ON", "pod"),
}


def _pools(code: Path) -> str:
    (code / "pools.yaml").write_text("cpu: {cpus: 1, memory_gib: 3}\n")
    return str(code / "pools.yaml")


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_whatever_it_was_made_of_changes_it_is_made_anew(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[..., object]
) -> None:
    code = tmp_path / "code"
    for name in ("pipelines", "components"):
        (code / name).mkdir(parents=True)
        (code / name / "one.py").write_text("changed = 0\n")
    monkeypatch.setattr(cache, "ROOT", code)
    parse(monkeypatch)
    assert parse(monkeypatch)[1] == 0
    change(folder, code, monkeypatch)
    assert parse(monkeypatch)[1] == 1
    assert parse(monkeypatch)[1] == 0


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda data: data[: len(data) // 2],
    "one bit": lambda data: data[:200] + bytes([data[200] ^ 1]) + data[201:],
    "empty": lambda data: b"",
    "no characters": lambda data: b"\xff\xfe" * 40,
    "another form": lambda data: _signed({"recipe": "own"}),
    "no JSON": lambda data: seal({"files": {}, "drawing": "{"}),
    "no text": lambda data: seal({"files": {}, "drawing": {"recipe": "own"}}),
    "no form": lambda data: seal([1, 2]),  # type: ignore[arg-type]
    "files of no form": lambda data: _signed({}, files=[]),
}


def _signed(drawing: Any, files: Any = None) -> bytes:
    return seal({"files": {} if files is None else files, "drawing": json.dumps(drawing)})


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_drawing_is_none(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[bytes], bytes]
) -> None:
    first, _ = parse(monkeypatch)
    (path,) = kept(tmp_path)
    path.write_bytes(damage(path.read_bytes()))
    assert parse(monkeypatch) == (first, 1)
    assert parse(monkeypatch) == (first, 0), "and is mended"


@pytest.mark.parametrize("where", ["file", "folder"])
def test_what_others_may_write_is_not_used(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    parse(monkeypatch)
    (path,) = kept(tmp_path)
    (path if where == "file" else path.parent).chmod(0o777)
    assert parse(monkeypatch)[1] == 1


def test_code_that_has_just_changed_is_not_drawn_from(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest = max(path.stat().st_ctime for path in (cache.ROOT / "pipelines").rglob("*.py"))
    monkeypatch.setattr(cache, "LOADED", newest + 1)
    parse(monkeypatch)
    assert kept(tmp_path) == []


def test_a_change_while_recipes_are_read_keeps_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pools, original = tmp_path / "pools.yaml", shown.drawing_of
    pools.write_text("cpu: {cpus: 1, memory_gib: 4}\n")
    monkeypatch.setenv("POSTTRAIN_POOLS", str(pools))

    def meanwhile(recipe: Any, name: str) -> Any:
        pools.write_text("cpu: {cpus: 1, memory_gib: 3}\n")
        return original(recipe, name)

    monkeypatch.setattr(shown, "drawing_of", meanwhile)
    parse(monkeypatch)
    assert kept(tmp_path) == []


def test_a_folder_that_takes_nothing_only_costs_time(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "graphs").write_text("a file, where a folder should be")
    first, read = parse(monkeypatch)
    assert read == 1 and parse(monkeypatch) == (first, 1)


def test_an_image_keeps_drawings_of_code_that_has_just_been_copied(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "LOADED", 0.0)
    assert shown.main() == 0 and len(kept(tmp_path)) == 1
    assert parse(monkeypatch)[1] == 0
    (folder / "own.yaml").write_text("name: own\nstages: {data: {uses: curat}}\n")
    assert shown.main() == 2
