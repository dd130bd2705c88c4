"""What test_zero.py runs on two ranks: every way to train takes the same steps; results go to one JSON file.

python ranks_script.py FOLDER RANK WORLD
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed

from components.contract.backends import Backends
from components.modeling.generation.sampler import NativeSampler, Sampler
from components.modeling.generation.shared import SharedSampler
from components.modeling.model_config import ModelConfig
from components.modeling.packed import Packed
from components.modeling.policy import Policy, load_policy, new_policy
from components.modeling.ranks import Ranks, current_ranks
from components.modeling.sampling_config import SamplingConfig
from components.modeling.training import Trainer, build_trainer
from components.modeling.training_config import OptimizerConfig
from components.modeling.training_state import TrainingState, load_training_state, save_training_state

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
WAYS |= {f"{name}-bfloat16": WAYS[name] for name in ("zero-0", "zero-1", "zero-2", "zero-3")}


def policy(seed: int = 0, way: str = "") -> Policy:
    """Return a small native policy, in the precision of a way; its sizes do not divide by two everywhere."""
    config = ModelConfig(width=18, layers=2, heads=3, mlp_width=29, vocab_size=31, tie_embeddings=False)
    made = new_policy(config, tokenizer=None, seed=seed)
    if way.endswith("bfloat16"):
        made.module.to(torch.bfloat16)
    return made


def parts() -> list[list[list[int]]]:
    """Return three micro-batches: one rank has two of them, the other one."""
    generator = torch.Generator().manual_seed(1)
    return [[torch.randint(0, 31, (5 + n,), generator=generator).tolist() for _ in range(2)] for n in range(3)]


def steps(trainer: Trainer, first: int, last: int) -> list[list[float]]:
    """Return loss and gradient norm of some steps."""
    num_targets = sum(len(row) - 1 for part in parts() for row in part)

    def loss_of(part: list[list[int]]) -> tuple[Tensor, float]:
        logprobs = trainer.policy.target_logprobs(Packed.from_sequences(part)).logprobs
        loss = -logprobs.sum() / num_targets
        return loss, float(loss.detach())

    rows = []
    for step in range(first, last):
        losses = trainer.accumulate(parts(), loss_of)
        rows.append([sum(losses), trainer.step(step).grad_norm])
    return rows


def digest(trainer: Trainer) -> list[float]:
    """Return the sum of every weight matrix in double precision: equal for equal weights."""
    with trainer.whole():
        return [float(p.detach().double().sum()) for _, p in trainer.policy.trainable()]


def train(name: str, folder: Path) -> dict[str, Any]:
    """Train straight through, saving on the way; then again from what was saved."""
    trained = policy(way=name)
    trainer = build_trainer(trained, CONFIG, total_steps=STEPS, backends=WAYS[name])
    rows = steps(trainer, 0, SAVED_AT)
    saved = folder / name
    saved.mkdir(exist_ok=True)
    save_training_state(saved, TrainingState(SAVED_AT), policy=trained, trainer=trainer)
    rows += steps(trainer, SAVED_AT, STEPS)
    end = digest(trainer)
    distributed.barrier()
    other = policy(seed=9, way=name)
    again = build_trainer(other, CONFIG, total_steps=STEPS, backends=WAYS[name])
    load_training_state(saved, policy=other, trainer=again)
    return {"rows": rows, "end": end, "resumed": steps(again, SAVED_AT, STEPS), "resumed_end": digest(again)}


def lora(folder: Path) -> list[list[float]]:
    """Train adapters of a model of transformers under ZeRO 3."""
    from components.modeling.lora import LoraConfig

    trained = load_policy(folder / "hosted", lora=LoraConfig(rank=2))
    return steps(build_trainer(trained, CONFIG, total_steps=STEPS, backends=WAYS["zero-3"]), 0, 3)


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
    found: dict[str, Any] = {name: train(name, folder) for name in WAYS}
    found["lora"] = lora(folder)
    found["whole"] = whole(current_ranks())
    if rank == 0:
        (folder / "found.json").write_text(json.dumps(found))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
