from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, AutoTokenizer

from components.contract.errors import InputError
from components.modeling.loading.load import load_policy
from components.sft.component import COMPONENT
from tests.stages.rl_stage import RandomClock
from tests.stages.supervised_data import base_model, demonstrations, demonstrations_folder
from tests.support.stage_context import Finished, Interrupted, LocalContext, run_stage, write_jsonl

PARAMS = {
    "steps": 12,
    "batch_size": 8,
    "checkpoint_every": 3,
    "save_every": 4,
    "optimizer": {"name": "muon", "peak_learning_rate": 0.05, "schedule": "cosine"},
}
KILLED_AT = 8


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("inputs")
    return {"model": base_model(folder / "model"), "dataset": demonstrations_folder(folder / "data")}


@pytest.fixture(scope="module")
def straight(inputs: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Finished:
    return run_stage(COMPONENT, tmp_path_factory.mktemp("straight"), params=PARAMS, inputs=inputs)


def test_the_loss_falls_and_the_output_loads_everywhere(inputs: dict[str, Any], straight: Finished) -> None:
    assert straight.history[-1]["loss"] < 0.7 * straight.history[0]["loss"]
    model = AutoModelForCausalLM.from_pretrained(straight.outputs["model"])
    tokenizer = AutoTokenizer.from_pretrained(straight.outputs["model"])
    assert tokenizer.get_vocab() == AutoTokenizer.from_pretrained(inputs["model"]).get_vocab()
    assert model.config.vocab_size == len(tokenizer)
    assert load_policy(straight.outputs["model"]).backend == "native"


def test_metrics_hold_the_headline_and_the_history(straight: Finished) -> None:
    values = json.loads((straight.outputs["metrics"] / "metrics.json").read_text())
    assert {name: entry["value"] for name, entry in values.items()} == straight.metrics
    lines = (straight.outputs["metrics"] / "history.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == straight.history
    assert straight.metrics["loss"] == pytest.approx(sum(row["loss"] for row in straight.history[-10:]) / 10)
    assert straight.metrics["epochs"] == 2.0
    assert not any("second" in name or "time" in name for row in straight.history for name in row)


def test_kept_checkpoints_are_complete_models_and_the_last_is_the_output(straight: Finished) -> None:
    folder = straight.outputs["checkpoints"]
    index = json.loads((folder / "index.json").read_text())
    assert [entry["step"] for entry in index] == [4, 8, 12]
    names = {path.name for path in straight.outputs["model"].iterdir()}
    for entry in index:
        assert {path.name for path in (folder / entry["path"]).iterdir()} == names
    last = folder / index[-1]["path"]
    for name in names:
        assert (last / name).read_bytes() == (straight.outputs["model"] / name).read_bytes()


def test_a_second_run_gives_the_same_bytes_and_another_seed_does_not(
    inputs: dict[str, Any], straight: Finished, tmp_path: Path
) -> None:
    again = run_stage(COMPONENT, tmp_path / "again", params=PARAMS, inputs=inputs)
    other = run_stage(COMPONENT, tmp_path / "other", params=PARAMS, inputs=inputs, seed=1)
    assert again.digests == straight.digests
    assert other.digests["model"] != straight.digests["model"]


@pytest.mark.parametrize("step", [3, 6, 9])
def test_stopped_after_a_checkpoint_and_resumed_gives_the_same_bytes(
    inputs: dict[str, Any], straight: Finished, tmp_path: Path, step: int
) -> None:
    with pytest.raises(Interrupted):
        run_stage(COMPONENT, tmp_path, params=PARAMS, inputs=inputs, stop_after=step)
    resumed = run_stage(COMPONENT, tmp_path, params=PARAMS, inputs=inputs)
    assert resumed.digests == straight.digests
    assert resumed.history == straight.history


class KilledContext(LocalContext):
    """Kills its own process, without any chance to clean up, when a step between two checkpoints is
    logged."""

    def log(self, step: int, **metrics: float) -> None:
        if step == KILLED_AT:
            os.kill(os.getpid(), signal.SIGKILL)
        super().log(step, **metrics)


@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_checkpoints_by_time_change_no_byte_whenever_they_are_made_and_wherever_it_is_killed(
    seed: int, inputs: dict[str, Any], straight: Finished, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder, clock = tmp_path_factory.mktemp("timed"), RandomClock(seed, kills=2)
    timed = PARAMS | {"checkpoint_every": None}
    for _ in range(clock.kills_left):
        with suppress(Interrupted):
            run_stage(COMPONENT, folder, params=timed, inputs=inputs, due=clock)
    clock.kills_left = 0
    found = run_stage(COMPONENT, folder, params=timed, inputs=inputs, due=clock)
    assert found.digests == straight.digests and found.history == straight.history


def run_killed(folder: str, inputs: str) -> None:
    """Entry of the process that is killed."""
    from components.sft.run import run

    torch.set_num_threads(1)
    given = {port: Path(path) for port, path in json.loads(inputs).items()}
    run(KilledContext(COMPONENT, Path(folder), params=PARAMS, inputs=given))


def test_killed_for_real_and_resumed_gives_the_same_bytes(
    inputs: dict[str, Any], straight: Finished, tmp_path: Path
) -> None:
    given = json.dumps({port: str(path) for port, path in inputs.items()})
    code = f"from tests.stages.test_sft import run_killed; run_killed({str(tmp_path)!r}, {given!r})"
    root = Path(__file__).parents[2]
    child = subprocess.run([sys.executable, "-c", code], cwd=root, check=False)
    assert child.returncode == -signal.SIGKILL
    assert sorted(path.name for path in (tmp_path / "partial").iterdir())[-1] == "step-00000006"
    resumed = run_stage(COMPONENT, tmp_path, params=PARAMS, inputs=inputs)
    assert resumed.digests == straight.digests
    assert resumed.history == straight.history


def test_only_responses_are_trained_on(inputs: dict[str, Any], tmp_path: Path) -> None:
    params = {"steps": 1, "batch_size": 48}
    finished = run_stage(COMPONENT, tmp_path, params=params, inputs=inputs)
    tokenizer = AutoTokenizer.from_pretrained(inputs["model"])
    responses = tokenizer([row["response"] for row in demonstrations()])["input_ids"]
    assert finished.metrics["num_targets"] == sum(len(ids) + 1 for ids in responses)  # and eos


def test_many_datasets_a_mixture_and_a_validation_set(inputs: dict[str, Any], tmp_path: Path) -> None:
    rows = demonstrations()
    parts = [
        write_jsonl(tmp_path / domain, [row for row in rows if row["domain"] == domain]) for domain in ("sums", "words")
    ]
    finished = run_stage(
        COMPONENT,
        tmp_path / "run",
        params={"steps": 3, "mixture": {"words": 1.0}},
        inputs={"model": inputs["model"], "dataset": parts, "validation": inputs["dataset"]},
    )
    assert finished.metrics["num_examples"] == 24
    assert "checkpoints" not in finished.outputs
    losses = {name: value for name, value in finished.metrics.items() if name.startswith("validation_loss")}
    assert set(losses) == {"validation_loss", "validation_loss_sums", "validation_loss_words"}
    assert losses["validation_loss_words"] < losses["validation_loss_sums"]


def test_lora_trains_adapters_and_saves_a_merged_model(inputs: dict[str, Any], tmp_path: Path) -> None:
    params = {"steps": 6, "lora": {"rank": 4}, "optimizer": {"peak_learning_rate": 0.02}, "checkpoint_every": 2}
    finished = run_stage(COMPONENT, tmp_path / "a", params=params, inputs=inputs)
    before, after = (load_policy(path).state() for path in (inputs["model"], finished.outputs["model"]))
    assert torch.equal(before["embedding"], after["embedding"])
    assert not torch.equal(before["layers.0.qkv"], after["layers.0.qkv"])
    with pytest.raises(Interrupted):
        run_stage(COMPONENT, tmp_path / "b", params=params, inputs=inputs, stop_after=2)
    resumed = run_stage(COMPONENT, tmp_path / "b", params=params, inputs=inputs)
    assert resumed.digests == finished.digests


def test_prompts_without_responses_are_refused(inputs: dict[str, Any], tmp_path: Path) -> None:
    data = write_jsonl(tmp_path / "data", [{"id": "a-1", "domain": "sums", "prompt": "1+1", "answer": "2"}])
    with pytest.raises(InputError, match=r"'a-1' cannot be trained on"):
        run_stage(COMPONENT, tmp_path, params={}, inputs={"model": inputs["model"], "dataset": data})


def weighted_folder(folder: Path, weights: dict[str, float]) -> Path:
    """Write the demonstrations with a weight by domain."""
    return write_jsonl(folder, [{**row, "weight": weights[row["domain"]]} for row in demonstrations()])


def test_equal_weights_change_no_byte(inputs: dict[str, Any], straight: Finished, tmp_path: Path) -> None:
    given = inputs | {"dataset": weighted_folder(tmp_path / "data", {"sums": 0.3, "words": 0.3})}
    assert run_stage(COMPONENT, tmp_path / "run", params=PARAMS, inputs=given).digests == straight.digests


def test_rows_of_weight_zero_are_as_if_they_were_not_there(inputs: dict[str, Any], tmp_path: Path) -> None:
    given = inputs | {"dataset": weighted_folder(tmp_path / "data", {"sums": 2.0, "words": 0.0})}
    sums = [row for row in demonstrations() if row["domain"] == "sums"]
    without = inputs | {"dataset": write_jsonl(tmp_path / "sums", sums)}
    found = run_stage(COMPONENT, tmp_path / "run", params=PARAMS, inputs=given)
    expected = run_stage(COMPONENT, tmp_path / "expected", params=PARAMS, inputs=without)
    assert found.digests["model"] == expected.digests["model"]
    assert found.metrics == expected.metrics | {"num_weightless": 24.0}
    written = json.loads((found.outputs["metrics"] / "metrics.json").read_text())
    assert written["num_weightless"]["value"] == 24.0


def test_weights_turn_the_training_towards_heavy_rows(inputs: dict[str, Any], tmp_path: Path) -> None:
    losses = {}
    for name, weights in {"sums": {"sums": 1.0, "words": 0.01}, "words": {"sums": 0.01, "words": 1.0}}.items():
        given = inputs | {"dataset": weighted_folder(tmp_path / name, weights)}
        losses[name] = run_stage(COMPONENT, tmp_path / f"run-{name}", params=PARAMS, inputs=given).history[-1]
    assert losses["sums"]["loss_sums"] < losses["words"]["loss_sums"]
    assert losses["words"]["loss_words"] < losses["sums"]["loss_words"]
