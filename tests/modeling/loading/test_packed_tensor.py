"""QLoRA of models that transformers runs: linear layers and stacked experts in 4 bits, with adapters on either."""

from __future__ import annotations

import copy
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from components.contract.errors import InputError
from components.contract.job import Resources
from components.modeling.generation.generate import generate
from components.modeling.generation.sampling_config import SamplingConfig
from components.modeling.loading.load import load_policy, load_to_train
from components.modeling.loading.packed_tensor import PackedTensor
from components.modeling.models.lora import LoraConfig
from components.modeling.models.policy import Policy
from components.modeling.native.nf4 import PackedMatrix
from components.modeling.packing.packed import Packed
from components.sft.component import COMPONENT as SFT
from tests.modeling import decoder_models as models
from tests.support.stage_context import LocalContext

LINEAR = ("q_proj", "k_proj", "v_proj", "o_proj")
PROMPTS = models.token_lists([4, 7])
RESPONSES = [models.token_lists([5, 9], seed=2), models.token_lists([3], seed=3)]
PACK = Packed.from_groups(PROMPTS, RESPONSES)


def qlora(*targets: str) -> LoraConfig:
    """Return settings of packed weights with adapters on these targets."""
    return LoraConfig(rank=2, bits=4, target_modules=targets)


def packed_weights(policy: Policy) -> dict[str, PackedTensor]:
    """Return the packed weights of a policy by their names without peft's."""
    found = policy.module.named_parameters()
    return {name.replace("base_layer.", ""): p for name, p in found if isinstance(p, PackedTensor)}


def step(policy: Policy, updates: int) -> list[Tensor]:
    """Make some updates; return the gradients of the last one."""
    optimizer = torch.optim.SGD([p for _, p in policy.trainable()], lr=0.3)
    for _ in range(updates):
        optimizer.zero_grad()
        (-policy.target_logprobs(PACK).logprobs.mean()).backward()
        optimizer.step()
    return [p.grad for _, p in policy.trainable() if p.grad is not None]


@pytest.mark.parametrize("targets", [LINEAR, (*LINEAR, "experts")])
@pytest.mark.parametrize("kind", models.MIXTURES)
def test_adapters_train_on_packed_experts(kind: str, targets: tuple[str, ...], tmp_path: Path) -> None:
    """Values and gradients are those of adapters on the unpacked weights; what is saved is both together."""
    models.save(kind, tmp_path / "base")
    policy = load_policy(tmp_path / "base", lora=qlora(*targets))
    assert policy.backend == "transformers"
    kept = {name.split(".")[-1] if "experts" in name else name.split(".")[-2] for name in packed_weights(policy)}
    assert kept == {*LINEAR, "gate_up_proj", "down_proj"}
    policy.save(tmp_path / "unpacked")
    plain = load_policy(tmp_path / "unpacked", lora=qlora(*targets).model_copy(update={"bits": None}))
    for updates in (1, 2):
        ours, theirs = step(policy, updates), step(plain, updates)
        assert len(ours) == len(theirs) == len(policy.trainable()) and any(g.abs().sum() for g in ours)
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)
    after = policy.target_logprobs(PACK).logprobs
    torch.testing.assert_close(after, plain.target_logprobs(PACK).logprobs, atol=1e-4, rtol=1e-4)
    assert (after - load_policy(tmp_path / "unpacked").target_logprobs(PACK).logprobs).abs().max() > 1e-3
    policy.save(tmp_path / "trained")
    saved, base = (load_file(tmp_path / at / "model.safetensors") for at in ("trained", "base"))
    assert saved.keys() == base.keys()
    assert all(torch.equal(tensor, saved[name]) for name, tensor in policy.named_weights())
    again = load_policy(tmp_path / "trained").target_logprobs(PACK).logprobs
    torch.testing.assert_close(again, after, atol=2e-5, rtol=1e-5)


def test_packed_experts_draw_what_they_score(tmp_path: Path) -> None:
    models.save("mixtral", tmp_path)
    policy = load_policy(tmp_path, lora=qlora(*LINEAR, "experts"))
    step(policy, 1)
    config = SamplingConfig(num_samples=2, max_new_tokens=8)
    samples = generate(policy, PROMPTS, config, generator=torch.Generator().manual_seed(0))
    scores = policy.target_logprobs(Packed.from_groups(PROMPTS, samples.grouped())).logprobs
    torch.testing.assert_close(samples.flat(samples.logprobs), scores, atol=2e-5, rtol=1e-5)
    frozen = policy.copy()  # a reference: of its own adapters, and with the same codes
    before = frozen.target_logprobs(PACK).logprobs
    step(policy, 1)
    assert torch.equal(frozen.target_logprobs(PACK).logprobs, before)
    one, two = packed_weights(policy), packed_weights(frozen)
    assert one.keys() == two.keys() and all(one[name].matrix is two[name].matrix for name in one)


@pytest.mark.parametrize("targets", [LINEAR, (*LINEAR, "experts")])
def test_the_graph_of_a_pass_keeps_no_unpacked_weights(targets: tuple[str, ...], tmp_path: Path) -> None:
    models.save("gpt-oss", tmp_path)
    policy = load_policy(tmp_path, lora=qlora(*targets))
    experts = min(p.numel() for p in packed_weights(policy).values() if p.ndim == 3)
    kept: list[int] = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda t: kept.append(t.untyped_storage().nbytes()) or t, lambda t: t
    ):
        policy.target_logprobs(PACK)
    assert kept and max(kept) < 4 * experts


def test_other_architectures_are_packed_too(tmp_path: Path) -> None:
    """GPT-2's layers are no nn.Linear."""
    models.save("gpt2", tmp_path / "base")
    policy = load_policy(tmp_path / "base", lora=qlora("c_attn"))
    assert len(packed_weights(policy)) == 2 * 4
    policy.save(tmp_path / "unpacked")
    plain = load_policy(tmp_path / "unpacked", lora=qlora("c_attn").model_copy(update={"bits": None}))
    torch.testing.assert_close(step(policy, 2), step(plain, 2), atol=1e-5, rtol=1e-4)


def test_values_of_any_shape_and_no_writing() -> None:
    weight = torch.randn(3, 5, 7)
    matrix = PackedMatrix(weight)
    packed = torch.nn.Parameter(PackedTensor(matrix), requires_grad=False)
    assert isinstance(packed, PackedTensor) and packed.shape == (3, 5, 7)
    assert torch.equal(packed[1] + 0, matrix.weight()[1])
    assert torch.equal(packed.transpose(1, 2) @ torch.eye(5), matrix.weight().transpose(1, 2))
    assert copy.deepcopy(packed).matrix is matrix
    assert type(packed.to("cpu", torch.float64)) is Tensor
    with pytest.raises(AssertionError, match="writes to packed weights"):
        packed.add_(1.0)


def test_what_cannot_shard_them_says_so(tmp_path: Path) -> None:
    models.save("mixtral", tmp_path)
    with pytest.raises(InputError, match=r"lora\.bits: trainer fsdp"):
        load_policy(tmp_path, lora=qlora(*LINEAR), sharded=True)
    ctx = LocalContext(SFT, tmp_path / "run", params={"steps": 1}, inputs={"model": tmp_path, "dataset": tmp_path})
    for stage, refused in ((0, False), (2, True), (3, True)):
        ctx.job = ctx.job.model_copy(update={"resources": Resources(trainer="deepspeed", zero_stage=stage)})
        with pytest.raises(InputError, match=f"ZeRO {stage} cannot hold packed") if refused else nullcontext():
            load_to_train(ctx, lora=qlora(*LINEAR), dtype="float32")
