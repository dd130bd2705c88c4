"""What test_fsdp.py runs on several ranks: FSDP takes the steps of plain torch; results go to one JSON file.

python fsdp_script.py FOLDER RANK WORLD [FOLDER OF ANOTHER WORLD]
"""

from __future__ import annotations

import json
import string
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor, distributed
from torch.distributed.tensor import DTensor

from components.contract.backends import Backends
from components.modeling.generation.engine.shared import SharedSampler
from components.modeling.generation.sampler import NativeSampler
from components.modeling.loading.load import load_policy, new_policy
from components.modeling.models.lora import LoraConfig
from components.modeling.models.model_config import ModelConfig
from components.modeling.models.policy import Policy
from components.modeling.native.decoder import Layer
from components.modeling.packing.packed import Packed
from components.modeling.ranks import current_ranks, ranks_along
from components.modeling.text.prompting import encode_prompts
from components.modeling.text.tokenizer import train_tokenizer
from components.modeling.text.tokenizer_config import TokenizerConfig
from components.modeling.training import training_state
from components.modeling.training.build import build_trainer
from components.modeling.training.fsdp import FsdpTrainer
from components.modeling.training.fsdp_shards import shard_frozen
from components.modeling.training.own_parts import OwnParts
from components.modeling.training.training_config import OptimizerConfig
from components.modeling.training.training_state import TrainingState, load_training_state, save_training_state
from components.rl.batch.batch import Prompt
from components.rl.params import RLParams
from components.rl.run import build_loop
from components.rl.step.loop import Loop
from components.rl.step.state import LoopState
from components.runtime.system.mesh import SHARDS
from components.tasks.item import Item
from tests.modeling.training.ranks_script import CONFIG, SAVED_AT, STEPS, parts, sampled, steps

FSDP = Backends(trainer="fsdp")
WAYS: dict[str, tuple[dict[str, Any], Backends]] = {
    "native": ({}, FSDP),
    "native-recompute": ({}, Backends(trainer="fsdp", recompute=True)),
    "native-bfloat16": ({"dtype": "bfloat16"}, FSDP),
    "native-muon": ({}, FSDP),
    "hosted": ({"backend": "transformers"}, FSDP),
    "lora": ({"lora": LoraConfig(rank=2)}, FSDP),
    "qlora": ({"lora": LoraConfig(rank=2, bits=4)}, FSDP),
    "hosted-lora-bfloat16": (
        {"lora": LoraConfig(rank=2), "dtype": "bfloat16", "backend": "transformers"},
        FSDP,
    ),
}


LAYERS = Backends(trainer="fsdp", gather="layer")
MOVING = {"reference": {"name": "ema", "decay": 0.5}, "regularizers": [{"name": "kl", "coefficient": 0.1}]}
"""A reference that is a moving average of the trained weights."""
VALUES = {"method": "ppo", "critic": {"name": "lambda_return", "learning_rate": 1e-2, "minibatches": 2, "clip": 0.2}}
PPO: dict[str, tuple[Backends, dict[str, Any]]] = {
    "ppo": (FSDP, VALUES),
    "ppo-qlora": (FSDP, {**VALUES, "lora": {"rank": 2, "bits": 4}, **MOVING}),
}
OF_FOUR = ("native", "native-muon", "lora", "whole", "rl", "rl-layers", "ppo")
"""What four ranks run: of adapters of rank 2, two of them have no rows."""


def config_of(way: str) -> OptimizerConfig:
    """Return the optimiser of a way."""
    return CONFIG.model_copy(update={"name": "muon"}) if way.endswith("muon") else CONFIG


def load(folder: Path, way: str, *, sharded: bool) -> Policy:
    """Return the model of a way from the folder."""
    return load_policy(folder / "model", sharded=sharded, **WAYS[way][0])


def save_task_model(folder: Path) -> None:
    """Write a small model with a tokenizer of letters."""
    tokenizer = train_tokenizer([string.ascii_letters], {}, TokenizerConfig(phrases=False))
    new_policy(ModelConfig(width=16, layers=2, heads=2, mlp_width=24), tokenizer=tokenizer, seed=0).save(folder)


