"""Hidden states, features and steering: both backends equal each other and what transformers computes itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from components.contract.errors import InputError
from components.modeling.generation import scoring
from components.modeling.generation.generate import generate
from components.modeling.generation.sampling_config import SamplingConfig
from components.modeling.loading.load import load_policy
from components.modeling.models.policy import Policy
from components.modeling.packing.packed import Packed
from tests.modeling import decoder_models as models

KINDS = ("llama-gqa", "qwen2-window", "gemma2", "gemma3")
"""Of the native decoder; the last two have norms behind each block, and all but the first windows."""
PROMPTS = models.token_lists([5, 9], seed=1)
GROUPS = [models.token_lists([4, 1, 11], seed=2), models.token_lists([7], seed=3)]
ROWS = [[*prompt, *row] for prompt, group in zip(PROMPTS, GROUPS, strict=True) for row in group]
LENGTHS = [len(row) for group in GROUPS for row in group]


def packed() -> Packed:
    """Return a pack whose prompts are shared."""
    return Packed.from_groups(PROMPTS, GROUPS, keep_last=True)


def own_states(model: Any, layer: int) -> list[Tensor]:
    """Return the states [T, D] at the tokens of each response, one row at a time, by transformers."""
    found = []
    with torch.no_grad():
        for row, length in zip(ROWS, LENGTHS, strict=True):
            states = model(input_ids=torch.tensor([row]), output_hidden_states=True, use_cache=False).hidden_states
            found.append(states[layer][0, -length:])
    return found


@pytest.mark.parametrize("backend", ["native", "transformers"])
@pytest.mark.parametrize("kind", [*KINDS, "gpt2", "mixtral"])
def test_states_and_features_are_those_of_transformers(kind: str, backend: Any, tmp_path: Path) -> None:
    if backend == "native" and kind not in KINDS:
        pytest.skip("not of the native decoder")
    model = models.save(kind, tmp_path)
    policy, pack = load_policy(tmp_path, backend=backend), packed()
    assert pack.own is not None
    with torch.no_grad():
        for layer in (0, 1, 2, -1, -2):
            expected = own_states(model, layer)
            found = policy.hidden(pack, layer)[pack.own].split(LENGTHS)
            for mine, theirs in zip(found, expected, strict=True):
                torch.testing.assert_close(mine, theirs, atol=2e-5, rtol=1e-4)
            means, ends = (policy.features(pack, layer=layer, pool=pool) for pool in ("mean", "last"))
            torch.testing.assert_close(means, torch.stack([s.mean(0) for s in expected]), atol=2e-5, rtol=1e-4)
            torch.testing.assert_close(ends, torch.stack([s[-1] for s in expected]), atol=2e-5, rtol=1e-4)
        assert torch.equal(policy.hidden(pack), policy.hidden(pack, len(policy.layers())))


def test_features_of_samples_do_not_depend_on_the_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = models.save("llama-gqa", tmp_path)
    policy = load_policy(tmp_path)
    expected = torch.stack([states.mean(0) for states in own_states(model, 1)])
    reserved = torch.stack([model(input_ids=torch.tensor([row])).logits[0, -1].log_softmax(-1)[2] for row in ROWS])
    for limit in (10_000, 25, 1):
        monkeypatch.setattr(scoring, "MAX_TOKENS", limit)
        found = scoring.features(policy, PROMPTS, GROUPS, layer=1)
        torch.testing.assert_close(found, expected, atol=2e-5, rtol=1e-4)
        behind = scoring.reserved_logprobs(policy, PROMPTS, GROUPS, 2)
        torch.testing.assert_close(behind, reserved.detach(), atol=2e-5, rtol=1e-4)


def test_masked_targets_alone_count() -> None:
    pack = Packed.from_groups(
        [[1, 2]], [[[3, 4, 5], [6, 7]]], masks=[[[True, False, True], [False, True]]], keep_last=True
    )
    assert pack.own is not None
    assert pack.tokens[pack.own].tolist() == pack.targets.tolist() == [3, 5, 7]
    whole = Packed.from_sequences([[1, 2, 3]], masks=[[True, True, False]], keep_last=True)
    assert whole.own is not None and whole.tokens[whole.own].tolist() == whole.targets.tolist() == [2]
    assert Packed.from_sequences([[1, 2, 3]]).own is None


DIRECTIONS = {layer: torch.randn(24, generator=torch.Generator().manual_seed(layer)) for layer in range(3)}


@pytest.mark.parametrize("at", [(0,), (1,), (2,), (0, 1, 2)])
@pytest.mark.parametrize("kind", ["llama-gqa", "gemma2"])
def test_both_backends_steer_alike(kind: str, at: tuple[int, ...], tmp_path: Path) -> None:
    models.save(kind, tmp_path)
    given = {layer: DIRECTIONS[layer] for layer in at}
    found = []
    for policy in (load_policy(tmp_path), load_policy(tmp_path, backend="transformers")):
        with torch.no_grad():
            plain = policy.target_logprobs(packed()).logprobs
            with policy.steer(given):
                steered = policy.target_logprobs(packed()).logprobs
                states = [policy.hidden(packed(), layer) for layer in range(3)]
                drawn = greedy(policy)
            assert torch.equal(policy.target_logprobs(packed()).logprobs, plain), "gone behind the context"
        assert not torch.allclose(steered, plain, atol=1e-3)
        found.append((steered, states, drawn))
    (first, mine, ours), (second, theirs, others) = found
    torch.testing.assert_close(first, second, atol=2e-5, rtol=1e-4)
    torch.testing.assert_close(mine, theirs, atol=5e-5, rtol=1e-4)
    assert ours == others


def greedy(policy: Policy) -> list[list[int]]:
    """Return greedy responses, and check that each token is the best one of a whole pass."""
    config = SamplingConfig(num_samples=1, max_new_tokens=6, temperature=0.0, stop_token_ids=(models.EOS,))
    rows = generate(policy, PROMPTS, config, generator=torch.Generator().manual_seed(0)).responses()
    for prompt, row in zip(PROMPTS, rows, strict=True):
        logits = policy.logits(policy.hidden(Packed.from_sequences([[*prompt, *row]], keep_last=True)))
        assert logits.argmax(-1)[len(prompt) - 1 : -1].tolist() == row
    return rows


def test_a_direction_adds_to_the_states_of_its_layer_and_to_earlier_ones_nothing(tmp_path: Path) -> None:
    models.save("llama-gqa", tmp_path)
    policy = load_policy(tmp_path)
    with torch.no_grad():
        before = [policy.hidden(packed(), layer) for layer in range(2)]
        with policy.steer({1: DIRECTIONS[1]}), policy.steer({1: DIRECTIONS[1]}):
            torch.testing.assert_close(policy.hidden(packed(), 1), before[1] + 2 * DIRECTIONS[1])
            assert torch.equal(policy.hidden(packed(), 0), before[0])


@pytest.mark.parametrize("backend", ["native", "transformers"])
def test_steering_ends_with_an_error_inside_and_unknown_layers_are_named(backend: Any, tmp_path: Path) -> None:
    models.save("llama-gqa", tmp_path)
    policy = load_policy(tmp_path, backend=backend)
    with torch.no_grad():
        plain = policy.hidden(packed())
        with pytest.raises(KeyError), policy.steer({1: DIRECTIONS[1]}):
            raise KeyError
        assert torch.equal(policy.hidden(packed()), plain)
    for layer in (3, -4):
        with pytest.raises(InputError, match=f"layer {layer} of a model with 2: 0 to 2, or -1"):
            policy.hidden(packed(), layer)
        with pytest.raises(InputError, match="of a model with 2"), policy.steer({layer: DIRECTIONS[0]}):
            pass


def test_in_bfloat16_features_are_rounded_states_in_float32(tmp_path: Path) -> None:
    models.save("llama-gqa", tmp_path)
    exact, rounded = load_policy(tmp_path), load_policy(tmp_path, dtype="bfloat16")
    with torch.no_grad():
        found, expected = rounded.features(packed()), exact.features(packed())
    assert found.dtype == torch.float32
    assert 0 < float((found - expected).abs().max()) < 0.06 * float(expected.abs().max())
