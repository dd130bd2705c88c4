"""Packs: their indices, and that packing, shared prompts and fused operators change no number."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformers import AutoModelForCausalLM

from components.contract.errors import InputError
from components.modeling.loading.load import load_policy, new_policy
from components.modeling.models.model_config import ModelConfig
from components.modeling.models.policy import Policy
from components.modeling.native import ops
from components.modeling.native.attention import padded, short
from components.modeling.native.checkpoints.weights import export_weights
from components.modeling.packing.packed import Packed
from tests.modeling import decoder_models as models

PROMPTS = models.token_lists([5, 9, 2], seed=1)
RESPONSES = [
    models.token_lists([3, 20, 11, 0, 1], seed=2),
    models.token_lists([7], seed=3),
    models.token_lists([1, 1, 8], seed=4),
]

groups = st.lists(
    st.tuples(
        st.lists(st.integers(0, 15), min_size=1, max_size=9),
        st.lists(st.lists(st.integers(0, 15), max_size=12), max_size=4),
    ),
    min_size=1,
    max_size=5,
)


def _separate(model: torch.nn.Module) -> Tensor:
    """Return all responses' log-probabilities, each from a forward pass of its own."""
    return torch.cat(
        [
            models.response_logprobs(model, prompt, response)
            for prompt, group in zip(PROMPTS, RESPONSES, strict=True)
            for response in group
        ]
    )


def _weighted(logprobs: Tensor) -> Tensor:
    return (logprobs * torch.linspace(-1, 2, logprobs.shape[0], dtype=logprobs.dtype)).sum()


@pytest.mark.parametrize("kind", models.NATIVE)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_shared_prompts_keep_values_and_gradients(kind: str, dtype: str, tmp_path: Path) -> None:
    models.save(kind, tmp_path)
    reference = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=getattr(torch, dtype))
    expected = _separate(reference)
    _weighted(expected).backward()
    policy = load_policy(tmp_path, dtype=dtype)
    ours = policy.target_logprobs(Packed.from_groups(PROMPTS, RESPONSES)).logprobs
    torch.testing.assert_close(ours, expected, atol=1e-5, rtol=1e-5)
    _weighted(ours).backward()
    with torch.no_grad():
        for parameter in policy.module.parameters():
            parameter.copy_(parameter.grad)
    gradients = export_weights(policy.module)
    for name, parameter in reference.named_parameters():
        torch.testing.assert_close(gradients[name], parameter.grad, atol=5e-5, rtol=1e-4, msg=name)


@pytest.mark.parametrize("kind", ["llama-gqa", "gpt2"])
def test_packing_equals_separate_sequences(kind: str, tmp_path: Path) -> None:
    reference = models.save(kind, tmp_path)
    policy = load_policy(tmp_path)
    sequences = models.token_lists([2, 31, 8, 8, 19])
    packed = Packed.from_sequences(sequences)
    expected = torch.cat([models.response_logprobs(reference, s[:1], s[1:]) for s in sequences])
    ours = policy.target_logprobs(packed).logprobs
    torch.testing.assert_close(ours, expected, atol=1e-5, rtol=1e-5)
    assert packed.target_counts.tolist() == [len(s) - 1 for s in sequences]
    assert packed.num_tokens == sum(map(len, sequences)) - len(sequences)


def test_transformers_shares_prompts_in_meaning(tmp_path: Path) -> None:
    reference = models.save("gpt2", tmp_path)
    policy = load_policy(tmp_path)
    packed = Packed.from_groups(PROMPTS, RESPONSES, keep_last=True)
    ours = policy.target_logprobs(packed).logprobs
    torch.testing.assert_close(ours, _separate(reference), atol=1e-5, rtol=1e-5)
    assert policy.hidden(packed).shape == (packed.num_tokens, policy.width)


def test_masks_choose_targets() -> None:
    packed = Packed.from_sequences([[7, 8, 9], [4, 5]], masks=[[True, False, True], [False, True]])
    assert packed.tokens.tolist() == [7, 8, 4]
    assert (packed.predict.tolist(), packed.targets.tolist()) == ([1, 2], [9, 5])
    assert packed.sequence.tolist() == [0, 1]
    with pytest.raises(InputError, match="sequence 0 has 3 tokens but its mask has 2"):
        Packed.from_sequences([[7, 8, 9]], masks=[[True, True]])


