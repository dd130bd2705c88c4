from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from components.contract.backends import Backends
from components.modeling.generation.generate import generate
from components.modeling.generation.sampling_config import SamplingConfig
from components.modeling.loading.load import load_policy
from components.modeling.models.lora import LoraConfig
from components.modeling.models.policy import Policy
from components.modeling.packing.packed import Packed
from components.modeling.training.build import build_trainer
from components.modeling.training.training_config import OptimizerConfig
from tests.modeling.decoder_models import build

torch.set_num_threads(1)  # equal bits are promised for one thread
PACK = [[5, 6, 7, 8, 9, 10, 11], [12, 13, 14]]


def gradients(policy: Policy) -> dict[str, Tensor]:
    policy.target_logprobs(Packed.from_sequences(PACK)).logprobs.sum().backward()
    return {name: p.grad for name, p in policy.trainable() if p.grad is not None}


def held(policy: Policy, packed: Packed) -> int:
    """Return the bytes of the tensors that a forward pass keeps for its backward pass, each storage once."""
    kept: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        policy.hidden(packed)
    return sum(kept.values())


@pytest.fixture(params=["llama-gqa", "qwen3", "gpt2", "gemma2", "lora"])
def load(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[bool], Policy]:
    """Return what loads a policy, with layers that are computed again or kept."""
    kind, lora = (request.param, None) if request.param != "lora" else ("llama", LoraConfig(rank=2))
    build(kind).save_pretrained(tmp_path)

    def policy(recompute: bool) -> Policy:
        made = load_policy(tmp_path, lora=lora)
        build_trainer(made, OptimizerConfig(), total_steps=1, backends=Backends(recompute=recompute))
        return made

    return policy


def test_the_gradients_are_the_same_to_the_last_bit(load: Callable[[bool], Policy]) -> None:
    kept, again = (gradients(load(recompute)) for recompute in (False, True))
    assert kept.keys() == again.keys()
    assert kept and all(torch.equal(kept[name], again[name]) for name in kept)


def test_less_is_kept(load: Callable[[bool], Policy]) -> None:
    packed = Packed.from_sequences([[7] * 100])
    kept, again = (held(load(recompute), packed) for recompute in (False, True))
    assert again < 0.6 * kept


def test_generation_goes_on_from_its_caches(load: Callable[[bool], Policy]) -> None:
    config = SamplingConfig(num_samples=2, max_new_tokens=8, temperature=0.7)
    found = []
    for recompute in (False, True):
        policy = load(recompute)
        gradients(policy)
        found.append(generate(policy, [[5, 6, 7], [8]], config, generator=torch.Generator().manual_seed(0)))
    assert torch.equal(found[0].tokens, found[1].tokens)
    assert torch.equal(found[0].logprobs, found[1].logprobs)
