"""Compiled pipelines: read back with Kubeflow's own messages, equal to files that were looked through, and quick."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from components.contract.errors import InputError
from pipelines.engines.kubeflow.compiler.bundle import Bundle
from pipelines.engines.kubeflow.compiler.compiler import compile_recipe
from pipelines.engines.kubeflow.compiler.form import arguments_of, form_of
from pipelines.engines.kubeflow.compiler.settings import Settings
from pipelines.engines.kubeflow.compiler.size import fits, workflow_bytes
from pipelines.engines.kubeflow.names import SET
from pipelines.language.find import recipe_files
from pipelines.recipe.recipe import load_recipe
from tests.pipelines import grammar
from tests.pipelines.engines.kubeflow.examples import (
    ENVIRONMENT,
    FOLDER,
    POOLS,
    RECIPES,
    compiled,
    parsed,
    tasks_of,
)

ROOT = Path(__file__).parents[4]
WRITE = "WRITE_GOLDEN"
SHIPPED = (
    *("quickstart", "quickstart-seeds", "champion", "expert-iteration", "dpo", "levels"),
    *("testbed", "testbed-rules"),
)


@pytest.fixture
def toys(toy_catalog: None, cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The toy components, and pools of every kind."""
    (tmp_path / "pools.yaml").write_text(POOLS)
    monkeypatch.setenv("POSTTRAIN_POOLS", str(tmp_path / "pools.yaml"))
    monkeypatch.chdir(ROOT)


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_feature_compiles_to_the_file_that_was_looked_through(toys: None, path: Path) -> None:
    golden = FOLDER / "golden" / f"{path.stem}.yaml"
    text = compiled(path)
    if os.environ.get(WRITE):
        golden.write_text(text)
    assert text == golden.read_text(), f"{WRITE}=1 writes the files anew; look through what changed"
    parsed(text)


@pytest.mark.parametrize("path", grammar.RECIPES, ids=lambda path: path.stem)
def test_every_word_of_the_language_is_a_pipeline(toys: None, path: Path) -> None:
    parsed(compiled(path))


@pytest.mark.parametrize("name", [*SHIPPED, *sorted(set(recipe_files()) - set(SHIPPED))[:6]])
def test_shipped_recipes_are_read_back(name: str) -> None:
    data = [f"{split}=s3://data/{split}.jsonl" for split in ("train", "test")] if name == "gsm8k" else []
    recipe = load_recipe(name, data, whole=True)
    pipeline, _ = parsed(compiled(name, overrides=data))
    stages = [stage for stage in recipe.stages if stage.approve] + list(recipe.stages)
    assert len(tasks_of(pipeline)) == len(stages) + 1
    bundle = json.loads(pipeline["deploymentSpec"]["executors"]["exec-posttrain-plan"]["container"]["args"][1])
    assert next(iter(bundle["files"].values())) == recipe.text


