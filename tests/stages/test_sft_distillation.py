"""Distillation in sft: from the start under another prompt, or from another model; resume; refusals."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from signal import SIGKILL
from typing import Any

import pytest
import torch

from components.contract.errors import InputError
from components.contract.job import Resources
from components.contract.memory import MemoryKind
from components.modeling.loading.load import new_policy
from components.modeling.models.model_config import ModelConfig
from components.modeling.models.model_sizes import ModelSizes
from components.modeling.text.tokenizer import train_tokenizer
from components.sft.component import COMPONENT, asks, memory
from components.sft.params import SftParams
from components.sft.run import run
from tests.stages.supervised_data import SMALL, base_model, demonstrations
from tests.stages.test_sft import KilledContext
from tests.support.stage_context import Finished, Interrupted, run_stage, write_jsonl

PARAMS = {
    "steps": 12,
    "batch_size": 8,
    "checkpoint_every": 3,
    "distillation": {"top_k": 5, "cross_entropy": 0.1},
    "optimizer": {"name": "muon", "peak_learning_rate": 0.05, "schedule": "cosine"},
}


def hinted_rows() -> list[dict[str, Any]]:
    """Demonstrations, two in three of them with a prompt of the teacher's own."""
    return [
        row | ({"teacher_prompt": f"{row['prompt']} {row['response'][-1]}"} if number % 3 else {})
        for number, row in enumerate(demonstrations())
    ]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("inputs")
    return {"model": base_model(folder / "model"), "dataset": write_jsonl(folder / "data", hinted_rows())}


@pytest.fixture(scope="module")
def straight(inputs: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Finished:
    return run_stage(COMPONENT, tmp_path_factory.mktemp("straight"), params=PARAMS, inputs=inputs)


def test_history_has_the_parts_of_the_loss(straight: Finished) -> None:
    for row in straight.history:
        assert row["loss"] == pytest.approx(row["divergence"] + 0.1 * row["cross_entropy"])
    assert straight.history[-1]["cross_entropy"] < straight.history[0]["cross_entropy"]


def test_the_start_is_matched_under_the_other_prompt(inputs: dict[str, Any], tmp_path: Path) -> None:
    """Without other prompts there is nothing to learn from itself; with them the divergence falls."""
    params = PARAMS | {"distillation": {}}
    plain = inputs | {"dataset": write_jsonl(tmp_path / "plain", demonstrations())}
    idle = run_stage(COMPONENT, tmp_path / "idle", params=params, inputs=plain).history
    assert idle[0]["divergence"] < 1e-9
    rows = [row for row in hinted_rows() if "teacher_prompt" in row]
    given = inputs | {"dataset": write_jsonl(tmp_path / "rows", rows)}
    found = run_stage(
        COMPONENT,
        tmp_path / "hinted",
        params=params | {"steps": 30, "optimizer": {"peak_learning_rate": 3e-3}},
        inputs=given,
    ).history
    assert found[0]["divergence"] > 0
    assert sum(row["divergence"] for row in found[-5:]) < 0.8 * sum(row["divergence"] for row in found[:5])


@pytest.mark.parametrize("step", [3, 9])
def test_stopped_after_a_checkpoint_and_resumed_gives_the_same_bytes(
    inputs: dict[str, Any], straight: Finished, tmp_path: Path, step: int
) -> None:
    with pytest.raises(Interrupted):
        run_stage(COMPONENT, tmp_path, params=PARAMS, inputs=inputs, stop_after=step)
    resumed = run_stage(COMPONENT, tmp_path, params=PARAMS, inputs=inputs)
    assert resumed.digests == straight.digests and resumed.history == straight.history


def run_killed(folder: str, inputs: str) -> None:
    """Entry of the process that is killed."""
    torch.set_num_threads(1)
    given = {port: Path(path) for port, path in json.loads(inputs).items()}
    run(KilledContext(COMPONENT, Path(folder), params=PARAMS, inputs=given))


def test_killed_for_real_and_resumed_gives_the_same_bytes(
    inputs: dict[str, Any], straight: Finished, tmp_path: Path
) -> None:
    given = json.dumps({port: str(path) for port, path in inputs.items()})
    code = f"from tests.stages.test_sft_distillation import run_killed; run_killed({str(tmp_path)!r}, {given!r})"
    child = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2], check=False)
    assert child.returncode == -SIGKILL
    assert sorted(path.name for path in (tmp_path / "partial").iterdir())[-1] == "step-00000006"
    resumed = run_stage(COMPONENT, tmp_path, params=PARAMS, inputs=inputs)
    assert resumed.digests == straight.digests and resumed.history == straight.history


