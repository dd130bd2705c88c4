"""LoRA: peft's own numbers, adapters alone trained, merged on save."""

from __future__ import annotations

import copy
from pathlib import Path

import peft
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoModelForCausalLM

from components.contract.errors import InputError
from components.modeling.generation.generate import generate
from components.modeling.generation.sampling_config import SamplingConfig
from components.modeling.loading.load import Backend, load_policy
from components.modeling.models.lora import LoraConfig
from components.modeling.models.policy import Policy
from components.modeling.native.checkpoints.weights import interleave
from components.modeling.native.decoder_config import DecoderConfig
from components.modeling.native.native_policy import NativePolicy
from components.modeling.native.step_layer import StepDecoder
from components.modeling.packing.packed import Packed
from tests.modeling import decoder_models as models

NAMES = {
    False: (
        ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
        ("mlp.gate_proj", "mlp.up_proj"),
        ("self_attn.o_proj",),
        ("mlp.down_proj",),
    ),
    True: (("self_attn.qkv_proj",), ("mlp.gate_up_proj",), ("self_attn.o_proj",), ("mlp.down_proj",)),
}
"""The layers of transformers with an adapter in each of the decoder's four matrices."""
CONFIG = LoraConfig(rank=4, alpha=12.0, target_modules=("q_proj", "v_proj", "down_proj"))
EVERYWHERE = LoraConfig(rank=2, alpha=6.0)
PROMPTS = models.token_lists([4, 7])
RESPONSES = [models.token_lists([5, 9], seed=2), models.token_lists([3], seed=3)]


def _step(policy: Policy) -> None:
    optimizer = torch.optim.SGD([p for _, p in policy.trainable()], lr=0.5)
    packed = Packed.from_groups(PROMPTS, RESPONSES)
    for _ in range(2):
        optimizer.zero_grad()
        (-policy.target_logprobs(packed).logprobs.mean()).backward()
        optimizer.step()


def test_equals_pefts_own_forward(tmp_path: Path) -> None:
    models.save("llama", tmp_path)
    policy = load_policy(tmp_path, lora=CONFIG, backend="transformers")
    _step(policy)
    theirs = peft.get_peft_model(
        AutoModelForCausalLM.from_pretrained(tmp_path),
        peft.LoraConfig(r=4, lora_alpha=12, target_modules=["q_proj", "v_proj", "down_proj"], task_type="CAUSAL_LM"),
    ).eval()
    missing = theirs.load_state_dict(policy.state(), strict=False)
    assert not missing.unexpected_keys
    expected = torch.cat(
        [
            models.response_logprobs(theirs, prompt, response)
            for prompt, group in zip(PROMPTS, RESPONSES, strict=True)
            for response in group
        ]
    )
    ours = policy.target_logprobs(Packed.from_groups(PROMPTS, RESPONSES)).logprobs
    torch.testing.assert_close(ours, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", ["llama-gqa", "qwen2", "qwen3", "mistral-window", "phi3", "gemma2", "gemma3"])
def test_native_adapters_have_pefts_values_and_gradients(kind: str, tmp_path: Path) -> None:
    """On fused projections too; the rows of queries and keys are in the decoder's own order."""
    models.save(kind, tmp_path)
    native, hosted = (load_policy(tmp_path, lora=EVERYWHERE, backend=name) for name in ("native", "transformers"))
    assert isinstance(native, NativePolicy)
    theirs, config = dict(hosted.module.named_parameters()), native.module.config
    generator = torch.Generator().manual_seed(0)
    pairs: list[tuple[Tensor, Tensor]] = []
    for index, layer in enumerate(native.module.layers):
        for adapter, names in zip(layer.adapters.values(), NAMES[config.stored_fused], strict=True):
            downs = adapter.lora_A.chunk(len(names))
            for name, down, up in zip(names, downs, adapter.lora_B.split(adapter.rows), strict=True):
                at = f"base_model.model.model.layers.{index}.{name}.lora_"
                pairs += [(down, theirs[f"{at}A.default.weight"]), (up, theirs[f"{at}B.default.weight"])]
                with torch.no_grad():
                    for own, other in pairs[-2:]:
                        other.copy_(0.3 * torch.randn(other.shape, generator=generator))
                        own.copy_(_turned(other, name, config) if own is up else other)
    packed = Packed.from_groups(PROMPTS, RESPONSES)
    ours, expected = (policy.target_logprobs(packed).logprobs for policy in (native, hosted))
    torch.testing.assert_close(ours, expected, atol=2e-5, rtol=1e-5)
    gradients = torch.autograd.grad(ours.square().sum(), [p for _, p in native.trainable()])
    squares = [float(g.square().sum()) for g in gradients]
    wanted = torch.autograd.grad(expected.square().sum(), [p for _, p in hosted.trainable()])
    assert sum(squares) == pytest.approx(sum(float(g.square().sum()) for g in wanted), rel=1e-3)
    plain = load_policy(tmp_path).target_logprobs(packed).logprobs
    assert (ours - plain).abs().max() > 1e-2


def _turned(rows: Tensor, name: str, config: DecoderConfig) -> Tensor:
    """Return rows of a second factor in the order of the decoder's matrix."""
    if name.endswith(("q_proj", "k_proj")):
        return interleave(rows, config)
    if name.endswith("qkv_proj"):
        turning = (config.heads + config.kv_heads) * config.head_width
        return torch.cat((interleave(rows[:turning], config), rows[turning:]))
    return rows


@pytest.mark.parametrize("kind", ["llama", "gemma2", "gemma3", "phi3", "mistral-window"])
@pytest.mark.parametrize("backend", ["native", "transformers"])
def test_trains_adapters_alone_and_saves_them_merged(kind: str, backend: Backend, tmp_path: Path) -> None:
    base = models.save(kind, tmp_path / "base")
    policy = load_policy(tmp_path / "base", lora=EVERYWHERE, backend=backend)
    assert policy.trainable()
    assert all("lora_" in name for name, _ in policy.trainable())
    assert policy.state().keys() == {name for name, _ in policy.trainable()}
    _step(policy)
    policy.save(tmp_path / "merged")
    policy.save(tmp_path / "again")
    merged = load_policy(tmp_path / "merged", backend=backend)
    packed = Packed.from_groups(PROMPTS, RESPONSES)
    adapted = policy.target_logprobs(packed).logprobs
    torch.testing.assert_close(merged.target_logprobs(packed).logprobs, adapted, atol=2e-5, rtol=1e-5)
    plain = load_policy(tmp_path / "base").target_logprobs(packed).logprobs
    assert (adapted - plain).abs().max() > 1e-2
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "merged")
    assert again.state_dict().keys() == base.state_dict().keys()
    one, two = ((tmp_path / at / "model.safetensors").read_bytes() for at in ("merged", "again"))
    assert one == two


