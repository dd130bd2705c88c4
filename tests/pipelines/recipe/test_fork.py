"""`fork` and `keep_partial` in a recipe: what they become, and how mistakes are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.contract.job import Fork
from pipelines.plan.plan import build_plan
from tests.pipelines.writing import load, messages, stages, with_stages

pytestmark = pytest.mark.usefixtures("toy_catalog")
RL = "rl: {uses: rl, in: {model: base.model, dataset: data.dataset}}"
AT = ("fork.run=quickstart-20261125-101500-ab12", "fork.at=rl@40")


def test_a_fork_is_of_one_stage(tmp_path: Path) -> None:
    recipe = load(tmp_path, with_stages(RL), *AT, "fork.name=wider")
    assert recipe.fork is not None and (recipe.fork.place, recipe.fork.name) == ("rl@40", "wider")
    jobs = {job.stage: job.fork for job in build_plan(recipe, "store", "run").jobs}
    assert jobs == {"base": None, "data": None, "rl": Fork(run="quickstart-20261125-101500-ab12", step=40)}


def test_a_name_changes_no_plan(tmp_path: Path) -> None:
    plans = {
        build_plan(load(tmp_path, with_stages(RL), *AT, *name), "s", "r").digest for name in ((), ("fork.name=a",))
    }
    assert len(plans) == 1
    assert build_plan(load(tmp_path, with_stages(RL)), "s", "r").digest not in plans


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("fork.at=rl", "fork.at: got 'rl', expected STAGE@STEP, such as rl@40"),
        ("fork.at=rl@0", "expected STAGE@STEP"),
        ("fork.at=r@40", "fork.at: unknown stage 'r'"),
        ("fork.at=data@2", "component 'curate' makes no checkpoints of steps; stages that can be forked: rl"),
        ("fork.runs=a", "'runs'"),
        ("fork.name=No", "name"),
        ("fork=latest", "fork"),
    ],
)
def test_mistakes_in_a_fork(tmp_path: Path, override: str, told: str) -> None:
    (message,) = messages(tmp_path, with_stages(RL), *AT, override)
    assert told in message


@pytest.mark.parametrize("written", ["every 50", "50"])
def test_checkpoints_that_are_kept(tmp_path: Path, written: str) -> None:
    recipe = load(tmp_path, with_stages(RL), f"stages.rl.keep_partial={written}")
    assert stages(recipe)["rl"].keep_partial == 50
    assert [job.keep_partial for job in build_plan(recipe, "s", "r").jobs] == [None, None, 50]


def test_a_default_means_nothing_where_no_steps_are(tmp_path: Path) -> None:
    recipe = load(tmp_path, with_stages(RL, "defaults: {keep_partial: every 5}"))
    assert {name: stage.keep_partial for name, stage in stages(recipe).items()} == {"base": None, "data": None, "rl": 5}


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("stages.rl.keep_partial=often", "expected a number of steps, such as `every 50`"),
        ("stages.rl.keep_partial=0", "expected a number of steps"),
        ("stages.rl.keep_partial=true", "expected a number of steps"),
        ("stages.data.keep_partial=5", "keep_partial: component 'curate' makes no checkpoints of steps"),
    ],
)
def test_mistakes_in_what_is_kept(tmp_path: Path, override: str, told: str) -> None:
    (message,) = messages(tmp_path, with_stages(RL), override)
    assert told in message
