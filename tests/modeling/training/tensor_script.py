"""What test_tensor_parallel.py runs on several ranks: parts of a model take the steps of the whole one.

python tensor_script.py FOLDER RANK WORLD TENSOR WAY...
"""

from __future__ import annotations

import json
import string
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import distributed
from torch.distributed.tensor import DTensor

from components.contract.backends import Backends
from components.modeling.generation.engine.shared import SharedSampler
from components.modeling.generation.sampler import NativeSampler
from components.modeling.loading.load import load_policy, new_policy
from components.modeling.models.lora import LoraConfig
from components.modeling.models.model_config import ModelConfig
from components.modeling.models.policy import Policy
from components.modeling.packing.packed import Packed
from components.modeling.ranks import current_ranks
from components.modeling.text.tokenizer import train_tokenizer
from components.modeling.text.tokenizer_config import TokenizerConfig
from components.modeling.training.build import build_trainer
from components.modeling.training.fsdp import FsdpTrainer
from components.modeling.training.fsdp_copies import sharded_copy, whole_on_first
from components.modeling.training.fsdp_shards import shard_frozen
from components.modeling.training.shards import joined
from components.modeling.training.trainer import Trainer
from components.modeling.training.training_state import TrainingState, load_training_state, save_training_state
from components.runtime.system.mesh import arrange
from tests.modeling.training.ranks_script import CONFIG, SAVED_AT, STEPS, parts, sampled, steps

WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "light": ("qwen2", {"dtype": "float64"}),
    "qwen2": ("qwen2", {"dtype": "float64"}),
    "qwen3": ("qwen3", {"dtype": "float64"}),
    "gemma2": ("gemma2", {"dtype": "float64"}),
    "phi3": ("phi3", {"dtype": "float64"}),
    "lora": ("qwen2", {"dtype": "float64", "lora": LoraConfig(rank=2)}),
    "lora-phi3": ("phi3", {"dtype": "float64", "lora": LoraConfig(rank=2)}),
    "float32": ("qwen3", {}),
    "recompute": ("gemma2", {"dtype": "float64"}),
    "bfloat16": ("qwen3", {"dtype": "bfloat16"}),
}
"""Model and arguments of `load_policy`."""


def load(folder: Path, way: str, *, sharded: bool) -> Policy:
    """Return the model of a way from the folder."""
    kind, given = WAYS[way]
    return load_policy(folder / kind, sharded=sharded, **given)


def trainer_of(policy: Policy, way: str, *, sharded: bool) -> Trainer:
    """Return what trains it: of the words of `backend` the mesh has the one that counts tensor ranks."""
    backends = Backends(trainer="fsdp", recompute=way == "recompute") if sharded else None
    return build_trainer(policy, CONFIG, total_steps=STEPS, backends=backends)


def scores(policy: Policy) -> dict[str, list[float]]:
    """Return log-probabilities and entropies of tokens, and sums of whole logits."""
    packed = Packed.from_sequences(parts()[1])
    with torch.no_grad():
        found = policy.target_logprobs(packed, temperature=0.7, entropy=True)
        logits = policy.target_logits(packed)
    assert found.entropies is not None
    return {
        "logprobs": found.logprobs.tolist(),
        "entropies": found.entropies.tolist(),
        "logits": logits.double().logsumexp(-1).tolist(),
    }


def gradients(trainer: Trainer) -> dict[str, torch.Tensor]:
    """Return the averages of a first step's gradient, of entropies too, by name; whole, of all ranks' pieces."""
    policy = trainer.policy

    def loss_of(part: list[list[int]]) -> tuple[torch.Tensor, None]:
        found = policy.target_logprobs(Packed.from_sequences(part), temperature=0.7, entropy=True)
        assert found.entropies is not None
        return (found.logprobs * torch.linspace(0.1, 1.0, len(found.logprobs))).sum() - found.entropies.sum(), None

    trainer.accumulate(parts(), loss_of)
    trainer.step(0)
    shapes = {name: policy.whole_shape(name, p.shape) for name, p in policy.trainable()}
    found = joined(trainer.ranks.all.gather(trainer.state()), shapes)
    return {name.partition("/")[2]: value for name, value in found.items() if name.startswith("exp_avg/")}