@pytest.mark.parametrize("kind", ["llama", "phi3", "gpt2", *models.MIXTURES])
@pytest.mark.parametrize("experts", [False, True])
def test_merged_weights_are_pefts_own(kind: str, experts: bool, tmp_path: Path) -> None:
    """One tensor at a time, without a copy of the model; experts are adapted only if they are named."""
    if experts and kind not in models.MIXTURES:
        with pytest.raises(InputError, match="no layer named experts"):
            models.save(kind, tmp_path)
            load_policy(tmp_path, lora=LoraConfig(target_modules=("experts",)), backend="transformers")
        return
    base = models.save(kind, tmp_path / "base")
    named = ("c_attn", "c_proj") if kind == "gpt2" else EVERYWHERE.target_modules
    config = EVERYWHERE.model_copy(update={"target_modules": (*named, "experts") if experts else named})
    policy = load_policy(tmp_path / "base", lora=config, backend="transformers")
    assert any("experts" in name for name, _ in policy.trainable()) == experts
    _step(policy)
    policy.save(tmp_path / "ours")
    copy.deepcopy(policy.module).merge_and_unload().save_pretrained(tmp_path / "theirs")
    ours, theirs = (load_file(tmp_path / at / "model.safetensors") for at in ("ours", "theirs"))
    assert ours.keys() == theirs.keys() == load_file(tmp_path / "base" / "model.safetensors").keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "ours")
    assert type(again) is type(base)
    adapted = policy.target_logprobs(Packed.from_groups(PROMPTS, RESPONSES)).logprobs
    rows = [models.response_logprobs(again, p, r) for p, g in zip(PROMPTS, RESPONSES, strict=True) for r in g]
    torch.testing.assert_close(torch.cat(rows), adapted, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("backend", ["native", "transformers"])
@pytest.mark.parametrize("prepared", [True, False])
def test_generates_with_adapters(
    backend: Backend, prepared: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not prepared:
        monkeypatch.setattr(StepDecoder, "serves", lambda *_: False)
    models.save("llama", tmp_path)
    policy = load_policy(tmp_path, lora=CONFIG, backend=backend)
    _step(policy)
    config = SamplingConfig(num_samples=3, max_new_tokens=10)
    samples = generate(policy, PROMPTS, config, generator=torch.Generator().manual_seed(0))
    scores = policy.target_logprobs(Packed.from_groups(PROMPTS, samples.grouped()))
    torch.testing.assert_close(samples.flat(samples.logprobs), scores.logprobs, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("backend", ["native", "transformers"])
def test_the_seed_decides_the_adapters(backend: Backend, tmp_path: Path) -> None:
    models.save("llama", tmp_path)
    before = torch.get_rng_state()
    one, two = (load_policy(tmp_path, lora=CONFIG, backend=backend).state() for _ in range(2))
    other = load_policy(tmp_path, lora=CONFIG.model_copy(update={"seed": 1}), backend=backend).state()
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert any(not torch.equal(one[name], other[name]) for name in one)
    assert torch.equal(torch.get_rng_state(), before)


def test_refuses_unknown_layers(tmp_path: Path) -> None:
    models.save("gpt2", tmp_path)
    with pytest.raises(InputError, match=r"no layer named q_proj.*linear layers: c_attn, c_fc, c_proj"):
        load_policy(tmp_path, lora=LoraConfig(target_modules=("q_proj",)))
    models.save("llama", tmp_path / "llama")
    with pytest.raises(InputError, match="no layer named qkv_proj"):
        load_policy(tmp_path / "llama", lora=LoraConfig(target_modules=("qkv_proj",)))
    head = LoraConfig(target_modules=("q_proj", "lm_head"))
    with pytest.raises(InputError, match="names lm_head, which is no projection of its blocks"):
        load_policy(tmp_path / "llama", lora=head, backend="native")
    assert load_policy(tmp_path / "llama", lora=head).backend == "transformers"
