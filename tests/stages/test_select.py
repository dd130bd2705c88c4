"""The select stage end to end on toy models with known skills."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from components.contract.artifacts import ArtifactType, describe_folder
from components.contract.errors import InputError
from components.contract.samples import read_samples
from components.evaluate.component import COMPONENT as EVALUATE
from components.measure.ledger import read_ledger
from components.select.component import COMPONENT
from tests.stages.toy_models import prompt_rows, toy_models
from tests.support.stage_context import Finished, Interrupted, run_stage, write_jsonl

PARAMS = {
    "num_samples": {"copy": 8, "flip": 4},
    "max_new_tokens": 5,
    "bootstrap_samples": 300,
    "objective": {"metric": "pass_at_1", "domain": "copy"},
    "constraints": [{"metric": "pass_at_1", "domain": "flip", "max_drop": 0.2}],
}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Checkpoints of a run that learnt and then forgot, the last model of it once more, and a baseline."""
    root, models = tmp_path_factory.mktemp("select"), toy_models()
    for step, source in ((0, models.fresh), (20, models.both), (40, models.forgetful)):
        shutil.copytree(source, root / "checkpoints" / f"step-{step:06d}")
    index = [{"step": step, "path": f"step-{step:06d}"} for step in (40, 0, 20)]
    (root / "checkpoints" / "index.json").write_text(json.dumps(index))
    return {
        "checkpoints": root / "checkpoints",
        "models": [models.forgetful],
        "dataset": write_jsonl(root / "dev", prompt_rows("copy", "flip")),
        "baseline": models.both,
    }


