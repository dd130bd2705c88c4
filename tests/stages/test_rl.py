"""The rl stage from input to outputs, on a model of a few thousand weights that learns to answer with a letter."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from components.contract.errors import InputError
from components.rl.component import COMPONENT
from components.rl.presets import preset_names
from tests.stages.rl_stage import PARAMS, item, lines, make_model, run
from tests.support.stage_context import Interrupted, run_stage, write_jsonl

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A randomly initialised model."""
    return make_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def prompts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_jsonl(tmp_path_factory.mktemp("prompts"), [item(index) for index in range(10)])


def test_it_learns_and_writes_what_it_declares(tmp_path: Path, model: Path, prompts: Path) -> None:
    done = run(tmp_path, model, prompts, method="dr-grpo", steps=30, group_size=8)
    first, last = done.history[0], done.history[-1]
    assert first["pass_rate"] < 0.65 and done.metrics["pass_rate"] > 0.8
    assert last["start_kl_k1"] > 0.1 and last["entropy"] < first["entropy"]
    assert set(COMPONENT.metrics) == set(done.metrics) | {"heldout_pass_rate", "num_overlong", "num_cut"}
    assert done.metrics["num_samples"] == 30 * 32

    index = json.loads((done.outputs["checkpoints"] / "index.json").read_text())
    assert [entry["step"] for entry in index] == [4, 8, 12, 16, 20, 24, 28, 30]
    newest = done.outputs["checkpoints"] / index[-1]["path"] / "model.safetensors"
    assert newest.read_bytes() == (done.outputs["model"] / "model.safetensors").read_bytes()

    ledger = lines(done.outputs["metrics"] / "passrates.jsonl")
    assert {row["prompt_id"] for row in ledger} == {f"p{index}" for index in range(10)}
    assert sum(row["num_samples"] for row in ledger) == 30 * 32
    assert all(row["num_samples"] == row["num_right"] + row["num_wrong"] for row in ledger)
    assert len(lines(done.outputs["metrics"] / "history.jsonl")) == 30

    rows = lines(done.outputs["rollouts"] / "rows.jsonl")
    assert sum(row["outcome"] == "right" for row in rows) >= 5
    assert {row["step"] for row in rows} >= set(range(2, 31, 2))
    assert done.manifests["rollouts"].metadata == {"num_rows": len(rows)}
    assert all(row["prompt"] == f"letter {row['prompt_id'][1:]}" for row in rows)


@pytest.mark.parametrize("stop_after", [None, 3])
def test_a_token_budget_ends_a_training_after_the_step_that_spends_it(
    stop_after: int | None, tmp_path: Path, model: Path, prompts: Path
) -> None:
    whole = run(tmp_path / "whole", model, prompts, steps=8, checkpoint_every=2)
    spent = [row["num_tokens"] for row in whole.history]
    for budget, last in ((int(sum(spent[:5])), 5), (int(sum(spent[:5])) + 1, 6), (10**9, 8)):
        params = {"steps": 8, "checkpoint_every": 2, "token_budget": budget}
        folder = tmp_path / f"{budget}"
        if stop_after:
            with pytest.raises(Interrupted):
                run(folder, model, prompts, stop_after=stop_after, **params)
        done = run(folder, model, prompts, **params)
        assert done.history == whole.history[:last]
        assert done.metrics["num_tokens"] == sum(spent[:last])
        index = json.loads((done.outputs["checkpoints"] / "index.json").read_text())
        assert index[-1]["step"] == last
    assert done.digests["model"] == whole.digests["model"]


OWN_ROWS = {
    "acre": {"prompt": "letter A:x B:y", "answer": "A", "data": {"options": ["x", "y"]}, "verifier": "choice"},
    "rlvrr": {"answer": "a b c d e f g", "data": {"keywords": [[list("abcdefg")]], "aliases": ["a"]}},
}
"""What a method's reward reads of its rows."""
OWN_REWARDS = {method: [{"name": "pattern", "pattern": "[a-z]"}] for method in ("rlpr", "darl")}
"""Of methods whose reward is 0 for a response without tags, which a random model never writes."""


@pytest.mark.parametrize("method", preset_names())
def test_every_method_runs_to_its_end(method: str, tmp_path: Path, model: Path, prompts: Path) -> None:
    if method in OWN_ROWS:
        prompts = write_jsonl(tmp_path / "rows", [item(index) | OWN_ROWS[method] for index in range(10)])
    changed = {"rewards": OWN_REWARDS[method]} if method in OWN_REWARDS else {}
    done = run(tmp_path, model, prompts, method=method, steps=3, **changed)
    assert [row["step"] for row in done.history] == [1, 2, 3]
    assert all(row["num_updates"] >= 1 for row in done.history)


RESUMED = {
    "grpo": {"method": "grpo", "max_new_tokens": 4},
    "dapo": {"method": "dapo", "minibatches": 2, "epochs": 2, "temperature": 0.8},
    "uniform": {"method": "rloo", "sampler": "uniform", "schedule": {"name": "anneal", "final_temperature": 0.5}},
}