def test_groups_by_hand() -> None:
    packed = Packed.from_groups([[10, 11], [12]], [[[1, 2], [], [3]], [[4, 5, 6]]])
    assert packed.tokens.tolist() == [10, 11, 1, 12, 4, 5]
    assert packed.positions.tolist() == [0, 1, 2, 0, 1, 2]
    assert packed.targets.tolist() == [1, 2, 3, 4, 5, 6]
    assert packed.predict.tolist() == [1, 2, 1, 3, 4, 5]
    assert packed.sequence.tolist() == [0, 0, 2, 3, 3, 3]
    assert packed.target_counts.tolist() == [2, 0, 1, 3]
    kept = Packed.from_groups([[10, 11], [12]], [[[1, 2], [], [3]], [[4, 5, 6]]], keep_last=True)
    assert kept.tokens[kept.last].tolist() == [2, 11, 3, 6]


@given(groups)
def test_every_target_is_predicted_by_the_token_before_it(
    drawn: list[tuple[list[int], list[list[int]]]],
) -> None:
    packed = Packed.from_groups([p for p, _ in drawn], [r for _, r in drawn])
    before = [token for p, group in drawn for r in group for token in (p + r)[len(p) - 1 : -1] if r]
    assert packed.tokens[packed.predict].tolist() == before
    assert packed.targets.tolist() == [token for _, group in drawn for r in group for token in r]
    starts = [len(p) for p, group in drawn for _ in group]
    expected = [starts[s] - 1 for s in packed.sequence.tolist()]
    first = torch.tensor([j for _, group in drawn for r in group for j in range(len(r))], dtype=torch.long)
    assert packed.positions[packed.predict].tolist() == (torch.tensor(expected, dtype=torch.long) + first).tolist()


@pytest.fixture(scope="module")
def small() -> Policy:
    config = ModelConfig(vocab_size=16, width=16, heads=4, kv_heads=2, mlp_width=16)
    policy = new_policy(config, tokenizer=None, seed=0, dtype="float64")
    with torch.no_grad():
        for parameter in policy.module.parameters():
            parameter.mul_(6.0 if parameter.ndim == 2 else 1.0)
    return policy


