"""What test_zero.py runs on two ranks: every way to train takes the same steps; results go to one JSON file.

python ranks_script.py FOLDER RANK WORLD
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor, distributed

from components.contract.backends import Backends
from components.modeling.generation.engine.shared import SharedSampler
from components.modeling.generation.sampler import NativeSampler, Sampler
from components.modeling.generation.sampling_config import SamplingConfig
from components.modeling.loading.load import load_policy, new_policy
from components.modeling.models.lora import LoraConfig
from components.modeling.models.model_config import ModelConfig
from components.modeling.models.policy import Policy
from components.modeling.native.decoder import Layer
from components.modeling.packing.packed import Packed
from components.modeling.ranks import Ranks, current_ranks
from components.modeling.training.build import build_trainer
from components.modeling.training.shards import joined
from components.modeling.training.trainer import Trainer
from components.modeling.training.training_config import OptimizerConfig
from components.modeling.training.training_state import TrainingState, load_training_state, save_training_state

STEPS, SAVED_AT = 6, 3
CONFIG = OptimizerConfig(peak_learning_rate=1e-2, weight_decay=0.1, clip_norm=0.8)
WAYS = {
    "zero-0": Backends(trainer="deepspeed", zero_stage=0),
    "zero-1": Backends(trainer="deepspeed", zero_stage=1),
    "zero-2": Backends(trainer="deepspeed", zero_stage=2),
    "zero-3": Backends(trainer="deepspeed", zero_stage=3),
    "zero-2-offload": Backends(trainer="deepspeed", zero_stage=2, offload="optimizer"),
    "zero-3-offload": Backends(trainer="deepspeed", zero_stage=3, offload="all"),
    "zero-3-recompute": Backends(trainer="deepspeed", zero_stage=3, recompute=True),
}
LORA = {f"lora-{name}-bfloat16": WAYS[name] for name in ("zero-1", "zero-2", "zero-3")}
WAYS |= {f"{name}-bfloat16": WAYS[name] for name in ("zero-0", "zero-1", "zero-2", "zero-3")}


def policy(seed: int = 0, way: str = "") -> Policy:
    """Return a small native policy, in the precision of a way; its sizes do not divide by two everywhere."""
    config = ModelConfig(width=18, layers=2, heads=3, mlp_width=29, vocab_size=31, tie_embeddings=False)
    made = new_policy(config, tokenizer=None, seed=seed)
    if way.endswith("bfloat16"):
        made.module.to(torch.bfloat16)
    return made


def parts(count: int = 3) -> list[list[list[int]]]:
    """Return micro-batches: of three, one rank has two and the other one."""
    generator = torch.Generator().manual_seed(1)
    return [[torch.randint(0, 31, (5 + n % 3,), generator=generator).tolist() for _ in range(2)] for n in range(count)]


def loss_on(policy: Policy, batch: list[list[list[int]]]) -> Callable[[list[list[int]]], tuple[Tensor, float]]:
    """Return what gives a micro-batch's share of the mean loss of a batch."""
    num_targets = sum(len(row) - 1 for part in batch for row in part)

    def loss_of(part: list[list[int]]) -> tuple[Tensor, float]:
        logprobs = policy.target_logprobs(Packed.from_sequences(part)).logprobs
        loss = -logprobs.sum() / num_targets
        return loss, float(loss.detach())

    return loss_of


def steps(trainer: Trainer, first: int, last: int) -> list[list[float]]:
    """Return loss and gradient norm of some steps."""
    loss_of = loss_on(trainer.policy, parts())
    rows = []
    for step in range(first, last):
        losses = trainer.accumulate(parts(), loss_of)
        rows.append([sum(losses), trainer.step(step).grad_norm])
    return rows


def digest(trainer: Trainer) -> list[float]:
    """Return the sum of every weight matrix in double precision: equal for equal weights."""
    with trainer.whole():
        return [float(p.detach().double().sum()) for _, p in trainer.policy.trainable()]


def train(name: str, folder: Path, backends: Backends, make: Callable[[int], Policy]) -> dict[str, Any]:
    """Train straight through, saving on the way; then again from what was saved; `make` takes a seed."""
    trained = make(0)
    trainer = build_trainer(trained, CONFIG, total_steps=STEPS, backends=backends)
    rows = steps(trainer, 0, SAVED_AT)
    saved = folder / name
    saved.mkdir(exist_ok=True)
    save_training_state(saved, TrainingState(SAVED_AT), policy=trained, trainer=trainer)()
    rows += steps(trainer, SAVED_AT, STEPS)
    end = digest(trainer)
    distributed.barrier()
    held = trainer.ranks.gather(sum(value.nbytes for value in trainer.state().values()))
    other = make(9)
    again = build_trainer(other, CONFIG, total_steps=STEPS, backends=backends)
    load_training_state(saved, policy=other, trainer=again)
    resumed = {"resumed": steps(again, SAVED_AT, STEPS), "resumed_end": digest(again)}
    return {"rows": rows, "end": end, "held": held, **resumed}


def adapted(folder: Path, seed: int = 0, dtype: str = "float32") -> Policy:
    """Return a model of transformers with adapters; these are float32 on a bfloat16 model."""
    return load_policy(folder / "hosted", dtype=dtype, lora=LoraConfig(rank=2, seed=seed))


