"""What test_context_parallel.py runs on several ranks that compute each pack together; results go to one JSON file.

python context_script.py FOLDER RANK WORLD
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed

from components.contract.backends import Backends
from components.modeling.context.part import part_of
from components.modeling.context.passes import context_passes
from components.modeling.loading.load import load_policy
from components.modeling.models.lora import LoraConfig
from components.modeling.models.policy import Policy
from components.modeling.packing.packed import Packed
from components.modeling.ranks import ranks_along
from components.modeling.training.build import build_trainer
from components.modeling.training.trainer import Trainer
from components.modeling.training.training_state import TrainingState, load_training_state, save_training_state
from components.runtime.system.mesh import CONTEXT, arrange
from tests.modeling.training.fsdp_script import VALUES, rl
from tests.modeling.training.ranks_script import CONFIG

STEPS, SAVED_AT = 4, 2
KINDS = ("llama-gqa", "mistral-window", "gemma2", "gemma3", "qwen3")
"""Shared heads; windows; windows, capped scores and logits; windows in most layers with another rope; head norms."""
WAYS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "plain": ("llama-gqa", {}, {}),
    "recompute": ("gemma2", {}, {"recompute": True}),
    "bfloat16": ("qwen3", {"dtype": "bfloat16"}, {}),
    "lora": ("mistral-window", {"lora": LoraConfig(rank=4)}, {}),
    "muon": ("llama-gqa", {}, {}),
    "tensor": ("gemma2", {}, {"tensor_parallel": 2}),
}
"""Model, how it is loaded, and backends."""
METHODS: dict[str, dict[str, Any]] = {
    "grpo": {},
    "gspo": {"method": "gspo"},
    "rover": {"method": "rover"},
    "ppo": VALUES,
    "kl": {"regularizers": [{"name": "kl", "coefficient": 0.1}], "start_kl_every": 1},
}
"""Ratios of tokens and of whole sequences; logits of some positions; a value model; a frozen reference."""


def rows(*lengths: int) -> list[list[int]]:
    """Return sequences of random tokens."""
    generator = torch.Generator().manual_seed(sum(lengths))
    return [torch.randint(4, 40, (length,), generator=generator).tolist() for length in lengths]


def packs() -> dict[str, Packed]:
    """Return packs by what they have: two ranks cut a sequence of 256 tokens or more by itself, four one of 512."""
    groups = [rows(270, 9, 40), rows(7, 3)]
    return {
        "one long": Packed.from_sequences(rows(600)),
        "many short": Packed.from_sequences(rows(9, 8, 7, 7, 6, 5, 4, 3, 2)),
        "long and short": Packed.from_sequences(rows(530, 20, 40)),
        "groups": Packed.from_groups(rows(30, 5), groups),
        "learned in part": Packed.from_groups(
            rows(30, 5),
            groups,
            masks=[[[place % 3 > 0 for place in range(len(row))] for row in group] for group in groups],
            keep_last=True,
        ),
        "fewer tokens than ranks": Packed.from_sequences(rows(3)),
    }


def loss_of(policy: Policy, packed: Packed) -> tuple[Tensor, list[float]]:
    """Return a loss of ratios of whole sequences, entropies and some logits, and what it is made of."""
    scores = policy.target_logprobs(packed, entropy=True, temperature=0.7)
    assert scores.entropies is not None
    sums = torch.zeros(packed.num_sequences).index_add(0, packed.sequence, scores.logprobs)
    ratios = (sums / packed.target_counts.clamp(min=1) + 3.5).exp()
    logits = scores.logits_at(torch.arange(0, packed.num_targets, 3))
    loss = -ratios.mean() - 0.1 * scores.entropies.mean() + 0.01 * logits.square().mean()
    return loss, [*scores.logprobs.tolist(), *scores.entropies.tolist()]


def gradients(policy: Policy, packed: Packed) -> dict[str, Any]:
    """Return the loss, its parts, and the gradient of each weight, summed over ranks where they divide the pass."""
    loss, told = loss_of(policy, packed)
    loss.backward()
    found = {name: weight.grad for name, weight in policy.trainable()}
    policy.module.zero_grad()
    return {"loss": float(loss.detach()), "told": told, "gradients": found}


def apart(folder: Path, kind: str) -> dict[str, dict[str, float]]:
    """Return for each pack how far ranks together are from this one alone."""
    policy, found = load_policy(folder / kind), {}
    for name, packed in packs().items():
        alone = gradients(policy, packed)
        with context_passes():
            ours = gradients(policy, packed)
            with torch.no_grad():
                hidden = policy.target_hidden(packed)
        worst = 0.0
        for weight, mine in ours["gradients"].items():
            distributed.all_reduce(mine)
            worst = max(worst, float((mine - alone["gradients"][weight]).abs().max()))
        size = max(float(gradient.abs().max()) for gradient in alone["gradients"].values())
        with torch.no_grad():
            expected = policy.target_hidden(packed)
        found[name] = {
            "loss": abs(ours["loss"] - alone["loss"]),
            "told": max(abs(one - two) for one, two in zip(ours["told"], alone["told"], strict=True)),
            "gradient": worst / size,
            "hidden": float((hidden - expected).abs().max() / expected.abs().max()),
            "tokens": part_of(packed, ranks_along(CONTEXT)).num_tokens / packed.num_tokens,
        }
    return found


def kept(folder: Path) -> list[int]:
    """Return the bytes that the backward pass of a long pack needs, of one rank alone and of its part."""
    policy, packed, found = load_policy(folder / "llama-gqa"), packs()["one long"], []
    for divided in (False, True):
        storages: dict[int, int] = {}

        def note(tensor: Tensor, storages: dict[int, int] = storages) -> Tensor:
            if not isinstance(tensor, torch.nn.Parameter):
                storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            if divided:
                with context_passes():
                    loss = policy.target_logprobs(packed).logprobs.sum()
            else:
                loss = policy.target_logprobs(packed).logprobs.sum()
        found.append(sum(storages.values()))
        loss.backward()
    return found


def trained_parts() -> list[list[list[int]]]:
    """Return micro-batches: of three, one of two data ranks has two."""
    return [rows(300, 20), rows(40, 9, 8), rows(12, 5)]


def steps(trainer: Trainer, first: int, last: int) -> list[list[float]]:
    """Return loss and gradient norm of some steps."""
    found = []
    for step in range(first, last):

        def loss_of(part: list[list[int]]) -> tuple[Tensor, float]:
            packed = Packed.from_sequences(part)
            loss = -trainer.policy.target_logprobs(packed).logprobs.sum() / 388
            return loss, float(loss.detach())

        losses = trainer.accumulate(trained_parts(), loss_of)
        found.append([sum(losses), trainer.step(step).grad_norm])
    return found


def new_trainer(folder: Path, way: str, *, context: int | None) -> Trainer:
    """Return the trainer of a way; one process of plain torch without `context`."""
    kind, loading, more = WAYS[way]
    policy = load_policy(folder / kind, sharded=context is not None, **loading)
    config = CONFIG.model_copy(update={"name": "muon"}) if way == "muon" else CONFIG
    backends = Backends(trainer="fsdp", context_parallel=context or 1, **more) if context else None
    return build_trainer(policy, config, total_steps=STEPS, backends=backends)


def train(folder: Path, way: str, context: int, other: int) -> dict[str, Any]:
    """Train straight through, saving on the way; then on from what was saved, in groups of this and another size."""
    tensor = WAYS[way][2].get("tensor_parallel", 1)
    arrange(context=context, tensor=tensor)
    trainer = new_trainer(folder, way, context=context)
    found = {"rows": steps(trainer, 0, SAVED_AT)}
    saved = folder / f"{way}-{context}"
    saved.mkdir(exist_ok=True)
    save_training_state(saved, TrainingState(SAVED_AT), policy=trainer.policy, trainer=trainer)()
    found["rows"] += steps(trainer, SAVED_AT, STEPS)
    trainer.save(folder / f"{way}-{context}-end")
    distributed.barrier()
    for name, size in (("resumed", context), ("otherwise", other)):
        arrange(context=size, tensor=tensor)
        again = new_trainer(folder, way, context=size)
        load_training_state(saved, policy=again.policy, trainer=again)
        found[name] = steps(again, SAVED_AT, STEPS)
    evaluated = packs()["groups"]
    found["evaluated"] = again.evaluate(lambda: again.policy.target_logprobs(evaluated).logprobs.tolist())
    with again.whole(), torch.no_grad():
        found["expected"] = again.policy.target_logprobs(evaluated).logprobs.tolist()
    return found


def learn(folder: Path, method: str, context: int, **more: Any) -> list[dict[str, float]]:
    """Take three steps of a method in context groups; save the model."""
    arrange(context=context)
    backends = Backends(trainer="fsdp", context_parallel=context, **more)
    return rl(folder, backends, f"{method}-{context}{'-'.join(map(str, more.values()))}", **METHODS[method])


def main() -> None:
    """Run everything and let the first rank write it down."""
    folder, rank, world = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=world)
    arrange(context=world)
    jobs: dict[str, Callable[[], Any]] = {kind: partial(apart, folder, kind) for kind in KINDS}
    jobs["kept"] = partial(kept, folder)
    for way in (way for way in WAYS if world == 4 or way != "tensor"):
        jobs[way] = partial(train, folder, way, 2, 4 if world == 4 and way != "tensor" else 1)
    jobs |= {method: partial(learn, folder, method, 2) for method in METHODS}
    jobs["by layers"] = partial(learn, folder, "kl", 2, gather="layer")
    found = {name: job() for name, job in jobs.items()}
    if rank == 0:
        (folder / "found.json").write_text(json.dumps(found))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