@pytest.mark.parametrize("case", RESUMED)
@pytest.mark.parametrize("stop_after", [2, 4])
def test_a_killed_run_ends_with_the_same_bytes(
    case: str, stop_after: int, tmp_path: Path, model: Path, prompts: Path
) -> None:
    straight = run(tmp_path / "straight", model, prompts, **RESUMED[case])
    with pytest.raises(Interrupted):
        run(tmp_path / "killed", model, prompts, stop_after=stop_after, **RESUMED[case])
    resumed = run(tmp_path / "killed", model, prompts, **RESUMED[case])
    assert resumed.digests == straight.digests
    assert resumed.history == straight.history and resumed.metrics == straight.metrics


KILLED = """
import json, sys
from pathlib import Path
import torch
from components.rl.component import COMPONENT
from tests.support.stage_context import run_stage
torch.set_num_threads(1)
folder, model, dataset = map(Path, sys.argv[1:4])
inputs = {"model": model, "dataset": [dataset]}
run_stage(COMPONENT, folder, params=json.loads(sys.argv[4]), inputs=inputs, seed=3)
"""


def test_sigkill_in_the_middle_of_a_step_changes_no_byte(tmp_path: Path, model: Path, prompts: Path) -> None:
    params = PARAMS | {"method": "dapo", "steps": 60, "checkpoint_every": 5, "optimizer": {"peak_learning_rate": 1e-3}}
    straight = run(tmp_path / "straight", model, prompts, **params)
    killed = tmp_path / "killed"
    command = [sys.executable, "-c", KILLED, str(killed), str(model), str(prompts), json.dumps(params)]
    child = subprocess.Popen(command, cwd=Path(__file__).parents[2])
    deadline = time.monotonic() + 120
    while not list(killed.glob("partial/step-*")) and child.poll() is None and time.monotonic() < deadline:
        os.sched_yield()
    child.send_signal(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL, "it ended before it could be killed"
    resumed = run(killed, model, prompts, **params)
    assert resumed.digests == straight.digests and resumed.history == straight.history


def test_the_seed_decides(tmp_path: Path, model: Path, prompts: Path) -> None:
    inputs = {"model": model, "dataset": [prompts]}
    first, same, other = (
        run_stage(COMPONENT, tmp_path / name, params=PARAMS | {"steps": 2}, inputs=inputs, seed=seed)
        for name, seed in (("first", 0), ("same", 0), ("other", 1))
    )
    assert first.digests == same.digests
    assert first.digests["model"] != other.digests["model"]


def test_a_failed_verification_is_counted_and_not_learned_from(tmp_path: Path, model: Path) -> None:
    dataset = write_jsonl(tmp_path / "two", [item(0), item(1, answer="")])
    done = run(tmp_path / "run", model, dataset, prompts_per_step=2, steps=4)
    assert all(row["num_failed"] == 4 for row in done.history)
    assert done.metrics["num_failed"] == 16
    by_id = {row["prompt_id"]: row for row in lines(done.outputs["metrics"] / "passrates.jsonl")}
    assert (by_id["p1"]["num_failed"], by_id["p1"]["num_right"], by_id["p1"]["num_wrong"]) == (16, 0, 0)
    failed = [row for row in lines(done.outputs["rollouts"] / "rows.jsonl") if row["outcome"] == "failed"]
    assert failed and all(row["prompt_id"] == "p1" and row["reward"] is None for row in failed)


def test_the_reference_may_be_another_model(tmp_path: Path, model: Path, prompts: Path) -> None:
    trained = run(tmp_path / "trained", model, prompts, method="dr-grpo", steps=8)
    inputs = {"model": trained.outputs["model"], "dataset": [prompts]}
    own = run_stage(COMPONENT, tmp_path / "own", params=PARAMS | {"steps": 1}, inputs=inputs)
    far = run_stage(COMPONENT, tmp_path / "far", params=PARAMS | {"steps": 1}, inputs=inputs | {"reference": model})
    assert own.history[0]["reference_kl_k3"] == pytest.approx(0, abs=1e-6)
    assert far.history[0]["reference_kl_k3"] > 1e-3


def test_dynamic_sampling_draws_more_only_when_it_must(tmp_path: Path, model: Path, prompts: Path) -> None:
    done = run(tmp_path, model, prompts, method="dapo", steps=10, optimizer={"peak_learning_rate": 1e-2})
    for row in done.history:
        assert row["num_samples"] >= 16 and row["num_samples"] % 4 == 0
    assert any(row["num_samples"] > 16 for row in done.history)


def test_an_empty_pool_is_refused_with_a_hint(tmp_path: Path, model: Path) -> None:
    with pytest.raises(InputError, match="holds no prompts"):
        run(tmp_path / "run", model, write_jsonl(tmp_path / "none", []))