def lora(folder: Path) -> list[list[float]]:
    """Train adapters under ZeRO 3."""
    return steps(build_trainer(adapted(folder), CONFIG, total_steps=STEPS, backends=WAYS["zero-3"]), 0, 3)


def mixture(folder: Path) -> dict[str, Any]:
    """Train a mixture of experts under ZeRO 3, and draw from it."""
    trainer = build_trainer(load_policy(folder / "mixture"), CONFIG, total_steps=STEPS, backends=WAYS["zero-3"])
    leaves = sorted({type(part).__name__ for part in trainer.policy.module.modules() if getattr(part, "_z3_leaf", 0)})
    rows = steps(trainer, 0, 3)
    with trainer.whole():
        drawn = sampled(NativeSampler(trainer.policy), greedy=True)
    return {"rows": rows, "leaves": leaves, "drawn": drawn, "end": digest(trainer)}


def live(recompute: bool) -> list[float]:
    """Return the share of all layers' weights that this rank holds whole as each layer of a step runs."""
    config = ModelConfig(width=18, layers=6, heads=3, mlp_width=29, vocab_size=31, tie_embeddings=False)
    trained = new_policy(config, tokenizer=None, seed=0)
    backends = Backends(trainer="deepspeed", zero_stage=3, recompute=recompute)
    trainer = build_trainer(trained, CONFIG, total_steps=STEPS, backends=backends)
    steps(trainer, 0, 2)  # the engine looks ahead once it has seen a step
    finish, shares = Layer.finish, []
    weights = [p for name, p in trained.module.named_parameters() if name.startswith("layers.")]

    def counted(self: Layer, x: Tensor, attended: Tensor) -> Tensor:
        shares.append(sum(p.numel() for p in weights) / sum(p.ds_numel for p in weights))
        return finish(self, x, attended)

    with mock.patch.object(Layer, "finish", counted):
        steps(trainer, 2, 3)
    return shares


def rounding(name: str, count: int = 64) -> float:
    """Return how far the gradient of many micro-batches is from their exact sum, relative to that; 0 elsewhere."""
    batch, exact = parts(count), policy(way=name)
    weights, loss_of = dict(exact.trainable()), loss_on(exact, batch)
    total = {name: torch.zeros(weight.shape, dtype=torch.float64) for name, weight in weights.items()}
    for part in batch:
        gradients = torch.autograd.grad(loss_of(part)[0], list(weights.values()))
        for name_, gradient in zip(weights, gradients, strict=True):
            total[name_] += gradient
    trained, config = policy(way=name), CONFIG.model_copy(update={"clip_norm": None})
    trainer = build_trainer(trained, config, total_steps=STEPS, backends=WAYS.get(name))
    trainer.accumulate(batch, loss_on(trained, batch))
    trainer.step(0)
    # after one step an average is the gradient times 1 - beta
    state = joined(trainer.ranks.gather(trainer.state()), {name: value.shape for name, value in total.items()})
    wrong = [state[f"exp_avg/{key}"].double() / (1 - config.betas[0]) - value for key, value in total.items()]
    lengths = [torch.cat([tensor.flatten() for tensor in tensors]).norm() for tensors in (wrong, total.values())]
    return float(lengths[0] / lengths[1])


def sampled(sampler: Sampler, *, greedy: bool = False) -> list[list[int]]:
    """Return what a sampler draws, and a number that the generator gives afterwards."""
    generator = torch.Generator().manual_seed(3)
    config = SamplingConfig(num_samples=2, max_new_tokens=6, temperature=0.0 if greedy else 0.7)
    samples = sampler.sample([[1, 2, 3], [4], [5, 6]], config, generator=generator)
    return [*samples.responses(), samples.prompt_index.tolist(), [int(torch.randint(999, (), generator=generator))]]


def whole(ranks: Ranks) -> dict[str, Any]:
    """Sample from, copy and save a policy whose weights are shared out, then train it."""
    trained = policy()
    trainer = build_trainer(trained, CONFIG, total_steps=STEPS, backends=WAYS["zero-3"])
    with trainer.whole():
        sampler = SharedSampler(NativeSampler(trained), ranks)
        drawn = [sampled(sampler), sampled(sampler, greedy=True)]
        copy = trained.copy()
    steps(trainer, 0, 1)
    with trainer.whole():
        moved = max(
            float((a - b).abs().max())
            for a, b in zip(copy.module.parameters(), trained.module.parameters(), strict=True)
        )
    copied = sampled(NativeSampler(copy))
    return {"drawn": drawn, "copied": copied, "moved": moved, "size": trainer.num_parameters}


def main() -> None:
    """Run everything and let the first rank write it down."""
    folder, rank, world = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=world)
    found: dict[str, Any] = {
        name: train(name, folder, backends, partial(policy, way=name)) for name, backends in WAYS.items()
    }
    found["lora"] = lora(folder)
    found["mixture"] = mixture(folder)
    found |= {name: train(name, folder, way, partial(adapted, folder, dtype="bfloat16")) for name, way in LORA.items()}
    found["rounding"] = {name: rounding(name) for name in WAYS if name.endswith("bfloat16")}
    found["live"] = live(recompute=False)
    found["live-recompute"] = live(recompute=True)
    found["whole"] = whole(current_ranks())
    if rank == 0:
        (folder / "found.json").write_text(json.dumps(found))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