@settings(max_examples=40, deadline=None)
@given(groups)
def test_any_groups_equal_their_sequences(small: Policy, drawn: list[tuple[list[int], list[list[int]]]]) -> None:
    rows = [(p, r) for p, group in drawn for r in group if r]
    if not rows:
        return
    shared = Packed.from_groups([p for p, _ in drawn], [r for _, r in drawn])
    masks = [[False] * len(p) + [True] * len(r) for p, r in rows]
    alone = Packed.from_sequences([p + r for p, r in rows], masks=masks)
    gradients = []
    for packed in (shared, alone):
        small.module.zero_grad()
        _weighted(small.target_logprobs(packed).logprobs).backward()
        gradients.append([p.grad.clone() for p in small.module.parameters()])
    for one, two in zip(*gradients, strict=True):
        torch.testing.assert_close(one, two, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("kind", models.WINDOWED)
def test_windows_and_caps_are_the_same_in_long_buckets(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through scaled_dot_product_attention, and capped scores in pieces that are computed again."""
    models.save(kind, tmp_path)
    expected = None
    for longest, pieces in ((256, 1 << 24), (0, 40)):
        monkeypatch.setattr(short, "LONGEST", longest)
        monkeypatch.setattr(padded, "MOST_SCORES", pieces)
        monkeypatch.setattr(padded, "LEAST_ROWS", 3)
        policy = load_policy(tmp_path, dtype="float64")
        scores = policy.target_logprobs(Packed.from_groups(PROMPTS, RESPONSES)).logprobs
        _weighted(scores).backward()
        found = [scores.detach(), *(p.grad for p in policy.module.parameters())]
        torch.testing.assert_close(found, expected or found, atol=1e-10, rtol=1e-10)
        expected = found


def test_long_buckets_take_the_other_path_and_agree(small: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    results = []
    for longest in (256, 0):
        monkeypatch.setattr(short, "LONGEST", longest)
        small.module.zero_grad()
        packed = Packed.from_groups([[1, 2, 3], [4]], [[[5, 6, 7], [8]], [[9, 10, 11, 12, 13, 14]]])
        scores = small.target_logprobs(packed).logprobs
        _weighted(scores).backward()
        results.append((scores.detach(), *(p.grad.clone() for p in small.module.parameters())))
    for one, two in zip(*results, strict=True):
        torch.testing.assert_close(one, two, atol=1e-10, rtol=1e-10)


def test_repeats_bit_for_bit(tmp_path: Path) -> None:
    models.save("llama-gqa", tmp_path)

    def gradients() -> list[Tensor]:
        policy = load_policy(tmp_path)
        _weighted(policy.target_logprobs(Packed.from_groups(PROMPTS, RESPONSES)).logprobs).backward()
        return [p.grad for p in policy.module.parameters()]

    assert all(map(torch.equal, gradients(), gradients()))


def test_operators_have_the_gradients_of_their_formulas() -> None:
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True)

    assert torch.autograd.gradcheck(lambda x, g: ops.rms_norm(x, g, 1e-6), (draw(5, 6), draw(6)))
    assert torch.autograd.gradcheck(lambda x, g: ops.rms_norm(x, g, 1e-6), (draw(5, 2, 6), draw(6)))
    assert torch.autograd.gradcheck(lambda x, g: ops.rms_norm_from_one(x, g, 1e-6), (draw(5, 6), draw(6)))
    assert torch.autograd.gradcheck(ops.swiglu, (draw(5, 8),))
    assert torch.autograd.gradcheck(ops.geglu, (draw(5, 8),))
    assert torch.autograd.gradcheck(ops.linear, (draw(5, 6), draw(3, 6)))
    angles = torch.rand(5, 1, 3, generator=generator, dtype=torch.float64)
    turns = torch.polar(torch.ones_like(angles), angles)
    assert torch.autograd.gradcheck(lambda x: ops.rotate(x * 1.0, turns, 3, 6), (draw(5, 24),))


@pytest.mark.parametrize("shape", [(1, 1, 1), (7, 128, 106), (300, 24, 40), (5, 40, 24)])
def test_fast_products_equal_plain_ones(shape: tuple[int, int, int]) -> None:
    num, inner, outer = shape
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(num, inner, generator=generator, requires_grad=True)
    weight = torch.randn(outer, inner, generator=generator, requires_grad=True)
    grad = torch.randn(num, outer, generator=generator)
    out = ops.linear(x, weight)
    torch.testing.assert_close(out, x @ weight.t(), atol=1e-4, rtol=1e-5)
    expected = torch.autograd.grad(x @ weight.t(), (x, weight), grad)
    for ours, theirs in zip(torch.autograd.grad(out, (x, weight), grad), expected, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-5)


def test_refuses_empty_prompts_and_sequences() -> None:
    with pytest.raises(InputError, match="nothing to compute"):
        Packed.from_sequences([[1], [2]])
    with pytest.raises(InputError, match="a prompt is empty"):
        Packed.from_groups([[]], [[[1]]])
    with pytest.raises(InputError, match="sequence 1 is empty"):
        Packed.from_sequences([[1], []])
    with pytest.raises(InputError, match="1 prompts but responses for 2"):
        Packed.from_groups([[1]], [[[1]], [[2]]])


def test_a_head_of_keys_for_each_query_gives_the_same_attention() -> None:
    generator = torch.Generator().manual_seed(0)
    sizes = ((2, 6, 5, 8), (2, 2, 7, 8), (2, 2, 7, 8))
    inputs = [torch.randn(size, generator=generator, dtype=torch.float64, requires_grad=True) for size in sizes]
    mask = torch.ones(5, 7, dtype=torch.bool).tril(2)
    attend = torch.nn.functional.scaled_dot_product_attention
    query, key, value = inputs
    shared = attend(query, key, value, attn_mask=mask, enable_gqa=True)
    own = attend(query, padded.every_head(key, 6), padded.every_head(value, 6), attn_mask=mask)
    torch.testing.assert_close(own, shared, rtol=1e-12, atol=1e-12)
    expected, got = (torch.autograd.grad(out.square().sum(), inputs) for out in (shared, own))
    torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)
