"""Recipes beyond one pipeline: parts within the limits, strictly of Kubeflow's form, that hold each stage once."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from components.contract.errors import InputError
from pipelines.engines.kubeflow.compiler import parts, size
from pipelines.engines.kubeflow.compiler.parts import Packed, split, unpack
from pipelines.engines.kubeflow.compiler.size import workflow_bytes
from pipelines.engines.kubeflow.names import approval_task, part_task, task_name
from pipelines.recipe.recipe import Recipe, load_recipe
from tests.pipelines.engines.kubeflow.examples import POOLS, compiled, parsed, tasks_of

ARGUMENT_BYTES = 128 * 1024
"""Linux' limit of one argument; Kubeflow's driver gets a task's container as one."""
LARGE = """\
name: large
summary: Many seeds of several rounds
matrix: {{seed: {seeds}}}
stages:
  data: {{uses: curate, matrix: none}}
  base: {{uses: pretrain, matrix: none, with: {{layers: 1}}}}
  loop:
    repeat: {rounds}
    carry: {{model: base.model}}
    yield: {{model: tuned.model}}
    stages:
      tuned: {{uses: sft, in: {{model: carry.model, dataset: data.dataset}}, with: {{steps: 3}}}}
      check: {{uses: evaluate, in: {{model: tuned.model, dataset: data.heldout}}}}
"""


