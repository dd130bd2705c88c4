"""What test_ranks.py runs on two ranks: a reward model trained by replicas, by FSDP and by ZeRO 3.

python ranks_script.py FOLDER RANK WORLD
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from torch import distributed

from components.contract.backends import Backends
from components.contract.operators import OperatorSpec
from components.modeling.loading.load import load_policy
from components.modeling.scorers.network import RewardNetwork
from components.modeling.training.build import build_trainer
from components.modeling.training.training_config import OptimizerConfig
from components.reward_model.config import ScorerLossConfig
from components.reward_model.rows import read_units
from components.reward_model.slots import SCORER_LOSS
from components.reward_model.training import Fitting, accumulate, rewards_of

WAYS = {
    "torch": Backends(),
    "fsdp": Backends(trainer="fsdp"),
    "zero-3": Backends(trainer="deepspeed", zero_stage=3),
}
STEPS = 3


def train(folder: Path, way: str, to: Path) -> dict[str, list[float]]:
    """Take some steps, save the model, and score the rows."""
    backends = WAYS[way]
    policy = load_policy(folder / "model", sharded=way == "fsdp" and distributed.is_initialized())
    loss = OperatorSpec(name="bradley_terry").resolve(SCORER_LOSS)
    assert isinstance(loss.config, ScorerLossConfig)
    network = RewardNetwork(policy, loss.config.layout(), seed=1)
    units = read_units(policy, [folder / "data"], loss.config)
    fitting = Fitting(network, units, loss)
    config = OptimizerConfig(peak_learning_rate=0.01)
    trainer = build_trainer(policy, config, total_steps=STEPS, backends=backends)
    losses = []
    for step in range(STEPS):
        losses.append(accumulate(trainer, fitting, units, max_tokens=200, seed=0)[0])
        trainer.step(step)
    trainer.save(to)
    rewards = trainer.evaluate(lambda: rewards_of(fitting, units, max_tokens=200))
    return {"losses": losses, "rewards": [value for values in rewards for value in values]}


def main() -> None:
    """Run every way and let the first rank write what came out."""
    folder, rank, world = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=world)
    found = {way: train(folder, way, folder / f"{way}-{world}") for way in WAYS}
    if rank == 0:
        (folder / "found.json").write_text(json.dumps(found))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
