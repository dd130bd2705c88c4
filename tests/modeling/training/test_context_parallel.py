"""Ranks that compute each pack together take the steps of one process: two, four, and two groups of two."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from components.contract.backends import Backends
from components.contract.errors import InputError
from components.modeling.loading.load import load_policy
from components.modeling.training.build import build_trainer
from components.modeling.training.training_config import OptimizerConfig
from components.modeling.training.training_state import load_training_state
from tests.modeling.decoder_models import build
from tests.modeling.training.context_script import KINDS, METHODS, SAVED_AT, STEPS, WAYS, new_trainer, packs, steps
from tests.modeling.training.fsdp_script import rl, save_task_model

ROOT = Path(__file__).parents[3]
ROUNDING = 5e-6
"""How far log-probabilities may be apart in float32; hidden states and gradients relative to their largest."""
WEIGHT = 2e-5
"""How far float32 weights may be apart after four steps of size 0.01: gradients are summed in another order."""
LOGGED = ("reward_mean", "loss", "grad_norm", "start_kl", "entropy", "length_mean", "ratio_mean", "clip_fraction")
VALUED = ("critic_loss", "critic_grad_norm", "critic_explained")


EACH = [(world, way) for world in (2, 4) for way in WAYS if world == 4 or way != "tensor"]
"""Two of four ranks have parts of each matrix, beside two that have parts of each pack."""


def close(way: str) -> float:
    """Return how far losses and norms may be apart, relative to their size: bfloat16 has 8 bits."""
    return 2e-2 if way == "bfloat16" else 2e-4


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """Return, for each number of ranks, where they have written their results, models and checkpoints."""
    found = {world: tmp_path_factory.mktemp(f"ranks-{world}") for world in (2, 4)}
    for kind in KINDS:
        model = build(kind)
        for path in found.values():
            model.save_pretrained(path / kind)
    for world, path in found.items():
        save_task_model(path / "task")
        script = Path(__file__).with_name("context_script.py")
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
        ranks = [
            subprocess.Popen(
                [sys.executable, str(script), str(path), str(rank), str(world)],
                env=environment,
                stderr=(path / f"errors-{rank}").open("w"),
            )
            for rank in range(world)
        ]
        codes = [rank.wait(timeout=900) for rank in ranks]
        assert codes == [0] * world, "\n".join((path / f"errors-{r}").read_text()[-1500:] for r in range(world))
    return found


def found(folders: dict[int, Path], world: int) -> dict[str, Any]:
    return json.loads((folders[world] / "found.json").read_text())


@pytest.mark.deepspeed
@pytest.mark.parametrize("world", [2, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_ranks_compute_what_one_computes(folders: dict[int, Path], world: int, kind: str) -> None:
    """Log-probabilities, entropies, a loss of whole sequences, logits and gradients."""
    result = found(folders, world)[kind]
    assert set(result) == set(packs())
    for name, apart in result.items():
        assert max(apart["loss"], apart["told"], apart["hidden"], apart["gradient"]) < ROUNDING, name
        assert apart["tokens"] < 1 / world + 0.01 or "tokens" in name or "short" in name


@pytest.mark.deepspeed
@pytest.mark.parametrize("world", [2, 4])
def test_a_rank_keeps_its_share_for_the_backward_pass(folders: dict[int, Path], world: int) -> None:
    alone, own = found(folders, world)["kept"]
    assert own < 1.02 * alone / world


@pytest.fixture(scope="module")
def alone(folders: dict[int, Path]) -> dict[str, list[list[float]]]:
    """Return the steps of plain torch in each way; the trained models are beside those of the ranks."""
    rows = {}
    for way in WAYS:
        trainer = new_trainer(folders[2], way, context=None)
        rows[way] = steps(trainer, 0, STEPS)
        trainer.save(folders[2] / f"{way}-alone")
    return rows


@pytest.mark.deepspeed
@pytest.mark.parametrize(("world", "way"), EACH)
def test_ranks_take_the_steps_of_one(
    folders: dict[int, Path], alone: dict[str, list[list[float]]], world: int, way: str
) -> None:
    assert found(folders, world)[way]["rows"] == [pytest.approx(row, rel=close(way)) for row in alone[way]]
    mine, ours = (
        load_file(path / "model.safetensors") for path in (folders[2] / f"{way}-alone", folders[world] / f"{way}-2-end")
    )
    assert {name: t.dtype for name, t in mine.items()} == {name: t.dtype for name, t in ours.items()}
    if way != "bfloat16":
        # AdamW takes as long a step where a gradient is all rounding: a few weights of Gemma, up to .05 of a step.
        apart = torch.cat([(mine[name] - ours[name]).abs().flatten() for name in mine])
        assert float(apart.mean()) < WEIGHT / 100 and float(apart.max()) < 5e-4


@pytest.mark.deepspeed
@pytest.mark.parametrize(("world", "way"), EACH)
def test_a_checkpoint_goes_on_in_any_groups(folders: dict[int, Path], world: int, way: str) -> None:
    """To the last bit in the same ones; in others, and in one process, but for rounding."""
    result = found(folders, world)[way]
    rest = [pytest.approx(row, rel=close(way)) for row in result["rows"][SAVED_AT:]]
    assert result["resumed"] == result["rows"][SAVED_AT:]
    assert result["otherwise"] == rest
    trainer = new_trainer(folders[world], way, context=None)
    saved = folders[world] / f"{way}-2"
    assert load_training_state(saved, policy=trainer.policy, trainer=trainer).step == SAVED_AT
    assert steps(trainer, SAVED_AT, STEPS) == rest
    assert result["evaluated"] == pytest.approx(result["expected"], abs=2e-2 if way == "bfloat16" else ROUNDING)


@pytest.mark.deepspeed
@pytest.mark.parametrize("world", [2, 4])
@pytest.mark.parametrize("method", [*METHODS, "by layers"])
def test_reinforcement_learning_takes_the_steps_of_one(folders: dict[int, Path], world: int, method: str) -> None:
    """Ratios of tokens and of sequences, logits of some positions, a value model, a reference; by layers."""
    known = "kl" if method == "by layers" else method
    rows, got = rl(folders[world], None, known, **METHODS[known]), found(folders, world)[method]
    assert rows[-1]["grad_norm"] > 0.1
    for name in (name for name in (*LOGGED, *VALUED) if name in rows[-1]):
        values = [row[name] for row in rows if name in row]
        assert [row[name] for row in got if name in row] == pytest.approx(values, rel=1e-3, abs=1e-6), name
    folder = f"{known}-2{'layer' if method == 'by layers' else ''}-{world // 2}"
    mine, ours = (load_file(folders[world] / name / "model.safetensors") for name in (f"{known}-1", folder))
    assert max(float((mine[name] - ours[name]).abs().max()) for name in mine) < WEIGHT


def test_a_model_on_transformers_is_refused(tmp_path: Path) -> None:
    build("llama").save_pretrained(tmp_path)
    policy = load_policy(tmp_path, backend="transformers")
    with pytest.raises(InputError, match="context_parallel 2: a pass of a model on transformers is not divided"):
        build_trainer(policy, OptimizerConfig(), total_steps=1, backends=Backends(trainer="fsdp", context_parallel=2))
