"""DeepSpeed and replicas on two processes take the steps that one process of plain torch takes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from components.contract.backends import Backends
from components.contract.errors import CorruptArtifact, InputError
from components.modeling.generation.sampler import NativeSampler
from components.modeling.loading.load import load_policy
from components.modeling.models.lora import LoraConfig
from components.modeling.training.build import build_trainer
from components.modeling.training.training_config import OptimizerConfig
from components.modeling.training.training_state import load_training_state
from components.modeling.training.zero_state import ZeroState
from tests.modeling.decoder_models import build
from tests.modeling.training.ranks_script import (
    CONFIG,
    LORA,
    SAVED_AT,
    STEPS,
    WAYS,
    digest,
    policy,
    rounding,
    sampled,
    steps,
)

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where two ranks have written their results and their checkpoints."""
    path = tmp_path_factory.mktemp("ranks")
    build("qwen2").save_pretrained(path / "hosted")
    build("qwen3-moe").save_pretrained(path / "mixture")
    script = Path(__file__).with_name("ranks_script.py")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    ranks = [
        subprocess.Popen(
            [sys.executable, str(script), str(path), str(rank), "2"],
            env={**environment, "LOCAL_RANK": str(rank)},
            # A file: of two pipes one would fill up, and its rank wait, while the other one is read.
            stderr=(path / f"errors-{rank}").open("w"),
        )
        for rank in range(2)
    ]
    codes = [rank.wait(timeout=500) for rank in ranks]
    assert codes == [0, 0], (path / "errors-0").read_text()[-3000:]
    return path


@pytest.fixture(scope="module")
def found(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "found.json").read_text())


@cache
def alone(precision: str) -> tuple[list[list[float]], list[float]]:
    trainer = build_trainer(policy(way=precision), CONFIG, total_steps=STEPS)
    return steps(trainer, 0, STEPS), digest(trainer)


def tolerance(way: str) -> float:
    """Return how far losses and norms may be apart: bfloat16 has 8 bits, and adds up gradients in another order."""
    return 2e-2 if way.endswith("bfloat16") else 2e-4


@pytest.mark.deepspeed
@pytest.mark.parametrize("way", WAYS)
def test_two_ranks_take_the_steps_of_one(found: dict[str, Any], way: str) -> None:
    rows, end = alone("bfloat16" if way.endswith("bfloat16") else "")
    assert found[way]["rows"] == [pytest.approx(row, rel=tolerance(way)) for row in rows]
    assert found[way]["end"] == pytest.approx(end, abs=10 * tolerance(way))


@pytest.mark.deepspeed
@pytest.mark.parametrize("way", [*WAYS, *LORA])
def test_a_resumed_training_is_the_same_to_the_last_bit(found: dict[str, Any], way: str) -> None:
    assert found[way]["resumed"] == found[way]["rows"][SAVED_AT:]
    assert found[way]["resumed_end"] == found[way]["end"]


@pytest.mark.deepspeed
@pytest.mark.parametrize("way", WAYS)
def test_what_two_ranks_saved_goes_on_in_one_process(folder: Path, found: dict[str, Any], way: str) -> None:
    other = policy(seed=5, way=way)
    trainer = build_trainer(other, CONFIG, total_steps=STEPS)
    assert load_training_state(folder / way, policy=other, trainer=trainer).step == SAVED_AT
    rest = found[way]["rows"][SAVED_AT:]
    assert steps(trainer, SAVED_AT, STEPS) == [pytest.approx(row, rel=tolerance(way)) for row in rest]


@pytest.mark.deepspeed
def test_adapters_train_under_zero_3(folder: Path, found: dict[str, Any]) -> None:
    trained = load_policy(folder / "hosted", lora=LoraConfig(rank=2))
    rows = steps(build_trainer(trained, CONFIG, total_steps=STEPS), 0, 3)
    assert found["lora"] == [pytest.approx(row, rel=2e-4) for row in rows]
    assert rows[2][0] < rows[0][0]


