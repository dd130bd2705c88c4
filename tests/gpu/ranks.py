"""What test_ranks.py runs in each rank; all ranks are on one device and speak by gloo.

    python -m tests.gpu.ranks FOLDER WAY DTYPE RANK WORLD [BACKEND]

FOLDER/model is trained for some steps; the first rank writes FOLDER/<way>-<dtype>-<world>.json and a model beside it.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed

from components.contract.backends import Backends
from components.modeling.generation.engine.shared import SharedSampler
from components.modeling.generation.sampler import NativeSampler, Sampler
from components.modeling.generation.sampling_config import SamplingConfig
from components.modeling.loading.load import load_policy
from components.modeling.models.policy import Policy
from components.modeling.packing.packed import Packed
from components.modeling.ranks import Ranks, current_ranks, ranks_along
from components.modeling.training.build import build_trainer
from components.modeling.training.trainer import Trainer
from components.modeling.training.training_config import OptimizerConfig
from components.runtime.system.mesh import SHARDS, arrange
from tests.gpu.device import DEVICE, ON_GPU, sized
from tests.gpu.models import token_rows

STEPS, PARTS = 4, 6
GLOO = sized("cpu:gloo,cuda:gloo", "gloo")
"""Said for each device: from a group called `gloo` a mesh on a GPU makes one of NCCL, which wants a GPU a rank."""
CONFIG = OptimizerConfig(peak_learning_rate=1e-2, clip_norm=0.8)
WAYS = {
    "replicas": Backends(trainer="deepspeed", zero_stage=0),
    "fsdp": Backends(trainer="fsdp"),
    "context": Backends(trainer="fsdp", context_parallel=2),
}


def parts(vocabulary: int) -> list[list[list[int]]]:
    """Return micro-batches of unequal size."""
    lengths = sized([200, 90, 150], [9, 4, 6])
    return [token_rows([n + 3 * at for n in lengths], vocabulary, seed=at) for at in range(PARTS)]


def steps(trainer: Trainer) -> list[list[float]]:
    """Return loss and gradient norm of each step."""
    policy, batch = trainer.policy, parts(trainer.policy.vocab_size)
    targets = sum(len(row) - 1 for part in batch for row in part)

    def loss_of(part: list[list[int]]) -> tuple[Tensor, float]:
        logprobs = policy.target_logprobs(Packed.from_sequences(part, DEVICE)).logprobs
        loss = -logprobs.sum() / targets
        return loss, float(loss.detach())

    rows = []
    for step in range(STEPS):
        losses = trainer.accumulate(batch, loss_of)
        rows.append([sum(losses), trainer.step(step).grad_norm])
    return rows


def make(folder: Path, way: str, dtype: str, ranks: Ranks) -> Trainer:
    """Return a trainer of the model of the folder; FSDP is FSDP even in a world of one."""
    sharded = WAYS[way].trainer == "fsdp"
    policy = load_policy(folder / "model", device=DEVICE, dtype=dtype, sharded=sharded)
    if sharded:
        from components.modeling.training.fsdp import FsdpTrainer

        return FsdpTrainer(policy, CONFIG, total_steps=STEPS, backends=WAYS[way], ranks=ranks)
    return build_trainer(policy, CONFIG, total_steps=STEPS, backends=WAYS[way], ranks=ranks)


def drawn(sampler: Sampler, policy: Policy) -> list[list[int]]:
    """Return greedy responses: with float32 weights equal on any number of ranks."""
    prompts = token_rows([5, 9, 3], policy.vocab_size, seed=7)
    config = SamplingConfig(num_samples=2, max_new_tokens=8, temperature=0.0)
    return sampler.sample(prompts, config, generator=torch.Generator().manual_seed(0)).responses()


def main() -> None:
    """Train, draw and save as one rank."""
    folder, way, dtype = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    rank, world = int(sys.argv[4]), int(sys.argv[5])
    backend = sys.argv[6] if len(sys.argv) > 6 else GLOO
    torch.set_num_threads(1)
    if ON_GPU:
        torch.cuda.set_device(0)
    meeting = f"file://{folder}/meeting-{way}-{dtype}-{world}-{backend.replace(':', '-')}"
    os.environ["LOCAL_RANK"] = "0"
    distributed.init_process_group(backend, init_method=meeting, rank=rank, world_size=world)
    arrange(context=WAYS[way].context_parallel)
    ranks = current_ranks()
    trainer = make(folder, way, dtype, ranks)
    found: dict[str, Any] = {"rows": steps(trainer)}
    with trainer.whole():
        own = NativeSampler(trainer.policy)
        found["drawn"] = drawn(own if world == 1 else SharedSampler(own, ranks_along(SHARDS)), trainer.policy)
    name = f"{way}-{dtype}-{world}"
    trainer.save(folder / f"{name}-end")
    if rank == 0:
        (folder / f"{name}.json").write_text(json.dumps(found))
    distributed.barrier()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