def test_the_bytes_are_the_same_in_every_process(tmp_path: Path) -> None:
    texts = []
    for seed in ("1", "2"):
        target = tmp_path / f"{seed}.yaml"
        done = subprocess.run(
            [sys.executable, "-m", "pipelines.cli", "compile", "quickstart", "--set", "rl_steps=3", "-o", str(target)],
            cwd=ROOT if seed == "1" else tmp_path,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        texts.append(target.read_text())
    assert texts[0] == texts[1]
    assert parsed(texts[0])[0]["root"]["inputDefinitions"]["parameters"]["rl_steps"]["defaultValue"] == 3


def test_two_hundred_stages_take_less_than_ten_seconds(toys: None, tmp_path: Path) -> None:
    lines = ["name: long", "stages:", "  s0: {uses: pretrain, with: {layers: 1}}", "  rows: {uses: curate}"]
    lines += [f"  s{i}: {{uses: sft, in: {{model: s{i - 1}.model, dataset: rows.dataset}}}}" for i in range(1, 199)]
    (tmp_path / "long.yaml").write_text("\n".join(lines))
    recipe = load_recipe(str(tmp_path / "long.yaml"))
    began = time.process_time()
    with ThreadPoolExecutor(1) as fresh:  # kfp looks at the whole stack for each setting, and pytest's is a deep one
        text = fresh.submit(compile_recipe, recipe, Settings.read(ENVIRONMENT)).result()
    assert time.process_time() - began < 10
    pipeline, executors = parsed(text)
    assert len(tasks_of(pipeline)) == 201
    assert len(executors) == 5, "one for each kind of stage, one begins and one ends"
    platform = {"platforms": {"kubernetes": {"deploymentSpec": {"executors": executors}}}}
    size = workflow_bytes(pipeline, platform)
    assert fits(size) and not fits(2 * size)


def test_no_secret_reaches_a_compiled_file(toys: None, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = "planted-secret-value"
    names = ("AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "HF_TOKEN", "POSTTRAIN_KUBEFLOW_TOKEN")
    for name in names:
        monkeypatch.setenv(name, planted)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"https://me:{planted}@mlflow.example")
    for path in RECIPES:
        text = compile_recipe(load_recipe(str(path), whole=True), Settings.read({**os.environ, **ENVIRONMENT}))
        assert planted not in text
        assert "AWS_SECRET_ACCESS_KEY" in text  # named, so that the cluster fills it in


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"POSTTRAIN_IMAGE_CPU": ""}, r"POSTTRAIN_IMAGE_CPU is not set: name the image .* \(stages: "),
        ({"POSTTRAIN_IMAGE_CPU": "posttrain-cpu:latest"}, "expected an image by its digest"),
        ({"POSTTRAIN_KUBEFLOW_SECRETS": "store"}, r"'store': expected name:KEY\+KEY"),
        ({"POSTTRAIN_KUBEFLOW_SECRETS": "Store:KEY"}, "expected the name of a Kubernetes object"),
        ({"POSTTRAIN_POD_NAMESPACE": "Not Right"}, "expected the name of a Kubernetes object"),
    ],
)
def test_what_of_the_settings_cannot_be_used_is_said(toys: None, changes: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        compiled(FOLDER / "recipes" / "base.yaml", {**ENVIRONMENT, **changes})


def test_an_image_of_this_machine_is_for_the_local_runner(toys: None) -> None:
    text = compiled(FOLDER / "recipes" / "base.yaml", {"POSTTRAIN_IMAGE_CPU": "localhost/posttrain-cpu:1"})
    assert "image: localhost/posttrain-cpu:1" in text


def test_a_file_of_this_machine_is_refused(toys: None, tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    (tmp_path / "own.yaml").write_text(
        "name: own\nstages:\n  base: {uses: pretrain, with: {layers: 1}}\n"
        "  tuned: {uses: sft, in: {model: base.model, dataset: ./rows}}\n"
    )
    with pytest.raises(InputError, match=r"pods cannot read .*/rows: put it into a bucket.*\(stages: tuned\)"):
        compiled(tmp_path / "own.yaml")


@pytest.mark.parametrize(("there", "said"), [(True, "pods cannot read .*"), (False, "")])
def test_a_table_of_this_machine_is_refused(cluster: None, tmp_path: Path, there: bool, said: str) -> None:
    if there:
        (tmp_path / "rows.jsonl").write_text("{}\n")
    (tmp_path / "own.yaml").write_text(
        "name: own\nstages:\n  rows:\n    uses: curate\n"
        "    with: {sources: [{domain: a, source: {name: jsonl, path: rows.jsonl}}]}\n"
    )
    with pytest.raises(InputError, match=rf"{said}{tmp_path}/rows\.jsonl.*into a bucket.*\(stages: rows\)"):
        compiled(tmp_path / "own.yaml")
    assert "s3://data/rows.jsonl" in compiled(
        tmp_path / "own.yaml", overrides=["stages.rows.with.sources.0.source.path=s3://data/rows.jsonl"]
    )


def test_circles_names_and_counts_are_checked_before_kfp_sees_them(toys: None) -> None:
    recipe = load_recipe(str(FOLDER / "recipes" / "base.yaml"))
    base, data = recipe.stages
    circle = [replace(base, after=["data"]), replace(data, after=["base"])]
    retry = base.retry.model_copy(update={"retries": -1})
    wrong = {
        "in a circle: .*base": circle,
        "two tasks would be called 'posttrain-plan'": [replace(base, name="posttrain_plan")],
        "two tasks would be called 'a-b'": [replace(base, name="a-b"), replace(data, name="a_b")],
        "waits for 'gone', which is not a stage": [replace(base, after=["gone"])],
        "-1 retries, expected 0 to 20": [replace(base, retry=retry)],
        "a timeout of 0 s": [replace(base, timeout_seconds=0)],
        "no stages are left": [],
    }
    for message, stages in wrong.items():
        with pytest.raises(InputError, match=message):
            compile_recipe(replace(recipe, stages=tuple(stages)), Settings.read(ENVIRONMENT))


def test_parameters_whose_names_would_be_one_are_refused(toys: None, tmp_path: Path) -> None:
    (tmp_path / "twins.yaml").write_text("name: twins\nparams: {a-b: 1, a_b: 2}\nstages: {data: {uses: curate}}\n")
    with pytest.raises(InputError, match="parameter 'a_b' would be called 'a_b' in Kubeflow, like another parameter"):
        compiled(tmp_path / "twins.yaml")


def test_a_parameter_that_holds_null_is_set_like_any_other_part(toys: None, tmp_path: Path) -> None:
    path = tmp_path / "holes.yaml"
    path.write_text("name: holes\nparams: {sizes: {full: {data: null}}, n: 3}\nstages: {data: {uses: curate}}\n")
    spec, _ = parsed(compiled(path))
    assert "n" in spec["root"]["inputDefinitions"]["parameters"]
    assert "sizes" not in spec["root"]["inputDefinitions"]["parameters"]
    recipe = load_recipe(str(path), whole=True)
    wanted = {"sizes": {"full": {"data": "x"}}, "n": 4}
    assert arguments_of(recipe, wanted, form_of(recipe, "s")) == {"n": 4, SET: ['sizes={"full": {"data": "x"}}']}


def test_a_recipe_that_is_too_large_to_travel_is_refused(toys: None, tmp_path: Path) -> None:
    text = "name: large\nstages: {data: {uses: curate}}\n" + "# far too much to say\n" * 6000
    (tmp_path / "large.yaml").write_text(text)
    with pytest.raises(InputError, match="may have 100000 bytes on Kubeflow"):
        Bundle.of(load_recipe(str(tmp_path / "large.yaml")))