@pytest.mark.deepspeed
def test_a_mixture_of_experts_trains_under_zero_3(folder: Path, found: dict[str, Any]) -> None:
    """A block's experts are gathered together: another choice of experts on each rank does not disturb the engine."""
    trainer = build_trainer(load_policy(folder / "mixture"), CONFIG, total_steps=STEPS)
    rows = steps(trainer, 0, 3)
    assert found["mixture"]["leaves"] == ["Qwen3MoeSparseMoeBlock"]
    assert found["mixture"]["rows"] == [pytest.approx(row, rel=2e-4) for row in rows]
    assert found["mixture"]["end"] == pytest.approx(digest(trainer), abs=2e-3)
    assert found["mixture"]["drawn"] == sampled(NativeSampler(trainer.policy), greedy=True)
    assert rows[2][0] < rows[0][0]


@pytest.mark.deepspeed
@pytest.mark.parametrize("way", [way for way in WAYS if way.endswith("bfloat16")])
def test_gradients_of_many_micro_batches_do_not_add_up_in_bfloat16(found: dict[str, Any], way: str) -> None:
    assert found["rounding"][way] < 0.003  # what ranks exchange is rounded: half of 2^-8 at most


def test_gradients_of_many_micro_batches_add_up_in_float32_on_one_rank() -> None:
    assert rounding("bfloat16") < 1e-6  # 0.01 if they added up in bfloat16


def test_a_restored_count_of_updates_lies_where_a_fused_update_needs_it() -> None:
    flat = torch.empty(3, device="meta")
    state = ZeroState(SimpleNamespace(optimizer=SimpleNamespace(state=defaultdict(dict))), 2, 0, {})
    assert state._own(flat, torch.tensor(4.0))["step"].device == flat.device


@pytest.mark.deepspeed
@pytest.mark.parametrize("way", WAYS)
def test_each_rank_holds_and_saves_its_part_of_the_optimisers_state(
    folder: Path, found: dict[str, Any], way: str
) -> None:
    first, second = found[way]["held"]
    averages = 2 * 4 * sum(parameter.numel() for _, parameter in policy().trainable())
    assert first + second >= averages and abs(first - second) < 0.25 * averages
    assert {path.name for path in (folder / way).glob("*-0*.safetensors")} == {
        f"{part}-0000{rank}.safetensors" for part in ("weights", "optimizer") for rank in (0, 1)
    }


@pytest.mark.deepspeed
def test_a_checkpoint_without_the_part_of_a_rank_is_refused(
    folder: Path, found: dict[str, Any], tmp_path: Path
) -> None:
    for name in ("weights-00001.safetensors", "optimizer-00001.safetensors"):
        lacking = shutil.copytree(folder / "zero-2", tmp_path / name)
        (lacking / name).unlink()
        with pytest.raises(CorruptArtifact, match="1 of 2 parts"):
            load_training_state(lacking, policy=policy(), trainer=build_trainer(policy(), CONFIG, total_steps=STEPS))


@pytest.mark.deepspeed
@pytest.mark.parametrize("way", ["live", "live-recompute"])
def test_zero_3_lets_go_of_a_layers_weights_when_it_has_run(found: dict[str, Any], way: str) -> None:
    shares = found[way]
    assert len(shares) == (24 if way == "live-recompute" else 12)  # two passes through six layers
    assert max(shares) < 0.4


@pytest.mark.deepspeed
def test_weights_that_are_shared_out_are_whole_where_they_are_sampled_and_copied(found: dict[str, Any]) -> None:
    alone = NativeSampler(policy())
    whole = found["whole"]
    assert whole["drawn"] == [sampled(alone), sampled(alone, greedy=True)]  # two ranks draw what one would have drawn
    assert whole["copied"] == sampled(alone)
    assert whole["size"] == sum(p.numel() for p in policy().module.parameters())
    assert whole["moved"] > 1e-4


def test_an_optimiser_that_needs_whole_matrices_is_refused() -> None:
    with pytest.raises(InputError, match=r"muon .*, which ZeRO 2 cuts up: take optimizer\.name adamw"):
        build_trainer(
            policy(), OptimizerConfig(name="muon"), total_steps=1, backends=Backends(trainer="deepspeed", zero_stage=2)
        )