def rl_loop(folder: Path, backends: Backends | None, **more: Any) -> Loop:
    """Return a loop of GRPO that rewards half of the letters; responses that end early differ in length."""
    lora = LoraConfig.model_validate(more["lora"]) if "lora" in more else None
    policy = load_policy(folder / "task", sharded=backends is not None, lora=lora)
    items = [Item(id=f"p{i}", domain="A", prompt=f"letter {i}", answer="x", verifier="exact") for i in range(8)]
    tokens = encode_prompts(policy.tokenizer, [item.prompt for item in items])
    pool = [Prompt(item, tuple(ids)) for item, ids in zip(items, tokens, strict=True)]
    base = {"steps": 3, "prompts_per_step": 4, "group_size": 6, "max_new_tokens": 2, "start_kl_every": 1}
    base |= {"rewards": [{"name": "pattern", "pattern": "[a-m]"}], "optimizer": {"peak_learning_rate": 1e-2}}
    params = RLParams.model_validate({**base, "method": "grpo", "micro_batch_tokens": 40, **more})
    sampler = SharedSampler(NativeSampler(policy), ranks_along(SHARDS)) if backends else None
    return build_loop(params, policy, pool, start=folder / "task", seed=0, sampler=sampler, backends=backends)


def rl(folder: Path, backends: Backends | None, name: str = "rl", **more: Any) -> list[dict[str, float]]:
    """Take three steps of GRPO, with a frozen reference; save the model."""
    loop = rl_loop(folder, backends, **more)
    rows = [loop.step() for _ in range(3)]
    loop.learner.trainer.save(folder / f"{name}-{current_ranks().count}")
    return rows


def rl_by_layers(folder: Path) -> dict[str, Any]:
    """Take the same steps, drawing and scoring layer by layer, and the last two again from a checkpoint.

    `live` is the largest share of all layers' weights that this rank held whole as a layer ran.
    """
    share, finish = 0.0, Layer.finish
    loop = rl_loop(folder, LAYERS, **MOVING)
    layers = loop.policies.trained.layers()

    def counted(self: Layer, x: Tensor, attended: Tensor) -> Tensor:
        nonlocal share
        share = max(share, sum(not isinstance(layer.down, DTensor) for layer in layers) / len(layers))
        return finish(self, x, attended)

    with mock.patch.object(Layer, "finish", counted):
        found = rl_resumed(folder, loop, rl_loop(folder, LAYERS, **MOVING), "rl-layers")
    return {**found, "live": share}


def rl_resumed(folder: Path, loop: Loop, again: Loop, name: str) -> dict[str, Any]:
    """Take three steps and save the model; then take the last two `again` from a checkpoint after the first."""
    rows = [loop.step()]
    saved = folder / f"{name}-saved"
    saved.mkdir(exist_ok=True)

    def given(loop: Loop) -> dict[str, Any]:
        trainers = {"trainer": loop.learner.trainer, "others": loop.further_trainers}
        return {"policy": loop.policies.trained, "generators": {"rollout": loop.generator}, **trainers}

    state, logs = TrainingState(1, loop.state.to_json(), loop.tensors()), loop.state.fresh_rows()
    save_training_state(saved, state, **given(loop))()
    rows += [loop.step() for _ in range(2)]
    loop.learner.trainer.save(folder / f"{name}-{current_ranks().count}")
    read = load_training_state(saved, **given(again))
    again.learner.trainer.roll_out(lambda: again.load_tensors(read.tensors))
    again.state = LoopState.from_json(read.extra, logs, given=again.state.ledger, browse_samples=0, right_samples=0)
    return {"rows": rows, "resumed": [again.step() for _ in range(2)]}


def ppo(folder: Path, way: str) -> dict[str, Any]:
    """Take steps of PPO, whose value model is sharded too; `held` is the share of it that this rank has."""
    backends, more = PPO[way]
    loop = rl_loop(folder, backends, **more)
    assert loop.critic is not None
    body = [p for p in loop.critic.trainer.policy.module.parameters() if p.is_floating_point()]
    held = sum(p.to_local().numel() for p in body if isinstance(p, DTensor))
    found = rl_resumed(folder, loop, rl_loop(folder, backends, **more), way)
    return {**found, "held": held / sum(p.numel() for p in body)}


def train(folder: Path, way: str) -> dict[str, Any]:
    """Train straight through, saving on the way; then again from what was saved."""
    trained = load(folder, way, sharded=True)
    trainer = build_trainer(trained, config_of(way), total_steps=STEPS, backends=WAYS[way][1])
    assert isinstance(trainer, FsdpTrainer)
    shards = [p for p in trained.module.parameters() if isinstance(p, DTensor)]
    held, codes = (sum(p.to_local().numel() for p in shards if p.is_floating_point() == kind) for kind in (True, False))
    rows = steps(trainer, 0, SAVED_AT)
    saved = folder / way
    saved.mkdir(exist_ok=True)
    save_training_state(saved, TrainingState(SAVED_AT), policy=trained, trainer=trainer)()
    rows += steps(trainer, SAVED_AT, STEPS)
    trainer.save(folder / f"{way}-end")
    first, state = trainer.weights(), trainer.state()
    distributed.barrier()
    other = load(folder, way, sharded=True)
    again = build_trainer(other, config_of(way), total_steps=STEPS, backends=WAYS[way][1])
    with reading() as parts_read:
        load_training_state(saved, policy=other, trainer=again)
    resumed = steps(again, SAVED_AT, STEPS)
    second, state_again = again.weights(), again.state()
    equal = all(torch.equal(first[name], second[name]) for name in first)
    equal &= set(state) == set(state_again) and all(torch.equal(state[key], state_again[key]) for key in state)
    sizes = {
        "held": trainer.ranks.gather(held),
        "codes": trainer.ranks.gather(codes),
        "size": trainer.num_parameters,
        "low": trained.low_precision,
    }
    sizes["trained"] = sum(p.numel() for _, p in trained.trainable())
    return {
        "rows": rows,
        "resumed": resumed,
        "equal": equal,
        "kept": trainer.ranks.gather(sum(w.numel() for w in first.values())),
        "read": trainer.ranks.gather(sum(parts.bytes_read for parts in parts_read)),
        **sizes,
    }


