"""What every policy does, on both backends: copies, states, files, special tokens."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, CohereConfig, CohereForCausalLM

from components.contract.errors import InputError
from components.modeling.generation.generate import generate
from components.modeling.generation.sampling_config import SamplingConfig
from components.modeling.loading.load import Backend, load_policy, new_policy
from components.modeling.models.model_config import ModelConfig
from components.modeling.models.policy import Policy
from components.modeling.packing.packed import Packed
from components.modeling.text.tokenizer import train_tokenizer
from tests.modeling import decoder_models as models

SEQUENCES = models.token_lists([9, 20])


@pytest.fixture(params=["llama", "gpt2", *models.MIXTURES])
def policy(request: pytest.FixtureRequest, tmp_path: Path) -> Policy:
    models.save(request.param, tmp_path)
    return load_policy(tmp_path)


def _logprobs(policy: Policy) -> torch.Tensor:
    return policy.target_logprobs(Packed.from_sequences(SEQUENCES)).logprobs


def _train(policy: Policy) -> None:
    optimizer = torch.optim.SGD([p for _, p in policy.trainable()], lr=0.05)
    (-_logprobs(policy).mean()).backward()
    optimizer.step()
    optimizer.zero_grad()


def test_a_copy_is_frozen_and_apart(policy: Policy) -> None:
    before = _logprobs(policy).detach()
    reference = policy.copy()
    _train(policy)
    assert torch.equal(_logprobs(reference), before)
    assert not torch.equal(_logprobs(policy), before)
    assert reference.trainable() == []
    assert not _logprobs(reference).requires_grad


def test_state_goes_back_and_forth(policy: Policy) -> None:
    state, before = policy.state(), _logprobs(policy).detach()
    _train(policy)
    policy.load_state(state)
    assert torch.equal(_logprobs(policy), before)
    with pytest.raises(InputError, match="belongs to another model"):
        policy.load_state({"elsewhere": torch.zeros(1)})


def test_training_and_generation_take_turns(policy: Policy) -> None:
    """Generation after an update uses the new weights."""
    config = SamplingConfig(num_samples=4, max_new_tokens=8)
    for seed in range(2):
        samples = generate(policy, SEQUENCES, config, generator=torch.Generator().manual_seed(seed))
        scores = policy.target_logprobs(Packed.from_groups(SEQUENCES, samples.grouped()))
        torch.testing.assert_close(samples.flat(samples.logprobs), scores.logprobs, atol=1e-5, rtol=1e-5)
        _train(policy)


def test_saved_bytes_repeat_and_reload(policy: Policy, tmp_path: Path) -> None:
    policy.save(tmp_path / "a")
    policy.save(tmp_path / "b")
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert names == ["config.json", "generation_config.json", "model.safetensors"]
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert torch.equal(_logprobs(load_policy(tmp_path / "a")), _logprobs(policy))
    AutoModelForCausalLM.from_pretrained(tmp_path / "a")


@pytest.mark.parametrize("backend", ["native", "transformers"])
def test_a_tokenizer_travels_with_its_model(backend: Backend, tmp_path: Path) -> None:
    tokenizer = train_tokenizer(["12+3=15"], {"sums": ["What is 1+2?", "What is 3+4?"]})
    config = ModelConfig(width=16, heads=2, mlp_width=16)
    new_policy(config, tokenizer=tokenizer, seed=0).save(tmp_path / "a")
    first = load_policy(tmp_path / "a", backend=backend)
    first.save(tmp_path / "b")
    assert first.tokenizer is not None
    assert first.eos_ids == (tokenizer.eos_token_id,)
    assert first.pad_id == tokenizer.pad_token_id
    assert first.tokenizer.encode("12+3=15") == tokenizer.encode("12+3=15")
    for path in (tmp_path / "a").iterdir():
        if path.name != "config.json" or backend == "native":
            assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes(), path.name


def test_facts_about_the_model(policy: Policy) -> None:
    assert (policy.vocab_size, policy.width, policy.max_positions) == (models.VOCAB, 24, 128)
    assert policy.eos_ids == (models.EOS,)
    assert policy.pad_id == 0
    assert policy.device.type == "cpu"
    shapes = {name: p.shape[0] for name, p in policy.module.named_parameters()}
    assert all(shapes[name] == sum(rows) for name, rows in policy.row_blocks().items())


def test_temperature_divides_the_logits(policy: Policy) -> None:
    packed = Packed.from_sequences(SEQUENCES)
    expected = torch.log_softmax(policy.target_logits(packed) / 0.5, -1)
    expected = expected.gather(1, packed.targets.unsqueeze(1)).squeeze(1)
    ours = policy.target_logprobs(packed, temperature=0.5).logprobs
    torch.testing.assert_close(ours, expected, atol=1e-5, rtol=1e-5)


def test_architectures_that_scale_their_logits(tmp_path: Path) -> None:
    config = CohereConfig(
        vocab_size=models.VOCAB,
        hidden_size=24,
        intermediate_size=36,
        num_hidden_layers=1,
        num_attention_heads=2,
        logit_scale=0.25,
        bos_token_id=None,
        eos_token_id=models.EOS,
        pad_token_id=0,
        max_position_embeddings=128,
    )
    torch.manual_seed(0)
    reference = CohereForCausalLM(config).eval()
    reference.save_pretrained(tmp_path)
    policy = load_policy(tmp_path)
    expected = torch.cat([models.response_logprobs(reference, s[:1], s[1:]) for s in SEQUENCES])
    torch.testing.assert_close(_logprobs(policy), expected, atol=1e-5, rtol=1e-5)
