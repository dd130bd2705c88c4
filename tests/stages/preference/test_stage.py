"""The preference stage: what it learns, what a killed one ends with, and what it refuses."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from components.contract.errors import InputError
from components.modeling.loading.load import load_policy
from components.preference.component import COMPONENT
from components.preference.params import PreferenceParams
from tests.stages.preference.data import labelled, lists, other_model, pairs, pairs_folder
from tests.stages.supervised_data import base_model
from tests.support.stage_context import Finished, Interrupted, LocalContext, run_stage, write_jsonl

PARAMS = {
    "steps": 12,
    "batch_size": 8,
    "checkpoint_every": 3,
    "save_every": 6,
    "optimizer": {"name": "muon", "peak_learning_rate": 0.02, "schedule": "cosine"},
}
KILLED_AT = 8
LISTS = {"ranking": lists, "kto": labelled}
ULTRAFEEDBACK = Path(__file__).parents[2] / "tasks" / "row_kinds" / "ultrafeedback.jsonl"


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("inputs")
    return {"model": base_model(folder / "model"), "dataset": pairs_folder(folder / "data")}


@pytest.fixture(scope="module")
def reference(inputs: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return other_model(tmp_path_factory.mktemp("reference") / "model", inputs["model"])


@pytest.fixture(scope="module")
def straight(inputs: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Finished:
    given = inputs | {"validation": inputs["dataset"]}
    return run_stage(COMPONENT, tmp_path_factory.mktemp("straight"), params=PARAMS, inputs=given)


def test_a_model_learns_which_response_is_better(straight: Finished) -> None:
    first = straight.history[0]
    assert first["loss"] == pytest.approx(0.6931472), "the start is its own reference: every margin is 0"
    assert first["chosen_log_ratio"] == first["rejected_log_ratio"] == first["accuracy"] == 0
    assert straight.metrics["validation_accuracy"] > 0.9 and straight.metrics["validation_loss"] < 0.4
    assert straight.history[-1]["chosen_log_ratio"] > straight.history[-1]["rejected_log_ratio"]
    assert AutoModelForCausalLM.from_pretrained(straight.outputs["model"]).config.vocab_size > 0


def test_metrics_have_intervals_domains_and_the_history(straight: Finished) -> None:
    entries = json.loads((straight.outputs["metrics"] / "metrics.json").read_text())
    assert {name: entry["value"] for name, entry in entries.items()} == straight.metrics
    accuracy = entries["validation_accuracy"]
    assert accuracy["n"] == 32 and accuracy["low"] <= accuracy["value"] <= accuracy["high"]
    assert {"validation_accuracy_sums", "validation_accuracy_words"} <= entries.keys()
    tail = straight.history[-10:]
    assert straight.metrics["accuracy"] == pytest.approx(sum(row["accuracy"] for row in tail) / 10)
    assert {"loss_sums", "loss_words", "chosen_nll", "rejected_nll"} <= tail[-1].keys()
    known = COMPONENT.known_metrics(PreferenceParams())
    assert {name for name in straight.metrics if not name.startswith("validation_accuracy_")} <= known.keys()


@pytest.mark.parametrize("name", ["kto", "orpo", "ranking", "step_apo"])
@pytest.mark.parametrize("resumed", [False, True])
def test_losses_of_every_kind_learn_and_resume(
    inputs: dict[str, Any], tmp_path: Path, name: str, resumed: bool
) -> None:
    params = PARAMS | {"preference_loss": name, "save_every": 0}
    data = pairs_folder(tmp_path / "data", LISTS.get(name, pairs)())
    given = {"model": inputs["model"], "dataset": data, "validation": data}
    if resumed:
        with pytest.raises(Interrupted):
            run_stage(COMPONENT, tmp_path / "run", params=params, inputs=given, stop_after=6)
        again = run_stage(COMPONENT, tmp_path / "run", params=params, inputs=given)
        assert again.digests == run_stage(COMPONENT, tmp_path / "straight", params=params, inputs=given).digests
        return
    found = run_stage(COMPONENT, tmp_path / "run", params=params, inputs=given)
    assert found.history[-1]["loss"] < found.history[0]["loss"]
    assert ("chosen_log_ratio" in found.history[-1]) == (name in ("kto", "step_apo"))
    assert ("divergence" in found.history[-1]) == (name == "kto")


class KilledContext(LocalContext):
    """Kills its own process, without any chance to clean up, when a step between two checkpoints is logged."""

    def log(self, step: int, **metrics: float) -> None:
        if step == KILLED_AT:
            os.kill(os.getpid(), signal.SIGKILL)
        super().log(step, **metrics)


def run_killed(folder: str, inputs: str) -> None:
    """Entry of the process that is killed."""
    from components.preference.run import run

    torch.set_num_threads(1)
    given = {port: Path(path) for port, path in json.loads(inputs).items()}
    run(KilledContext(COMPONENT, Path(folder), params=PARAMS, inputs=given))


def test_killed_for_real_and_resumed_gives_the_same_bytes_and_asks_the_reference_once(
    inputs: dict[str, Any], reference: Path, tmp_path: Path
) -> None:
    given = inputs | {"reference": reference, "validation": inputs["dataset"]}
    expected = run_stage(COMPONENT, tmp_path / "straight", params=PARAMS, inputs=given)
    paths = json.dumps({port: str(path) for port, path in given.items()})
    call = f"run_killed({str(tmp_path / 'run')!r}, {paths!r})"
    code = f"from tests.stages.preference.test_stage import run_killed; {call}"
    child = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[3], check=False)
    assert child.returncode == -signal.SIGKILL
    newest = max((tmp_path / "run" / "partial").iterdir())
    assert newest.name == "step-00000006" and list(newest.rglob("tensors-reference.safetensors"))
    broken = tmp_path / "broken"  # a resumed stage has no use for the model itself
    broken.mkdir()
    resumed = run_stage(COMPONENT, tmp_path / "run", params=PARAMS, inputs=given | {"reference": broken})
    assert resumed.digests == expected.digests
    assert resumed.history == expected.history


def test_another_reference_is_another_training(
    inputs: dict[str, Any], reference: Path, straight: Finished, tmp_path: Path
) -> None:
    own = run_stage(COMPONENT, tmp_path / "own", params=PARAMS, inputs=inputs | {"reference": inputs["model"]})
    assert own.digests["model"] == straight.digests["model"], "the start, given as the reference, changes nothing"
    other = run_stage(COMPONENT, tmp_path / "other", params=PARAMS, inputs=inputs | {"reference": reference})
    assert other.digests["model"] != straight.digests["model"]
    assert other.history[0]["loss"] != straight.history[0]["loss"]


def test_a_bias_of_length_is_told(inputs: dict[str, Any], tmp_path: Path) -> None:
    texts = [("<answer>12", "<answer>3"), ("<answer>1", "<answer>23"), ("<answer>45", "<answer>6")]
    texts.append(("<answer>1", "<answer>2"))
    rows = [{"prompt": "?", "chosen": chosen, "rejected": rejected} for chosen, rejected in texts]
    given = inputs | {"dataset": pairs_folder(tmp_path / "data", rows)}
    found = run_stage(COMPONENT, tmp_path / "run", params={"steps": 1, "batch_size": 4}, inputs=given)
    assert found.metrics["chosen_longer"] == (1 + 0 + 1 + 0.5) / 4


def test_lora_trains_adapters_against_the_start(inputs: dict[str, Any], tmp_path: Path) -> None:
    params = PARAMS | {"lora": {"rank": 4}, "optimizer": {"peak_learning_rate": 0.05}, "save_every": 0}
    found = run_stage(COMPONENT, tmp_path, params=params, inputs=inputs)
    before, after = (load_policy(path).state() for path in (inputs["model"], found.outputs["model"]))
    assert torch.equal(before["embedding"], after["embedding"])
    assert not torch.equal(before["layers.0.qkv"], after["layers.0.qkv"])
    assert found.history[0]["chosen_log_ratio"] == 0 and found.history[-1]["margin"] > 0


def test_a_file_of_ultrafeedback_is_learned_as_it_is(inputs: dict[str, Any], tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "rows.jsonl").write_bytes(ULTRAFEEDBACK.read_bytes())
    for name in ("dpo", "dynamic_beta"):
        params = PARAMS | {"preference_loss": name, "save_every": 0}
        found = run_stage(COMPONENT, tmp_path / name, params=params, inputs=inputs | {"dataset": data})
        assert found.metrics["num_examples"] == 20 and found.history[-1]["margin"] > 0


def test_conversations_share_their_turns(inputs: dict[str, Any], tmp_path: Path) -> None:
    """A template with roles: what is trained is the last turn, and the rest is computed once for both sides."""
    model = base_model(tmp_path / "model")
    policy = load_policy(model)
    assert policy.tokenizer is not None
    policy.tokenizer.chat_template = (
        "{% for m in messages %}{% if m['role'] == 'user' %}{{ m['content'] }}{{ '\\n' }}"
        "{% else %}{{ m['content'] }}{{ eos_token }}{% endif %}{% endfor %}"
    )
    policy.save(model)
    asked = [
        {"role": "user", "content": "What is the sum: 1 + 1 ="},
        {"role": "assistant", "content": "<answer>2"},
        {"role": "user", "content": "What is the sum: 2 + 2 ="},
    ]
    rows = [{"messages": asked, "chosen": "<answer>4", "rejected": "<answer>7"}] * 4
    data = write_jsonl(tmp_path / "data", rows)
    found = run_stage(
        COMPONENT, tmp_path / "run", params={"steps": 1, "batch_size": 4}, inputs={"model": model, "dataset": data}
    )
    assert found.metrics["num_targets"] == 4 * 2 * 3  # <answer>, a digit, the end
    assert found.metrics["padding_avoided"] > 0.3


def test_weights_count_and_rows_of_weight_zero_do_not(
    inputs: dict[str, Any], straight: Finished, tmp_path: Path
) -> None:
    same = pairs_folder(tmp_path / "same", [{**row, "weight": 0.3} for row in pairs()])
    equal = run_stage(COMPONENT, tmp_path / "equal", params=PARAMS, inputs=inputs | {"dataset": same})
    assert equal.digests["model"] == straight.digests["model"]
    half = [{**row, "weight": float(row["domain"] == "sums")} for row in pairs()]
    sums = [row for row in pairs() if row["domain"] == "sums"]
    runs = {}
    for name, rows in {"half": half, "sums": sums}.items():
        given = inputs | {"dataset": pairs_folder(tmp_path / f"{name}-data", rows)}
        runs[name] = run_stage(COMPONENT, tmp_path / name, params=PARAMS, inputs=given)
    found, expected = runs["half"], runs["sums"]
    assert found.digests["model"] == expected.digests["model"]
    assert found.metrics == expected.metrics | {"num_weightless": 16.0}


def test_bad_rows_end_the_stage_or_are_counted(inputs: dict[str, Any], tmp_path: Path) -> None:
    equal = {**pairs()[0], "rejected": pairs()[0]["chosen"]}
    data = pairs_folder(tmp_path / "data", [*pairs(), equal])
    given = inputs | {"dataset": data}
    with pytest.raises(InputError, match=r"^rows\.jsonl:33: chosen and rejected are equal") as raised:
        run_stage(COMPONENT, tmp_path / "refused", params=PARAMS, inputs=given)
    assert "\n" not in str(raised.value)
    found = run_stage(COMPONENT, tmp_path / "dropped", params=PARAMS | {"bad_rows": "drop"}, inputs=given)
    assert found.metrics["num_bad"] == 1 and found.metrics["num_examples"] == 32
