"""`shards: N` in a recipe: what is expanded, what refers to it, and what people are shown of it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from components.contract.job import StageRef
from pipelines.cli import main
from pipelines.plan.plan import build_plan
from pipelines.recipe.recipe import Recipe, load_recipe
from pipelines.report.collect import Stage as Ended
from pipelines.report.shards import folded
from tests.pipelines.grammar import FOLDER

NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
"""What Kubernetes takes for a name; Airflow takes it, too."""
CORPUS = """\
name: real
stages:
  heldout:
    uses: curate
    with: {sources: [{source: {name: jsonl, path: ./rows.jsonl}, domain: x}]}
  corpus:
    uses: curate
    in: {against: heldout.dataset}
    with:
      kind: corpus
      STREAMED
      shards: SHARDS
      sources: [{source: {name: jsonl, path: ./rows.jsonl, columns: {text: text}}, domain: x}]
    expect: [{port: dataset, type: expect_column_values_to_not_be_null, kwargs: {column: text}}]
"""


@pytest.fixture
def shards(toy_catalog: None) -> Recipe:
    return load_recipe(str(FOLDER / "shards.yaml"))


def real(folder: Path, count: str = "16", streamed: str = "streamed: on") -> Path:
    (folder / "rows.jsonl").write_text('{"text": "a b", "prompt": "a", "answer": "b"}\n')
    path = folder / "real.yaml"
    path.write_text(CORPUS.replace("SHARDS", count).replace("STREAMED", streamed))
    return path


def test_each_shard_is_a_stage_and_the_stage_joins_them(shards: Recipe) -> None:
    stages = {stage.name: stage for stage in shards.stages}
    own = [f"rows-shard-0{index}" for index in range(4)]
    assert [name for name, stage in stages.items() if stage.shard_of == "rows"] == own
    joining = stages["rows"]
    assert joining.inputs["shards"] == [StageRef(stage=name, port="parts") for name in own]
    assert joining.params == {"shards": 4, "title": "whole"}
    assert set(joining.after) == {"first", *own}
    for index, name in enumerate(own):
        stage = stages[name]
        assert stage.params == {"shard": {"index": index, "of": 4}}, "its title is for the stage that joins"
        assert stage.inputs == {"dataset": [StageRef(stage="first", port="dataset")]}
        assert (stage.after, stage.when, stage.gate) == (["first"], "first.num_rows >= 1", [])
        assert (stage.retry, stage.timeout_seconds) == (joining.retry, 1200)
        assert set(stage.component.outputs) == {"parts"}
    assert joining.gate == ["num_rows > 0"] and joining.when == "first.num_rows >= 1"


def test_cells_and_rounds_have_shards_of_their_own(shards: Recipe) -> None:
    names = [stage.name for stage in shards.stages if stage.shard_of]
    assert [name for name in names if name.startswith("cells")] == [
        "cells-shard-00-size-2",
        "cells-shard-01-size-2",
        "cells-shard-00-size-3",
        "cells-shard-01-size-3",
    ]
    assert [name for name in names if name.startswith("loop-2")] == ["loop-2-more-shard-00", "loop-2-more-shard-01"]
    assert all(NAME.fullmatch(name) for name in names)
    tuned = next(stage for stage in shards.stages if stage.name == "tuned")
    read = [reference.stage for reference in tuned.inputs["dataset"] if isinstance(reference, StageRef)]
    assert read == ["cells-size-2", "cells-size-3", "loop-2-more"], "a reference is to what the recipe says"


def test_a_stage_that_is_left_out_leaves_its_shards_out(toy_catalog: None) -> None:
    recipe = load_recipe(str(FOLDER / "shards.yaml"), ["stages.rows.when=params.enough > 1"])
    left = {stage.name for stage in recipe.left_out}
    assert {"rows", "rows-shard-00", "rows-shard-03", "cells-size-2", "tuned"} <= left
    assert [stage.name for stage in recipe.stages] == ["first", "base"]


def test_without_shards_a_job_is_as_ever(toy_catalog: None) -> None:
    recipe = load_recipe(str(FOLDER / "shards.yaml"), ["stages.rows.with.shards=null"])
    assert not any(stage.shard_of == "rows" for stage in recipe.stages)
    job = next(job for job in build_plan(recipe, "store", "run").jobs if job.stage == "rows")
    assert "shards" not in job.inputs


def test_the_real_curate_takes_what_a_shard_needs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = load_recipe(str(real(tmp_path)))
    stages = {stage.name: stage for stage in recipe.stages}
    assert len(stages) == 18 and list(stages)[-1] == "corpus"
    shard = stages["corpus-shard-15"]
    assert shard.inputs == {"against": [StageRef(stage="heldout", port="dataset")]}
    assert shard.expect == [] and len(stages["corpus"].expect) == 1
    assert shard.config.model_dump()["shard"] == {"index": 15, "of": 16}
    assert main(["validate", str(tmp_path / "real.yaml")]) == 0
    assert capsys.readouterr().out == "real: valid, 2 stages and 16 shards\n"


def test_a_plan_shows_what_was_written_and_what_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(real(tmp_path))
    assert main(["plan", path, "--store", str(tmp_path / "store")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("2 stages and 16 shards | ")
    [shards] = [line for line in lines if line.startswith("corpus-shard-00 to corpus-shard-15 ")]
    assert shards.split()[-1] == "heldout"
    [joining] = [line for line in lines if line.startswith("corpus ")]
    assert joining.endswith("heldout, corpus-shard-00 to corpus-shard-15")
    assert main(["plan", path, "--store", str(tmp_path / "store"), "--json"]) == 0
    planned = json.loads(capsys.readouterr().out)["stages"]
    assert [stage.get("shard_of") for stage in planned] == [None, *["corpus"] * 16, None]


@pytest.mark.parametrize(
    ("count", "streamed", "message"),
    [
        ("0", "streamed: on", "real.yaml:12:15: stage 'corpus', with.shards: got 0, expected a number of at least 1"),
        ("257", "streamed: on", "real.yaml:12:15: stage 'corpus', with.shards: got 257, expected a number of at most"),
        ("4", "shuffle: true", "real.yaml:10:7: stage 'corpus', with: shards: only a streamed corpus is divided"),
    ],
)
def test_mistakes_are_told_by_file_and_line(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    count: str,
    streamed: str,
    message: str,
) -> None:
    monkeypatch.chdir(real(tmp_path, count, streamed).parent)
    assert main(["validate", "./real.yaml"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(message)


def test_the_picture_of_a_run_has_one_box_for_shards_that_ended_alike() -> None:
    def ended(name: str, after: list[str], shard_of: str = "", error: str | None = None) -> Ended:
        entry = None if error else {"status": "done", "cache": "miss", "seconds": 2.0}
        return Ended(name, "curate", name, {}, after, entry, error, shard_of=shard_of)

    stages = [ended("a", [])]
    stages += [ended(f"c-shard-0{n}", ["a"], "c", "killed" if n == 2 else None) for n in range(4)]
    stages += [ended("c", ["a", *(f"c-shard-0{n}" for n in range(4))]), ended("d", ["c"])]
    found = {stage.name: stage for stage in folded(stages)}
    assert list(found) == ["a", "3 shards of c, done", "1 shard of c, failed", "c", "d"]
    assert found["3 shards of c, done"].seconds == 6.0 and found["3 shards of c, done"].after == ["a"]
    assert found["c"].after == ["a", "3 shards of c, done", "1 shard of c, failed"]
    assert found["d"].after == ["c"]
