"""The replay stage end to end: a model that forgot gets it back and keeps what it has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from components.contract.errors import InputError, StageFailed
from components.evaluate.component import COMPONENT as EVALUATE
from components.replay.component import COMPONENT
from tests.stages.test_replay_parts import rollout
from tests.stages.toy_models import demonstration, prompt_row, prompt_rows, toy_models
from tests.support.stage_context import Finished, Interrupted, LocalContext, run_stage, write_jsonl

PARAMS = {
    "steps": 40,
    "batch_size": 24,
    "own": {"num_samples": 4, "max_new_tokens": 5},
    "bootstrap_samples": 300,
    "checkpoint_every": 8,
    "optimizer": {"peak_learning_rate": 1e-2},
}
EVALUATION = {"num_samples": 8, "max_new_tokens": 5, "bootstrap_samples": 300}


def evaluate(model: Path, heldout: Path, folder: Path) -> Finished:
    return run_stage(EVALUATE, folder, params=EVALUATION, inputs={"model": model, "dataset": heldout})


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    root, models = tmp_path_factory.mktemp("replay"), toy_models()
    heldout = write_jsonl(root / "heldout", prompt_rows("copy", "flip"))
    wrong = [demonstration(row, row["prompt"][-2:]) for row in prompt_rows("flip")[:4]]
    unverifiable = demonstration(prompt_row("flip", "ab", verifier="no-such-verifier"))
    demos = [*map(demonstration, prompt_rows("flip")), *wrong, {**unverifiable, "id": "broken"}]
    return {
        "model": models.forgetful,
        "datasets": [write_jsonl(root / "demos", demos)],
        "rollouts": [
            write_jsonl(root / "rollouts", [rollout(r, r["answer"], "right", 1) for r in prompt_rows("copy")])
        ],
        "before": evaluate(models.both, heldout, root / "before").outputs["metrics"],
        "after": evaluate(models.forgetful, heldout, root / "after").outputs["metrics"],
    }


@pytest.fixture(scope="module")
def replayed(inputs: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Finished:
    return run_stage(COMPONENT, tmp_path_factory.mktemp("replayed"), params=PARAMS, inputs=inputs)


def test_what_was_forgotten_comes_back_and_what_was_learnt_stays(replayed: Finished, tmp_path: Path) -> None:
    heldout = write_jsonl(tmp_path / "heldout", prompt_rows("copy", "flip"))
    lost = evaluate(toy_models().forgetful, heldout, tmp_path / "lost").metrics
    found = evaluate(replayed.outputs["model"], heldout, tmp_path / "found").metrics
    assert lost["pass_at_1_flip"] < 0.2
    assert found["pass_at_1_flip"] > 0.85 and found["pass_at_1_copy"] > 0.9


def test_the_card_says_what_is_rehearsed_and_why(inputs: dict[str, Any], replayed: Finished) -> None:
    card = json.loads((replayed.outputs["dataset"] / "card.json").read_text())
    copy, flip = card["rehearsal"]["copy"], card["rehearsal"]["flip"]
    assert (copy["share"], flip["share"]) == (0.5, 0.5)
    assert flip["forgotten"] and flip["drop"]["low"] > 0.5 and set(flip["origins"]) == {"gold"}
    assert not copy["forgotten"] and set(copy["origins"]) == {"own"}
    assert (flip["num_rejected"], flip["num_failed"]) == (4, 1)  # mixed quality: only what the verifier accepts
    rows = [json.loads(line) for line in (replayed.outputs["dataset"] / "rows.jsonl").read_text().splitlines()]
    assert len(rows) == card["num_rows"] == replayed.metrics["num_rehearsed"]
    assert all(row["response"] == row["answer"] for row in rows)
    assert replayed.manifests["dataset"].metadata == {"kind": "demonstrations", "num_rows": len(rows)}
    assert card["inputs"]["before"] != card["inputs"]["after"]


def test_metrics_tell_shares_and_drops(replayed: Finished) -> None:
    assert replayed.metrics["share_flip"] == 0.5 and replayed.metrics["drop_flip"] > 0.5
    entries = json.loads((replayed.outputs["metrics"] / "metrics.json").read_text())
    assert {name: entry["value"] for name, entry in entries.items()} == replayed.metrics
    assert entries["drop_flip"]["low"] > 0.5 and entries["loss"]["value"] == replayed.metrics["loss"]


@pytest.mark.parametrize("stop_after", [8, 16])
def test_a_killed_replay_ends_with_the_same_bytes(
    inputs: dict[str, Any], replayed: Finished, stop_after: int, tmp_path: Path
) -> None:
    with pytest.raises(Interrupted):
        run_stage(COMPONENT, tmp_path, params=PARAMS, inputs=inputs, stop_after=stop_after)
    resumed = run_stage(COMPONENT, tmp_path, params=PARAMS, inputs=inputs)
    assert resumed.digests == replayed.digests
    assert (resumed.metrics, resumed.history) == (replayed.metrics, replayed.history)


def rehearsal(inputs: dict[str, Any], folder: Path, **params: Any) -> dict[str, Any]:
    finished = run_stage(COMPONENT, folder, params={**PARAMS, "steps": 1, **params}, inputs=inputs)
    return json.loads((finished.outputs["dataset"] / "card.json").read_text())["rehearsal"]


def test_without_evaluations_domains_share_equally(inputs: dict[str, Any], tmp_path: Path) -> None:
    given = {port: value for port, value in inputs.items() if port not in ("before", "after")}
    card = rehearsal(given, tmp_path)
    assert {name: entry["share"] for name, entry in card.items()} == {"copy": 0.5, "flip": 0.5}
    assert list(card["copy"]["origins"]) == ["own"] and list(card["flip"]["origins"]) == ["gold"]


def test_a_mixture_and_sources_overrule_the_measurement(inputs: dict[str, Any], tmp_path: Path) -> None:
    card = rehearsal(inputs, tmp_path, mixture={"copy": 1, "flip": 3}, sources={"copy": ["rollouts"]})
    assert {name: entry["share"] for name, entry in card.items()} == {"copy": 0.25, "flip": 0.75}
    assert list(card["copy"]["origins"]) == ["rollouts"]


def test_stored_rollouts_stand_in_for_own_samples(inputs: dict[str, Any], tmp_path: Path) -> None:
    card = rehearsal(inputs, tmp_path, own={"num_samples": 0}, keep_share=0.2, num_examples=10)
    assert card["copy"]["origins"] == {"rollouts": 2} and card["flip"]["origins"] == {"gold": 8}


def test_progress_is_shown_while_sampling(inputs: dict[str, Any], tmp_path: Path) -> None:
    context = LocalContext(COMPONENT, tmp_path, params={**PARAMS, "steps": 1}, inputs=inputs)
    from components.replay.run import run

    run(context)
    assert (48, 48, {}) in context.progress_calls


@pytest.mark.parametrize(
    ("change", "params", "error", "message"),
    [
        ({"after": None}, {}, InputError, "'before' and 'after'"),
        ({"datasets": None, "rollouts": None}, {}, InputError, "nothing to rehearse"),
        ({}, {"sources": {"flop": ["gold"]}}, InputError, "did you mean 'flip'"),
        ({"rollouts": None}, {"sources": {"flip": ["rollouts"]}}, StageFailed, "nothing to rehearse"),
    ],
)
def test_wrong_input_gets_one_clear_message(
    inputs: dict[str, Any],
    change: dict[str, None],
    params: dict[str, Any],
    error: type[Exception],
    message: str,
    tmp_path: Path,
) -> None:
    given = {port: value for port, value in inputs.items() if port not in change}
    with pytest.raises(error, match=message):
        run_stage(COMPONENT, tmp_path, params={**PARAMS, **params}, inputs=given)
