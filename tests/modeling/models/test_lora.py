"""LoRA: peft's own numbers, adapters alone trained, merged on save."""

from __future__ import annotations

import copy
from pathlib import Path

import peft
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from components.contract.errors import InputError
from components.modeling.generation.generate import generate
from components.modeling.generation.sampling_config import SamplingConfig
from components.modeling.loading.load import load_policy
from components.modeling.models.lora import LoraConfig
from components.modeling.models.policy import Policy
from components.modeling.packing.packed import Packed
from tests.modeling import decoder_models as models

CONFIG = LoraConfig(rank=4, alpha=12.0, target_modules=("q_proj", "v_proj", "down_proj"))
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
    policy = load_policy(tmp_path, lora=CONFIG)
    assert policy.backend == "transformers"
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


def test_trains_adapters_alone_and_saves_them_merged(tmp_path: Path) -> None:
    base = models.save("llama", tmp_path / "base")
    policy = load_policy(tmp_path / "base", lora=CONFIG)
    assert policy.trainable()
    assert all("lora_" in name for name, _ in policy.trainable())
    assert policy.state().keys() == {name for name, _ in policy.trainable()}
    _step(policy)
    policy.save(tmp_path / "merged")
    policy.save(tmp_path / "again")
    merged = load_policy(tmp_path / "merged")
    assert merged.backend == "native"
    packed = Packed.from_groups(PROMPTS, RESPONSES)
    adapted = policy.target_logprobs(packed).logprobs
    torch.testing.assert_close(merged.target_logprobs(packed).logprobs, adapted, atol=1e-5, rtol=1e-5)
    plain = load_policy(tmp_path / "base").target_logprobs(packed).logprobs
    assert (adapted - plain).abs().max() > 1e-2
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "merged")
    assert again.state_dict().keys() == base.state_dict().keys()
    one, two = ((tmp_path / at / "model.safetensors").read_bytes() for at in ("merged", "again"))
    assert one == two


EVERYWHERE = LoraConfig(rank=2, alpha=6.0)


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


def test_generates_with_adapters(tmp_path: Path) -> None:
    models.save("llama", tmp_path)
    policy = load_policy(tmp_path, lora=CONFIG)
    _step(policy)
    config = SamplingConfig(num_samples=3, max_new_tokens=10)
    samples = generate(policy, PROMPTS, config, generator=torch.Generator().manual_seed(0))
    scores = policy.target_logprobs(Packed.from_groups(PROMPTS, samples.grouped()))
    torch.testing.assert_close(samples.flat(samples.logprobs), scores.logprobs, atol=1e-5, rtol=1e-5)


def test_the_seed_decides_the_adapters(tmp_path: Path) -> None:
    models.save("llama", tmp_path)
    before = torch.get_rng_state()
    one, two = (load_policy(tmp_path, lora=CONFIG).state() for _ in range(2))
    other = load_policy(tmp_path, lora=CONFIG.model_copy(update={"seed": 1})).state()
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert any(not torch.equal(one[name], other[name]) for name in one)
    assert torch.equal(torch.get_rng_state(), before)


def test_refuses_unknown_layers(tmp_path: Path) -> None:
    models.save("gpt2", tmp_path)
    with pytest.raises(InputError, match=r"no layer named q_proj.*linear layers: c_attn, c_fc, c_proj"):
        load_policy(tmp_path, lora=LoraConfig(target_modules=("q_proj",)))
    models.save("llama", tmp_path / "llama")
    with pytest.raises(InputError, match="LoRA runs through peft"):
        load_policy(tmp_path / "llama", lora=CONFIG, backend="native")
