"""The native decoder against transformers: logits, files, refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import AutoModelForCausalLM

from components.contract.errors import InputError
from components.modeling.generation.generate import generate
from components.modeling.generation.sampling_config import SamplingConfig
from components.modeling.loading.load import load_policy, new_policy
from components.modeling.models.model_config import ModelConfig
from components.modeling.native.checkpoints.config import decoder_config
from components.modeling.packing.packed import Packed
from tests.modeling import decoder_models as models


@pytest.mark.parametrize("kind", models.NATIVE)
def test_logits_equal_transformers(kind: str, tmp_path: Path) -> None:
    reference = models.save(kind, tmp_path)
    policy = load_policy(tmp_path)
    assert policy.backend == "native"
    sequences = models.token_lists([1, 5, 30, 17, 2])
    packed = Packed.from_sequences(sequences, keep_last=True)
    with torch.no_grad():
        ours = policy.logits(policy.hidden(packed)).split([len(s) for s in sequences])
        for tokens, logits in zip(sequences, ours, strict=True):
            torch.testing.assert_close(logits, reference(torch.tensor([tokens])).logits[0], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", models.NATIVE)
def test_saves_the_exact_layout_and_the_same_bytes(kind: str, tmp_path: Path) -> None:
    reference = models.save(kind, tmp_path / "theirs")
    policy = load_policy(tmp_path / "theirs")
    policy.save(tmp_path / "a")
    load_policy(tmp_path / "a").save(tmp_path / "b")
    for name in ("model.safetensors", "config.json", "generation_config.json"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    theirs, ours = (load_file(tmp_path / at / "model.safetensors") for at in ("theirs", "a"))
    assert theirs.keys() == ours.keys()
    assert all(torch.equal(theirs[name], ours[name]) for name in theirs)
    tokens = torch.tensor(models.token_lists([20]))
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "a")
    assert type(again) is type(reference)
    assert torch.equal(again(tokens).logits, reference(tokens).logits)


class _Made(TorchDispatchMode):
    """Notes the precisions of the tensors that are made on the host."""

    def __init__(self) -> None:
        super().__init__()
        self.dtypes: set[torch.dtype] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if isinstance(out, torch.Tensor) and out.device.type == "cpu":
            self.dtypes.add(out.dtype)
        return out


@pytest.mark.parametrize("kind", models.NATIVE)
def test_a_checkpoint_in_bfloat16_is_never_float32_on_its_way_in(kind: str, tmp_path: Path) -> None:
    models.save(kind, tmp_path / "float32")
    rounded = load_policy(tmp_path / "float32", dtype="bfloat16")
    rounded.save(tmp_path / "bfloat16")
    with _Made() as made:
        policy = load_policy(tmp_path / "bfloat16", dtype="bfloat16")
    assert torch.float32 not in made.dtypes
    precise = load_policy(tmp_path / "float32")
    triples = zip(*(one.module.parameters() for one in (policy, rounded, precise)), strict=True)
    assert all(torch.equal(a, b) and torch.equal(a, c.bfloat16()) for a, b, c in triples)


def test_new_policy_is_a_llama_decided_by_its_seed(tmp_path: Path) -> None:
    config = ModelConfig(
        vocab_size=models.VOCAB, width=16, layers=2, heads=2, kv_heads=1, mlp_width=24, rope_theta=50.0
    )
    one, two, other = (new_policy(config, tokenizer=None, seed=seed) for seed in (1, 1, 2))
    for policy, name in ((one, "one"), (two, "two"), (other, "other")):
        policy.save(tmp_path / name)
    one_bytes, two_bytes, other_bytes = (
        (tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "two", "other")
    )
    assert one_bytes == two_bytes != other_bytes
    assert json.loads((tmp_path / "one" / "config.json").read_text())["architectures"] == ["LlamaForCausalLM"]
    reference = AutoModelForCausalLM.from_pretrained(tmp_path / "one")
    (tokens,) = models.token_lists([12])
    packed = Packed.from_sequences([tokens], keep_last=True)
    ours = one.logits(one.hidden(packed))
    torch.testing.assert_close(ours, reference(torch.tensor([tokens])).logits[0], atol=1e-5, rtol=1e-5)


def test_initial_loss_is_that_of_uniform_guessing() -> None:
    policy = new_policy(ModelConfig(vocab_size=models.VOCAB), tokenizer=None, seed=0)
    packed = Packed.from_sequences(models.token_lists([40] * 8))
    loss = -policy.target_logprobs(packed).logprobs.mean().item()
    assert loss == pytest.approx(torch.log(torch.tensor(float(models.VOCAB))).item(), abs=0.1)


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_other_dtypes_stay_near_float32(dtype: str, tmp_path: Path) -> None:
    models.save("llama-gqa", tmp_path)
    packed = Packed.from_sequences(models.token_lists([9, 30]))
    exact = load_policy(tmp_path).target_logprobs(packed).logprobs
    other = load_policy(tmp_path, dtype=dtype).target_logprobs(packed).logprobs
    tolerance = {"float64": 1e-5, "bfloat16": 0.2}[dtype]
    torch.testing.assert_close(other.float(), exact, atol=tolerance, rtol=0.0)


@pytest.mark.parametrize(
    ("kind", "change", "why"),
    [
        ("gpt2", {}, "model type 'gpt2' is not one of gemma2"),
        ("llama", {"rope_parameters": {"rope_type": "proportional"}}, "rotary positions are scaled by 'proportional'"),
        ("llama", {"hidden_act": "gelu"}, "the MLP uses 'gelu'"),
        ("gemma3", {"use_bidirectional_attention": True}, "attention looks both ways"),
        ("phi3", {"quantization_config": {"quant_method": "fp8"}}, "the checkpoint is quantised"),
    ],
)
def test_what_the_decoder_lacks_is_refused_with_the_reason(
    kind: str, change: dict[str, Any], why: str, tmp_path: Path
) -> None:
    models.save(kind, tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(InputError, match=rf"{why}.*use backend 'transformers'"):
        load_policy(tmp_path, backend="native")


def test_another_architecture_goes_through_transformers(tmp_path: Path) -> None:
    models.save("gpt2", tmp_path)
    assert load_policy(tmp_path).backend == "transformers"


@pytest.mark.parametrize(("kind", "longest"), [("llama-dynamic", 128), ("phi3-long", 96)])
def test_a_sequence_for_which_positions_would_change_is_refused(kind: str, longest: int, tmp_path: Path) -> None:
    """Its log-probabilities would depend on its pass; up to there they are those of transformers."""
    reference = models.save(kind, tmp_path)
    policy = load_policy(tmp_path, backend="native")
    assert policy.max_positions == longest
    (tokens,) = models.token_lists([longest])
    with torch.no_grad():
        ours = policy.logits(policy.hidden(Packed.from_sequences([tokens], keep_last=True)))
    torch.testing.assert_close(ours, reference(torch.tensor([tokens])).logits[0], atol=1e-5, rtol=1e-5)
    with pytest.raises(InputError, match=f"a sequence of {longest + 1} tokens is longer than the {longest}"):
        policy.hidden(Packed.from_sequences([[*tokens, 5]], keep_last=True))


@pytest.mark.parametrize("kind", ["gemma2", "gemma3", "phi3-long", "mistral-window"])
def test_a_config_of_an_older_version_says_the_same(kind: str, tmp_path: Path) -> None:
    """Without layer types, and with rotary positions by their names before transformers 5."""
    models.save(kind, tmp_path)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    expected = decoder_config(config)
    rope = config.pop("rope_parameters")
    config.pop("layer_types", None)
    if kind == "gemma3":
        whole, local = rope["full_attention"], rope["sliding_attention"]
        config |= {"rope_theta": whole.pop("rope_theta"), "rope_local_base_freq": local["rope_theta"]}
        config |= {"sliding_window_pattern": 3, "rope_scaling": whole}
    else:
        config |= {"rope_theta": rope.pop("rope_theta")}
        config |= {name: rope.pop(name) for name in ("partial_rotary_factor",) if name in rope}
        config["rope_scaling"] = {**rope, "type": rope.pop("rope_type")} if len(rope) > 1 else None
    found = decoder_config(config)
    assert found.windows == expected.windows
    for one, other in ((found.rope, expected.rope), (found.local_rope, expected.local_rope)):
        if one is None or other is None:
            assert one is other
            continue
        frequencies = (rope.frequencies(found.head_width, found.max_positions) for rope in (one, other))
        (ours, factor), (theirs, same) = frequencies
        assert torch.equal(ours, theirs) and factor == same


@pytest.mark.parametrize("kind", ["llama3", "llama-linear", "qwen2-yarn"])
def test_scaled_rotary_positions_hold_beyond_the_original_length(kind: str, tmp_path: Path) -> None:
    """Packed, with shared prompts, in training and in decoding; and from files that older versions wrote."""
    reference = models.save(kind, tmp_path)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    rope = config.pop("rope_parameters")
    theta, rope_type = rope.pop("rope_theta"), rope.pop("rope_type")
    path.write_text(json.dumps({**config, "rope_theta": theta, "rope_scaling": {**rope, "type": rope_type}}))
    policy = load_policy(tmp_path, backend="native")
    prompts = models.token_lists([70, 3])
    samples = generate(
        policy,
        prompts,
        SamplingConfig(num_samples=3, max_new_tokens=40),
        generator=torch.Generator().manual_seed(0),
    )
    packed = Packed.from_groups(prompts, samples.grouped())
    scores = policy.target_logprobs(packed).logprobs
    rows = [
        models.response_logprobs(reference, p, r) for p, g in zip(prompts, samples.grouped(), strict=True) for r in g
    ]
    torch.testing.assert_close(scores, torch.cat(rows), atol=2e-5, rtol=1e-5)
    torch.testing.assert_close(samples.flat(samples.logprobs), torch.cat(rows), atol=2e-5, rtol=1e-5)


def test_the_backend_can_be_chosen(tmp_path: Path) -> None:
    models.save("llama", tmp_path)
    packed = Packed.from_sequences(models.token_lists([9, 30]))
    native = load_policy(tmp_path, backend="native").target_logprobs(packed).logprobs
    hosted = load_policy(tmp_path, backend="transformers")
    assert hosted.backend == "transformers"
    torch.testing.assert_close(hosted.target_logprobs(packed).logprobs, native, atol=1e-5, rtol=1e-5)


def test_refuses_what_is_not_a_model_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no config\.json"):
        load_policy(tmp_path)
    models.save("llama", tmp_path)
    with pytest.raises(InputError, match="unknown dtype 'int4'"):
        load_policy(tmp_path, dtype="int4")
    (tmp_path / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    with pytest.raises(InputError, match="pickled weights are refused"):
        load_policy(tmp_path)


def test_refuses_weights_that_do_not_fit(tmp_path: Path) -> None:
    models.save("llama", tmp_path / "tied")
    models.save("qwen2", tmp_path / "other")
    (tmp_path / "other" / "model.safetensors").replace(tmp_path / "tied" / "model.safetensors")
    with pytest.raises(InputError, match=r"weights do not fit its config.*q_proj\.bias"):
        load_policy(tmp_path / "tied")


def test_refuses_impossible_sizes() -> None:
    with pytest.raises(ValueError, match="does not split into 4 heads"):
        ModelConfig(vocab_size=8, width=20, heads=4)
    with pytest.raises(ValueError, match="not a multiple of kv_heads 3"):
        ModelConfig(vocab_size=8, width=16, heads=4, kv_heads=3)
    with pytest.raises(InputError, match="vocab_size or a tokenizer"):
        new_policy(ModelConfig(), tokenizer=None, seed=0)
