"""Meta-transfer in sft: its update against AdamW by hand, resume, what it finds, refusals."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from signal import SIGKILL
from typing import Any

import pytest
import torch
from pydantic import ValidationError

from components.contract.errors import InputError
from components.modeling.loading.load import load_policy
from components.modeling.supervised.examples import examples_from_rows
from components.modeling.supervised.loss import evaluate_loss
from components.sft.component import COMPONENT
from components.sft.params import SftParams
from components.sft.run import run
from tests.stages.supervised_data import base_model, demonstrations
from tests.stages.test_sft import KilledContext
from tests.support.stage_context import Finished, Interrupted, run_stage, write_jsonl

RATE = 0.02
PARAMS: dict[str, Any] = {
    "steps": 12,
    "batch_size": 8,
    "checkpoint_every": 3,
    "save_every": 6,
    "transfer": {"target": "target", "inner_steps": 2, "rate": 0.5, "target_rows": 6},
    "optimizer": {"peak_learning_rate": RATE, "schedule": "cosine", "clip_norm": None},
}


def rows() -> list[dict[str, Any]]:
    """Words as source task and as the target, whose rows are others; sums as the other source task."""
    found = demonstrations(96)
    return [
        row | {"domain": "target" if row["domain"] == "words" and at >= 64 else row["domain"]}
        for at, row in enumerate(found)
    ]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("inputs")
    return {"model": base_model(folder / "model"), "dataset": write_jsonl(folder / "data", rows())}


@pytest.fixture(scope="module")
def straight(inputs: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Finished:
    return run_stage(COMPONENT, tmp_path_factory.mktemp("straight"), params=PARAMS, inputs=inputs)


def test_weights_go_to_the_task_that_helps(straight: Finished, inputs: dict[str, Any], tmp_path: Path) -> None:
    first = straight.history[0]
    assert first["weight_sums"] == first["weight_words"] == 0.5
    params = PARAMS | {"steps": 40, "save_every": 0}
    history = run_stage(COMPONENT, tmp_path, params=params, inputs=inputs).history
    assert all(row["weight_sums"] + row["weight_words"] == pytest.approx(1) for row in history)
    assert history[-1]["weight_words"] > 0.6
    assert sum(row["gain_words"] - row["gain_sums"] for row in history) > 0
    assert history[-1]["loss"] < 0.8 * history[0]["loss"], "of the target, on which nothing was trained"


def test_a_step_is_reptiles_update_by_torchs_adamw(inputs: dict[str, Any], tmp_path: Path) -> None:
    """All rows of a task in each batch, so that no order matters."""
    few = [row for row in rows() if row["domain"] == "target"][:4]
    few += [row for row in rows() if row["domain"] == "sums"][:3] + [row for row in rows() if row["domain"] == "words"][
        :3
    ]
    transfer = PARAMS["transfer"] | {"weighting": "uniform"}
    optimizer = PARAMS["optimizer"] | {"schedule": "constant"}
    params = PARAMS | {"steps": 1, "batch_size": 3, "save_every": 0, "transfer": transfer, "optimizer": optimizer}
    given = inputs | {"dataset": write_jsonl(tmp_path / "data", few)}
    found = run_stage(COMPONENT, tmp_path / "run", params=params, inputs=given)

    start = load_policy(inputs["model"])
    examples = examples_from_rows(start.tokenizer, few, ends=start.ends)
    target = [example for example in examples if example.domain == "target"]
    origin, mean = start.state(), {name: torch.zeros_like(p) for name, p in start.state().items()}
    for domain in ("sums", "words"):
        policy = load_policy(inputs["model"])
        parameters = dict(policy.trainable())
        adamw = torch.optim.AdamW(parameters.values(), lr=RATE, betas=(0.9, 0.95), weight_decay=0.0)
        task = [example for example in examples if example.domain == domain]
        for _ in range(2):
            adamw.zero_grad()
            loss = sum(
                -torch.log_softmax(policy.logits(policy.hidden(packed_alone(one.tokens))), -1)[at - 1, one.tokens[at]]
                for one in task
                for at in range(1, len(one.tokens))
                if one.loss_mask[at]
            ) / sum(one.num_targets for one in task)
            loss.backward()
            adamw.step()
        for name, parameter in parameters.items():
            mean[name] += 0.5 * (parameter.detach() - origin[name])
        gain = evaluate_loss(start, target, max_tokens=9999).loss - evaluate_loss(policy, target, max_tokens=9999).loss
        assert found.history[0][f"gain_{domain}"] == pytest.approx(gain, abs=2e-4)
    after = load_policy(found.outputs["model"]).state()
    for name, tensor in after.items():
        torch.testing.assert_close(tensor, origin[name] + 0.5 * mean[name], rtol=1e-3, atol=2e-4)


def packed_alone(tokens: Any) -> Any:
    from components.modeling.packing.packed import Packed

    return Packed.from_sequences([list(tokens)])


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
    code = f"from tests.stages.test_sft_transfer import run_killed; run_killed({str(tmp_path)!r}, {given!r})"
    child = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2], check=False)
    assert child.returncode == -SIGKILL
    assert sorted(path.name for path in (tmp_path / "partial").iterdir())[-1] == "step-00000006"
    resumed = run_stage(COMPONENT, tmp_path, params=PARAMS, inputs=inputs)
    assert resumed.digests == straight.digests and resumed.history == straight.history


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"steps": None, "epochs": 2.0}, "give its length as `steps`"),
        ({"mixture": {"sums": 1.0}}, "leave `mixture` out"),
        ({"dtype": "bfloat16"}, "set `dtype: float32`"),
        ({"transfer": {"target": "t", "weighting": "uniforms"}}, "uniform"),
    ],
)
def test_settings_that_do_not_fit_are_refused(changed: dict[str, Any], problem: str) -> None:
    with pytest.raises((ValidationError, InputError), match=problem):
        SftParams.model_validate(PARAMS | changed)


def test_a_target_or_tasks_that_are_not_there_are_refused(inputs: dict[str, Any], tmp_path: Path) -> None:
    params = PARAMS | {"transfer": {"target": "targets"}}
    with pytest.raises(InputError, match=r"unknown domain of transfer.target 'targets'.*target"):
        run_stage(COMPONENT, tmp_path / "a", params=params, inputs=inputs)
    alone = write_jsonl(tmp_path / "data", [row for row in rows() if row["domain"] == "target"])
    with pytest.raises(InputError, match="all demonstrations are of the target 'target'; add source tasks"):
        run_stage(COMPONENT, tmp_path / "b", params=PARAMS, inputs=inputs | {"dataset": alone})