@pytest.fixture(scope="module")
def selected(inputs: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Finished:
    return run_stage(COMPONENT, tmp_path_factory.mktemp("selected"), params=PARAMS, inputs=inputs)


def digest(folder: Path) -> str:
    return describe_folder(folder, ArtifactType.MODEL).digest


def test_the_winner_is_copied_and_losers_stay_on_record(selected: Finished) -> None:
    assert digest(selected.outputs["model"]) == digest(toy_models().both)
    report = json.loads((selected.outputs["report"] / "selection.json").read_text())
    assert report["chosen"] == "test.checkpoints:step-000020"
    rows = {row["step"]: row for row in report["candidates"]}
    assert [row["step"] for row in report["candidates"]] == [0, 20, 40]  # by step, whatever the index's order
    assert {step: row["status"] for step, row in rows.items()} == {0: "rejected", 20: "chosen", 40: "rejected"}
    assert rows[40]["constraints"][0]["measured"]["value"] < -0.5
    assert rows[40]["metrics"]["pass_at_1_copy"]["value"] > 0.8 and rows[40]["objective"]["n"] == 12
    assert len(report["duplicates"]) == 1 and "step-000040" in next(iter(report["duplicates"].values()))
    lines = (selected.outputs["report"] / "passrates.jsonl").read_text().splitlines()
    assert len(lines) == 3 * 24


def test_headline_and_metrics_are_the_winners(selected: Finished) -> None:
    assert (selected.metrics["num_candidates"], selected.metrics["num_rejected"], selected.metrics["position"]) == (
        3,
        2,
        2,
    )
    assert selected.metrics["objective"] == selected.metrics["pass_at_1_copy"] > 0.9
    assert set(read_ledger(selected.outputs["metrics"])) == {"copy", "flip"}
    kept = list(read_samples((selected.outputs["metrics"] / "samples.jsonl").read_bytes().splitlines()))
    assert {sample.domain for sample in kept} == {"copy", "flip"}
    assert all(sample.response is not None and sample.outcome in ("right", "wrong") for sample in kept)


def test_a_killed_selection_ends_with_the_same_bytes(
    inputs: dict[str, Any], selected: Finished, tmp_path: Path
) -> None:
    params = {**PARAMS, "checkpoint_every": 1}
    with pytest.raises(Interrupted):
        run_stage(COMPONENT, tmp_path, params=params, inputs=inputs, stop_after=3)
    resumed = run_stage(COMPONENT, tmp_path, params=params, inputs=inputs)
    assert resumed.digests == selected.digests and resumed.metrics == selected.metrics


def test_the_baseline_may_be_an_evaluation(inputs: dict[str, Any], selected: Finished, tmp_path: Path) -> None:
    params = {key: PARAMS[key] for key in ("num_samples", "max_new_tokens", "bootstrap_samples")}
    given = {"model": toy_models().both, "dataset": inputs["dataset"]}
    evaluated = run_stage(EVALUATE, tmp_path / "evaluate", params=params, inputs=given)
    given = {**inputs, "baseline_metrics": evaluated.outputs["metrics"]}
    del given["baseline"]
    found = run_stage(COMPONENT, tmp_path / "select", params=PARAMS, inputs=given)
    assert found.digests["model"] == selected.digests["model"]


@pytest.mark.parametrize(
    ("leave_out", "params", "message"),
    [
        (["checkpoints", "models"], {}, "nothing to select from"),
        (["baseline"], {}, "max_drop constraint needs"),
        ([], {"objective": {"metric": "pass_at_1", "domain": "cpy"}}, "did you mean 'copy'"),
        ([], {"objective": {"metric": "pass_at_16"}}, "needs 16 samples"),
        ([], {"constraints": [{"domain": "other", "min_value": 0.5}]}, "constraints: the dataset has no domain"),
    ],
)
def test_wrong_input_gets_one_clear_message(
    inputs: dict[str, Any], leave_out: list[str], params: dict[str, Any], message: str, tmp_path: Path
) -> None:
    given = {port: value for port, value in inputs.items() if port not in leave_out}
    with pytest.raises(InputError, match=message):
        run_stage(COMPONENT, tmp_path, params={**PARAMS, **params}, inputs=given)


def test_operators_give_what_is_compared(inputs: dict[str, Any], tmp_path: Path) -> None:
    """Of equally right models the one that needs fewer paths is taken, and a vote may be a constraint."""
    params = PARAMS | {
        "num_samples": 4,
        "metrics": ["diversity"],
        "strategies": ["majority", {"name": "best_of_n", "by": "probability"}],
        "objective": {"metric": "right_paths", "domain": "flip", "minimise": True},
        "constraints": [{"metric": "best_at_3", "domain": "flip", "min_value": 0.5}],
    }
    done = run_stage(COMPONENT, tmp_path, params=params, inputs=inputs)
    report = json.loads((done.outputs["report"] / "selection.json").read_text())
    assert report["chosen"] == "test.checkpoints:step-000020" and report["objective"]["minimise"] is True
    assert done.metrics["best_at_3_flip"] > 0.5 and done.metrics["objective"] == done.metrics["right_paths_flip"]
    assert "best_at_3_flip" in report["candidates"][0]["metrics"]


def test_the_smallest_wins_where_it_is_wanted(inputs: dict[str, Any], tmp_path: Path) -> None:
    params = PARAMS | {"metrics": ["verbal_brier", "diversity"], "constraints": [], "tie_rule": "best"}
    chosen = {}
    for minimise in (False, True):
        objective = {"metric": "ead", "domain": "copy", "minimise": minimise}
        done = run_stage(COMPONENT, tmp_path / str(minimise), params=params | {"objective": objective}, inputs=inputs)
        chosen[minimise] = done.metrics["objective"]
    assert chosen[True] < chosen[False]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (
            {"objective": {"metric": "right_pathz"}, "metrics": ["diversity"]},
            "unknown metric 'right_pathz'; did you mean",
        ),
        ({"objective": {"metric": "ead"}}, "objective: unknown metric 'ead'"),
        ({"metrics": ["coreset_calls"]}, "select compares models by their samples alone"),
        ({"strategies": [{"name": "best_of_n", "by": "scorer"}]}, "select compares models by their samples alone"),
    ],
)
def test_what_it_cannot_compare_is_told_at_once(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        COMPONENT.params.model_validate(params)