@contextmanager
def reading() -> Iterator[list[OwnParts]]:
    """Yield what is read of ranks' parts inside, which must not be read whole."""
    made: list[OwnParts] = []

    def note(*given: Any) -> OwnParts:
        made.append(OwnParts(*given))
        return made[-1]

    with mock.patch.object(training_state, "OwnParts", note), mock.patch.object(training_state, "joined", None):
        yield made


def other_size(folder: Path, earlier: Path) -> dict[str, Any]:
    """Go on from what another number of ranks saved; `opened` are the files that each rank opened."""
    trained = load(folder, "native", sharded=True)
    trainer = build_trainer(trained, CONFIG, total_steps=STEPS, backends=FSDP)
    with reading() as parts_read:
        load_training_state(earlier / "native", policy=trained, trainer=trainer)
    read = trainer.ranks.gather((sum(parts.bytes_read for parts in parts_read), parts_read[0].files))
    return {"rows": steps(trainer, SAVED_AT, STEPS), "read": [size for size, _ in read], "opened": [f for _, f in read]}


def live(folder: Path) -> list[float]:
    """Return the share of all layers' weights that this rank holds whole as each layer of a step runs."""
    trained = load(folder, "native", sharded=True)
    trainer = build_trainer(trained, CONFIG, total_steps=STEPS, backends=FSDP)
    finish, shares = Layer.finish, []
    layers = trained.layers()

    def counted(self: Layer, x: Tensor, attended: Tensor) -> Tensor:
        shares.append(sum(not isinstance(layer.down, DTensor) for layer in layers) / len(layers))
        return finish(self, x, attended)

    with mock.patch.object(Layer, "finish", counted):
        steps(trainer, 0, 1)
    return shares


def whole(folder: Path) -> dict[str, Any]:
    """Sample from and copy a policy whose weights are shared out, and score with a frozen one."""
    trained = load(folder, "native", sharded=True)
    trainer = build_trainer(trained, CONFIG, total_steps=STEPS, backends=FSDP)
    with trainer.whole():
        drawn = sampled(SharedSampler(NativeSampler(trained), trainer.ranks))
        copy = trained.copy()
    steps(trainer, 0, 1)
    packed = Packed.from_sequences(parts()[1])
    scored = trainer.evaluate(lambda: trained.target_logprobs(packed).logprobs.tolist())
    with trainer.whole(), torch.no_grad():
        expected = trained.target_logprobs(packed).logprobs.tolist()
    frozen = load(folder, "native", sharded=True)
    shard_frozen(frozen)
    with torch.no_grad():
        scores = frozen.target_logprobs(Packed.from_sequences(parts()[0])).logprobs
    cut = sum(isinstance(p, DTensor) for p in frozen.module.parameters())
    evaluated = {"evaluated": scored, "expected": expected}
    return {**evaluated, "drawn": drawn, "copied": sampled(NativeSampler(copy)), "scores": scores.tolist(), "cut": cut}


def main() -> None:
    """Run everything and let the first rank write it down."""
    folder, rank, world = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=world)
    jobs: dict[str, Callable[[], Any]] = {way: partial(train, folder, way) for way in WAYS}
    jobs |= {"live": partial(live, folder), "whole": partial(whole, folder), "rl": partial(rl, folder, FSDP)}
    jobs["rl-layers"] = partial(rl_by_layers, folder)
    jobs |= {way: partial(ppo, folder, way) for way in PPO}
    found = {name: job() for name, job in jobs.items() if world == 2 or name in OF_FOUR}
    if len(sys.argv) > 4:
        found["other-size"] = other_size(folder, Path(sys.argv[4]))
    if rank == 0:
        (folder / "found.json").write_text(json.dumps(found))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