@pytest.fixture
def folder(toy_catalog: None, cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for recipes, with pools of every kind."""
    (tmp_path / "pools.yaml").write_text(POOLS)
    monkeypatch.setenv("POSTTRAIN_POOLS", str(tmp_path / "pools.yaml"))
    return tmp_path


def recipe_of(folder: Path, seeds: int, rounds: int) -> Recipe:
    """Return a recipe of 2 + seeds * rounds * 2 stages."""
    (folder / "large.yaml").write_text(LARGE.format(seeds=list(range(seeds)), rounds=rounds))
    return load_recipe(str(folder / "large.yaml"), whole=True)


def texts_of(whole: dict[str, Any]) -> dict[str, str]:
    """Return task -> the pipeline that it starts, of a compiled run of parts."""
    found = {}
    for task, spec in tasks_of(whole).items():
        label = whole["components"][spec["componentRef"]["name"]]["executorLabel"]
        container = whole["deploymentSpec"]["executors"][label]["container"]
        if container["command"][-1].endswith(".part"):
            found[task] = unpack(container["args"][container["args"].index("--pipeline") + 1])
    return found


def check_parts(text: str, recipe: Recipe) -> int:
    """Check form, size and order of all pipelines; return how many parts there are."""
    whole, _ = parsed(text)
    inner = texts_of(whole)
    waits = {task: set(spec.get("dependentTasks", [])) for task, spec in tasks_of(whole).items()}
    held: dict[str, str] = {}
    for one in (text, *inner.values()):
        pipeline, _ = parsed(one)
        assert size.fits(workflow_bytes(*yaml.load_all(one, yaml.CSafeLoader)))
        for executor in pipeline["deploymentSpec"]["executors"].values():
            assert len(json.dumps(executor["container"])) < ARGUMENT_BYTES
    drawn = {part: parsed(one)[0]["root"]["dag"]["tasks"] for part, one in inner.items()}
    for part, tasks in drawn.items():
        assert not held.keys() & tasks.keys(), "no task is in two parts"
        held |= dict.fromkeys(tasks, part)
    assert set(held) == {
        name
        for stage in recipe.stages
        for name in (task_name(stage.name), *([approval_task(stage.name)] if stage.approve else []))
    }
    for stage in recipe.stages:
        part = held[task_name(stage.name)]
        for before in map(task_name, stage.after):
            assert held[before] == part or held[before] in waits[part]
            if held[before] == part and stage.approve is None:
                assert before in drawn[part][task_name(stage.name)]["dependentTasks"]
    return len(inner)


def test_a_large_recipe_becomes_parts_that_each_fit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = recipe_of(folder, seeds=5, rounds=3)
    alone = compiled(folder / "large.yaml")
    assert not texts_of(parsed(alone)[0]), "32 stages are one pipeline"
    monkeypatch.setattr(parts, "STAGES", 16)
    monkeypatch.setattr(size, "LIMIT_BYTES", size.ROOM_BYTES + 100_000)
    assert check_parts(compiled(folder / "large.yaml"), recipe) == 3, "two cells, two, one"
    monkeypatch.setattr(size, "LIMIT_BYTES", size.ROOM_BYTES + 66_000)
    assert check_parts(compiled(folder / "large.yaml"), recipe) > 3, "what does not fit is cut in two"
    assert compiled(folder / "large.yaml") == compiled(folder / "large.yaml")


@pytest.mark.slow
def test_a_thousand_stages_compile(folder: Path) -> None:
    recipe = recipe_of(folder, seeds=125, rounds=4)
    assert len(recipe.stages) == 1002
    text = compiled(folder / "large.yaml")
    assert check_parts(text, recipe) == 6
    assert len(text) < 100_000
    waits = {task: spec.get("dependentTasks") for task, spec in tasks_of(parsed(text)[0]).items()}
    first = {"posttrain-part-1", "posttrain-plan"}
    assert all(set(waits[part_task(number)]) == first for number in range(2, 7)), "cells are not parted"


def stage(name: str, after: list[str]) -> Any:
    return SimpleNamespace(name=name, after=after)


def fake(stages: Any) -> tuple[str, int]:
    """Return a pipeline of 1,000 bytes for each stage."""
    return " ".join(one.name for one in stages), 1_000 * len(stages)


def check_split(stages: list[Any], found: list[Packed], most: int) -> None:
    """Check that parts hold all stages once, in an order in which each comes after what it needs."""
    names = [unpack(part.text).split() for part in found]
    assert sorted(name for part in names for name in part) == sorted(one.name for one in stages)
    assert [part.number for part in found] == list(range(1, len(found) + 1))
    assert [part.stages for part in found] == [len(part) for part in names] and max(map(len, names)) <= most
    number = {name: part.number for part, held in zip(found, names, strict=True) for name in held}
    place = {name: index for index, name in enumerate(name for held in names for name in held)}
    for one in stages:
        assert all(place[before] < place[one.name] for before in one.after)
    for part, held in zip(found, names, strict=True):
        needed = {number[before] for one in stages if one.name in held for before in one.after}
        assert set(part.after) == needed - {part.number} and all(other < part.number for other in part.after)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 40), st.integers(1, 12), st.integers(1, 9), st.randoms(use_true_random=False))
def test_any_graph_is_split_in_order(count: int, chunk: int, most: int, random: Any) -> None:
    names = [f"s{number}" for number in range(count)]
    stages = [stage(name, random.sample(names[:at], k=random.randint(0, min(at, 3)))) for at, name in enumerate(names)]
    random.shuffle(stages)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "STAGES", chunk)
        patch.setattr(size, "LIMIT_BYTES", size.ROOM_BYTES + 1_000 * most)
        check_split(stages, split(stages, fake), most)


def test_cells_that_need_nothing_of_one_another_are_parts_that_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    cells = [stage(f"{step}{cell}", [f"{step - 1}{cell}"] if step else []) for step in range(3) for cell in "abcd"]
    monkeypatch.setattr(parts, "STAGES", 4)
    found = split(cells, fake)
    assert [unpack(part.text) for part in found] == ["0a 1a 2a", "0b 1b 2b", "0c 1c 2c", "0d 1d 2d"]
    assert {part.after for part in found} == {()}
    assert part_task(found[3].number) == "posttrain-part-4"


def test_cells_stay_together_whatever_they_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each cell has data of its own from shared data, a shared model, a check on the way, and all meet in a table."""
    drawn = [stage("data", []), stage("model", [])]
    drawn += [stage(f"own{cell}", ["data"]) for cell in "abc"]
    drawn += [stage(f"train{cell}", [f"own{cell}", "model"]) for cell in "abc"]
    drawn += [stage(f"check{cell}", [f"train{cell}", "data"]) for cell in "abc"]
    drawn += [stage(f"more{cell}", [f"train{cell}"]) for cell in "abc"]
    drawn += [stage("table", [f"more{cell}" for cell in "abc"])]
    monkeypatch.setattr(parts, "STAGES", 8)
    found = split(drawn, fake)
    assert [unpack(part.text) for part in found] == [
        "data owna model traina checka morea",
        "ownb trainb checkb moreb ownc trainc checkc morec",
        "table",
    ]
    assert [part.after for part in found] == [(), (1,), (1, 2)]


def test_a_stage_that_is_too_large_alone_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(size, "LIMIT_BYTES", size.ROOM_BYTES + 500)
    with pytest.raises(InputError, match="cannot take stage 'a': alone its workflow would have some 1,000 bytes"):
        split([stage("b", ["a"]), stage("a", [])], fake)