def test_adapters_are_trained_towards_a_teacher_of_another_size(inputs: dict[str, Any], tmp_path: Path) -> None:
    prompts = {d: [row["prompt"] for row in demonstrations() if row["domain"] == d] for d in ("sums", "words")}
    wider = ModelConfig(width=24, layers=2, heads=2, mlp_width=32)
    new_policy(wider, tokenizer=train_tokenizer([], prompts), seed=3).save(tmp_path / "teacher")
    params = {"steps": 20, "lora": {"rank": 4}, "distillation": {"teacher": "input"}}
    params |= {"optimizer": {"peak_learning_rate": 0.02}}
    given = inputs | {"teachers": tmp_path / "teacher"}
    found = run_stage(COMPONENT, tmp_path / "run", params=params, inputs=given).history
    assert found[-1]["divergence"] < 0.9 * found[0]["divergence"]
    again = run_stage(COMPONENT, tmp_path / "again", params=params | {"micro_batch_tokens": 60}, inputs=given).history
    assert again[-1]["loss"] == pytest.approx(found[-1]["loss"], rel=1e-2), "passes change rounding alone"


def test_a_teacher_with_another_tokenizer_is_refused_in_a_line(inputs: dict[str, Any], tmp_path: Path) -> None:
    new_policy(SMALL, tokenizer=train_tokenizer([], {"a": ["other prompt: 1"]}), seed=0).save(tmp_path / "teacher")
    params = PARAMS | {"distillation": {"teacher": "input"}}
    with pytest.raises(InputError, match="the teacher has another tokenizer") as refused:
        run_stage(COMPONENT, tmp_path / "run", params=params, inputs=inputs | {"teachers": tmp_path / "teacher"})
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"prompt": "1", "response": "2", "teacher_prompt": 3}, r"row 1 \(a\): teacher_prompt is no text"),
        ({"text": "1 2", "teacher_prompt": "3"}, "stands in for the prompt of a response"),
    ],
)
def test_rows_whose_teacher_prompt_has_no_use_are_refused(
    row: dict[str, Any], problem: str, inputs: dict[str, Any], tmp_path: Path
) -> None:
    data = write_jsonl(tmp_path / "data", [{"id": "a", "domain": "sums", **row}])
    with pytest.raises(InputError, match=problem):
        run_stage(COMPONENT, tmp_path / "run", params=PARAMS, inputs=inputs | {"dataset": data})


def test_rows_that_the_teacher_reads_too_long_are_left_out_and_counted(inputs: dict[str, Any], tmp_path: Path) -> None:
    rows = [
        row | {"teacher_prompt": row["prompt"] + " 1" * (200 if at < 5 else 1)}
        for at, row in enumerate(demonstrations())
    ]
    given = inputs | {"dataset": write_jsonl(tmp_path / "data", rows)}
    found = run_stage(COMPONENT, tmp_path / "run", params=PARAMS | {"steps": 1, "max_tokens": 100}, inputs=given)
    assert found.metrics["num_overlong"] == 5


def test_memory_counts_the_teacher(inputs: dict[str, Any]) -> None:
    """The start is loaded twice; a teacher at the input is counted by its own sizes."""
    sizes = ModelSizes.from_config(json.loads((inputs["model"] / "config.json").read_text()))
    alone, twice, given = (
        memory(SftParams(distillation=chosen), sizes, Resources()) for chosen in (None, {}, {"teacher": "input"})
    )
    assert alone is not None and twice is not None and given is not None and given.needs == alone.needs
    added = {need.name for need in twice.needs} - {need.name for need in alone.needs}
    assert added == {"weights of a teacher", "passes of a teacher"}
    assert twice.bytes(MemoryKind.NODE) > alone.bytes(MemoryKind.NODE) + 4 * sizes.parameters


def test_the_port_is_asked_for_by_a_teacher_at_an_input_alone() -> None:
    assert asks(SftParams()) == {} == asks(SftParams(distillation={}))
    assert list(asks(SftParams(distillation={"teacher": "input"}))) == ["teachers"]
