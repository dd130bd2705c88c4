"""On-policy distillation as a stage: it learns, it resumes exactly, the teacher is in no checkpoint; refusals."""

from __future__ import annotations

import json
import os
import string
import subprocess
import sys
from pathlib import Path
from signal import SIGKILL
from typing import Any

import pytest
import torch
from safetensors import safe_open

from components.contract.errors import InputError
from components.modeling.loading.load import load_policy, new_policy
from components.modeling.models.model_config import ModelConfig
from components.modeling.text.tokenizer import train_tokenizer
from components.modeling.text.tokenizer_config import TokenizerConfig
from components.rl.component import COMPONENT
from components.rl.run import run
from tests.rl import toy_operators
from tests.stages.rl_stage import PARAMS, item, make_model
from tests.support.stage_context import Finished, Interrupted, LocalContext, run_stage, write_jsonl

pytestmark = pytest.mark.usefixtures("one_thread", "toys")

DISTIL: dict[str, Any] = PARAMS | {
    "method": "reinforce",
    "objective": {"name": "distill", "divergence": "jsd", "top_k": 20},
    "rollout": {"name": "student_share", "share": 0.5, "demonstrator": {"name": "gold", "markup": False}},
    "max_new_tokens": 3,
    "optimizer": {"peak_learning_rate": 2e-2, "warmup_steps": 2},
}


def make_teacher(folder: Path, *, phrases: bool = False) -> Path:
    """Write a wider model than make_model's, with the same tokenizer unless it has phrases."""
    tokenizer = train_tokenizer([string.ascii_letters], {"a": ["say this: 1", "say this: 2"]} if phrases else {},
                                TokenizerConfig(phrases=phrases))  # fmt: skip
    policy = new_policy(ModelConfig(width=32, layers=2, heads=2, mlp_width=48), tokenizer=tokenizer, seed=5)
    with torch.no_grad():  # surer than a new model, so that there is something to learn
        for name, weight in policy.module.named_parameters():
            if weight.ndim == 2 and "embedding" in name:
                weight.mul_(6)
    policy.save(folder)
    return folder


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("inputs")
    return {
        "model": make_model(folder / "model"),
        "dataset": [write_jsonl(folder / "prompts", [item(index) for index in range(10)])],
        "teachers": [make_teacher(folder / "teacher")],
    }


@pytest.fixture(scope="module")
def straight(inputs: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Finished:
    return run_stage(COMPONENT, tmp_path_factory.mktemp("straight"), params=DISTIL, inputs=inputs, seed=3)


def test_both_kinds_of_steps_are_there_and_the_history_has_the_divergence(straight: Finished) -> None:
    assert {row["student_draws"] for row in straight.history} == {0.0, 1.0}
    assert all(row["teacher_divergence"] > 0 for row in straight.history)
    assert all(row["loss"] == pytest.approx(row["teacher_divergence"], rel=1e-4) for row in straight.history)
    drawn = [row["num_tokens"] for row in straight.history if not row["student_draws"]]
    assert drawn == [0.0] * len(drawn), "given responses are not drawn"


@pytest.mark.parametrize("divergence", ["reverse_kl", "forward_kl", "jsd"])
def test_the_policy_comes_nearer_to_its_teacher(inputs: dict[str, Any], tmp_path: Path, divergence: str) -> None:
    params = DISTIL | {"objective": {"name": "distill", "divergence": divergence}, "rollout": "group", "steps": 40}
    found = run_stage(COMPONENT, tmp_path, params=params, inputs=inputs, seed=3).history
    first, last = (sum(row["teacher_divergence"] for row in part) for part in (found[:5], found[-5:]))
    assert last < 0.5 * first


@pytest.mark.parametrize("step", [2, 4])
def test_stopped_after_a_checkpoint_and_resumed_gives_the_same_bytes(
    inputs: dict[str, Any], straight: Finished, tmp_path: Path, step: int
) -> None:
    with pytest.raises(Interrupted):
        run_stage(COMPONENT, tmp_path, params=DISTIL, inputs=inputs, seed=3, stop_after=step)
    resumed = run_stage(COMPONENT, tmp_path, params=DISTIL, inputs=inputs, seed=3)
    assert resumed.digests == straight.digests and resumed.history == straight.history


class KilledContext(LocalContext):
    """Kills its own process, without any chance to clean up, between two checkpoints."""

    def log(self, step: int, **metrics: float) -> None:
        if step == 5:
            os.kill(os.getpid(), SIGKILL)
        super().log(step, **metrics)


def run_killed(folder: str, inputs: str) -> None:
    """Entry of the process that is killed."""
    torch.set_num_threads(1)
    given = {port: [Path(one) for one in paths] for port, paths in json.loads(inputs).items()}
    toy_operators.register()
    run(KilledContext(COMPONENT, Path(folder), params=DISTIL, inputs=given, seed=3))


def test_killed_for_real_and_resumed_gives_the_same_bytes(
    inputs: dict[str, Any], straight: Finished, tmp_path: Path
) -> None:
    paths = {port: [str(path) for path in (one if isinstance(one, list) else [one])] for port, one in inputs.items()}
    call = f"run_killed({str(tmp_path)!r}, {json.dumps(paths)!r})"
    code = f"from tests.stages.test_rl_distillation import run_killed; {call}"
    child = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2], check=False)
    assert child.returncode == -SIGKILL
    assert sorted(path.name for path in (tmp_path / "partial").iterdir())[-1] == "step-00000004"
    resumed = run_stage(COMPONENT, tmp_path, params=DISTIL, inputs=inputs, seed=3)
    assert resumed.digests == straight.digests and resumed.history == straight.history


def test_nothing_of_the_teacher_is_in_a_checkpoint(inputs: dict[str, Any], tmp_path: Path) -> None:
    """No tensor of a checkpoint has a shape that only the teacher has, and none has its numbers."""
    with pytest.raises(Interrupted):
        run_stage(COMPONENT, tmp_path, params=DISTIL, inputs=inputs, seed=3, stop_after=2)
    shapes = []
    for path in (tmp_path / "partial").rglob("*.safetensors"):
        with safe_open(path, framework="pt") as file:
            shapes += [tuple(file.get_slice(name).get_shape()) for name in file.keys()]  # noqa: SIM118  it is no dict
    teacher = load_policy(inputs["teachers"][0])
    own = {tuple(weight.shape) for _, weight in load_policy(inputs["model"]).trainable()}
    foreign = {tuple(weight.shape) for _, weight in teacher.module.named_parameters()} - own
    assert shapes and foreign and not foreign & set(shapes)


def test_a_teacher_with_another_tokenizer_is_refused_before_anything_is_drawn(
    inputs: dict[str, Any], tmp_path: Path
) -> None:
    given = inputs | {"teachers": [make_teacher(tmp_path / "teacher", phrases=True)]}
    with pytest.raises(InputError, match="the teacher has another tokenizer: token") as refused:
        run_stage(COMPONENT, tmp_path / "run", params=DISTIL, inputs=given, seed=3)
    assert "\n" not in str(refused.value)
    assert not list((tmp_path / "run").rglob("samples.jsonl"))