def train(folder: Path, way: str) -> dict[str, Any]:
    """Train straight through, saving on the way; then again from what was saved, here and without tensor groups."""
    trained = load(folder, way, sharded=True)
    trainer = trainer_of(trained, way, sharded=True)
    assert isinstance(trainer, FsdpTrainer)
    held = sum(p.to_local().numel() for p in trained.module.parameters() if isinstance(p, DTensor))
    scored = trainer.evaluate(lambda: scores(trained))
    rows = steps(trainer, 0, SAVED_AT)
    saved = folder / f"{way}-saved"
    saved.mkdir(exist_ok=True)
    save_training_state(saved, TrainingState(SAVED_AT), policy=trained, trainer=trainer)()
    rows += steps(trainer, SAVED_AT, STEPS)
    trainer.save(folder / f"{way}-end")
    drawn = trainer.roll_out(lambda: sampled(SharedSampler(NativeSampler(trained), trainer.ranks)))
    found = {"scores": scored, "rows": rows, "drawn": drawn, "size": trainer.num_parameters}
    first = trainer.weights()
    kept = sum(weight.numel() for weight in first.values())
    found |= {"held": trainer.ranks.all.gather(held), "kept": trainer.ranks.all.gather(kept)}
    if way == "light":
        return found
    distributed.barrier()
    again = trainer_of(other := load(folder, way, sharded=True), way, sharded=True)
    load_training_state(saved, policy=other, trainer=again)
    resumed = steps(again, SAVED_AT, STEPS)
    second = again.weights()
    from_one = trainer_of(other := load(folder, way, sharded=True), way, sharded=True)
    load_training_state(folder / f"{way}-one", policy=other, trainer=from_one)
    found["equal"] = all(torch.equal(first[name], second[name]) for name in first) and first.keys() == second.keys()
    return found | {"resumed": resumed, "from_one": steps(from_one, SAVED_AT, STEPS)}


def copies(folder: Path) -> dict[str, Any]:
    """Score with frozen copies in parts: the starting policy, and one that follows."""
    trained = load(folder, "qwen3", sharded=True)
    trainer = trainer_of(trained, "qwen3", sharded=True)
    copy = trainer.evaluate(lambda: sharded_copy(trained))
    start = load(folder, "qwen3", sharded=True)
    shard_frozen(start)
    steps(trainer, 0, 1)
    whole = {name: whole_on_first(copy, name) for name, _ in trained.trainable()}
    return {
        "copy": scores(copy),
        "start": scores(start),
        "whole": {name: float(value.double().sum()) for name, value in whole.items()},
    }


def whole_rl(folder: Path) -> list[dict[str, float]]:
    """Take steps of GRPO, drawing and scoring with whole copies of the parts."""
    from tests.modeling.training.fsdp_script import FSDP, rl

    return rl(folder, FSDP)


def layered_rl(folder: Path) -> dict[str, Any]:
    """Take steps of GRPO, drawing and scoring layer by layer."""
    from tests.modeling.training.fsdp_script import rl_by_layers

    return rl_by_layers(folder)


JOBS: dict[str, Callable[[Path], Any]] = {"copies": copies, "rl": whole_rl, "rl-layers": layered_rl}


def save_task_model(folder: Path) -> None:
    """Write a small model with a tokenizer of letters, whose sizes four ranks part."""
    tokenizer = train_tokenizer([string.ascii_letters], {}, TokenizerConfig(phrases=False))
    sizes = ModelConfig(width=16, layers=2, heads=4, kv_heads=2, mlp_width=24, vocab_size=104)
    new_policy(sizes, tokenizer=tokenizer, seed=0).save(folder)


def main() -> None:
    """Run everything and let the first rank write it down."""
    folder, rank, world, tensor = Path(sys.argv[1]), *map(int, sys.argv[2:5])
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=world)
    arrange(tensor=tensor)
    ways = [way for way in sys.argv[5:] if way in WAYS]
    found: dict[str, Any] = {way: train(folder, way) for way in ways}
    for way in ways:
        own = gradients(trainer_of(load(folder, way, sharded=True), way, sharded=True))
        if rank == 0:
            torch.save(own, folder / f"{way}-gradients")
    found |= {name: job(folder) for name, job in JOBS.items() if name in sys.argv}
    arrange()
    for way in (way for way in ways if way != "light"):
        trainer = trainer_of(other := load(folder, way, sharded=True), way, sharded=True)
        load_training_state(folder / f"{way}-saved", policy=other, trainer=trainer)
        found[way]["without"] = steps(trainer, SAVED_AT, STEPS)
    assert current_ranks().count == world
    if rank == 0:
        (folder / "found.json").write_text(json.dumps(found))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
