"""Features of responses and the probability behind them: against whole sequences, one at a time."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from components.modeling.models.policy import Policy
from components.modeling.packing.packed import Packed
from components.rl.batch.batch import Batch
from components.rl.slots import AFTER
from components.rl.step.scoring import response_hidden, score_tokens
from components.rl.step.states import reserved_logprobs, response_features, score_with_after
from tests.rl.build import batch_of
from tests.rl.step.test_learner import LENGTHS, REWARDS, tiny
from tests.rl.trajectories import conversations, single_rows

TURNS = [[[(0, 2), (3, 1)], [(0, 4), (1, 2)]], [[(0, 1), (2, 5)]]]
BATCH = batch_of(REWARDS, LENGTHS)
TOKEN = 10


def by_hand(policy: Policy, batch: Batch, layer: int) -> tuple[Tensor, Tensor]:
    """Return mean and last state of the learned tokens of each row, from one pass for each."""
    means, lasts = [], []
    for row, tokens in enumerate(batch.tokens.split(batch.lengths.tolist())):
        sequence = [*batch.contexts[row], *tokens.tolist()]
        states = policy.hidden(Packed.from_sequences([sequence], keep_last=True), layer)[-len(tokens) :]
        means.append(states[batch.learned.split(batch.lengths.tolist())[row]].mean(0))
        lasts.append(states[-1])
    return torch.stack(means), torch.stack(lasts)


@pytest.mark.parametrize("layer", [-1, 0, 1])
@pytest.mark.parametrize("max_tokens", [99, 9])
def test_features_are_those_of_each_row_alone(layer: int, max_tokens: int) -> None:
    policy = tiny()
    for batch in (BATCH, conversations([[1.0, 0.0], [1.0]], TURNS)):
        with torch.no_grad():
            means, lasts = by_hand(policy, batch, layer)
        found = response_features(policy, batch, max_tokens=max_tokens, layer=layer)
        assert found.dtype == torch.float32 and torch.allclose(found, means, atol=1e-5)
        states = response_hidden(policy, batch.of_learned(), max_tokens=max_tokens, layer=layer)
        assert torch.allclose(torch.stack([rows.mean(0) for rows in states]), means, atol=1e-5)
        if bool(batch.learned.all()):
            ends = response_features(policy, batch, max_tokens=max_tokens, layer=layer, pool="last")
            assert torch.allclose(ends, lasts, atol=1e-5)


def test_equal_responses_of_a_group_are_passed_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    policy, rows = tiny(), [[1, 2], [1, 2], [3], [1, 2], [1, 2], [4, 4]]
    batch = batch_of([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]], [[2, 2, 1], [2, 2, 2]])
    batch = Batch(**{**vars(batch), "tokens": torch.tensor([token for row in rows for token in row])})
    passed: list[int] = []
    features = Policy.features
    spy = lambda self, packed, **how: passed.append(packed.num_sequences) or features(self, packed, **how)  # noqa: E731
    monkeypatch.setattr(Policy, "features", spy)
    found = response_features(policy, batch, max_tokens=99)
    with torch.no_grad():
        assert torch.allclose(found, by_hand(policy, batch, -1)[0], atol=1e-5)
    assert sum(passed) == 4 and torch.equal(found[0], found[1]) and torch.equal(found[3], found[4])
    expected = behind_by_hand(policy, batch).detach()
    assert torch.allclose(reserved_logprobs(policy, batch, TOKEN, max_tokens=9), expected, atol=1e-5)


@pytest.mark.parametrize("pool", ["mean", "last"])
def test_rows_of_one_trajectory_share_its_feature(pool: str) -> None:
    policy, whole = tiny(), conversations([[1.0, 0.0], [1.0]], TURNS)
    parted = single_rows(whole)
    first = response_features(policy, whole, max_tokens=99, pool=pool)  # type: ignore[arg-type]
    second = response_features(policy, parted, max_tokens=9, pool=pool)  # type: ignore[arg-type]
    assert parted.num_responses == 6 and torch.allclose(second, first[parted.trace], atol=1e-5)


def test_no_responses_have_no_features() -> None:
    none = BATCH.select(torch.zeros(BATCH.num_responses, dtype=torch.bool))
    assert response_features(tiny(), none, max_tokens=9).shape == (0, 16)
    assert reserved_logprobs(tiny(), none, TOKEN, max_tokens=9).shape == (0,)


def behind_by_hand(policy: Policy, batch: Batch) -> Tensor:
    """Return the log-probability of TOKEN behind each row, from one pass for each."""
    found = []
    for row, tokens in enumerate(batch.tokens.split(batch.lengths.tolist())):
        packed = Packed.from_sequences([[*batch.contexts[row], *tokens.tolist()]], keep_last=True)
        found.append(policy.logits(policy.hidden(packed)[-1:]).log_softmax(-1)[0, TOKEN])
    return torch.stack(found)


@pytest.mark.parametrize(
    "build", [lambda b: b, Batch.of_learned, single_rows], ids=["whole", "learned", "a row a turn"]
)
@pytest.mark.parametrize("max_tokens", [99, 9])
def test_a_reserved_token_is_scored_behind_each_trajectory(build: Callable[[Batch], Batch], max_tokens: int) -> None:
    policy, whole = tiny(), conversations([[1.0, 0.0], [1.0]], TURNS)
    batch = build(whole)
    expected = behind_by_hand(policy, whole).detach()[batch.trace]
    assert torch.allclose(reserved_logprobs(policy, batch, TOKEN, max_tokens=max_tokens), expected, atol=1e-5)


@pytest.mark.parametrize("temperature", [1.0, 0.5])
@pytest.mark.parametrize("learned", [False, True])
def test_scores_with_a_token_behind_are_the_scores_and_the_token_at_temperature_one(
    temperature: float, learned: bool
) -> None:
    """Values and gradients: the further target changes neither, and undoes the rollout's temperature."""
    policy = tiny("float64")
    batch = conversations([[1.0, 0.0], [1.0]], TURNS).of_learned() if learned else BATCH
    batch = batch.with_extras(**{AFTER: torch.full((batch.num_responses,), TOKEN)})
    plain = score_tokens(policy, batch, temperature=temperature, entropy=True)
    scores = score_with_after(policy, batch, temperature=temperature, entropy=True)
    assert scores.after is not None and scores.entropies is not None and plain.entropies is not None
    assert torch.allclose(scores.logprobs, plain.logprobs) and torch.allclose(scores.entropies, plain.entropies)
    rows = torch.tensor([4, 0])
    assert torch.allclose(scores.logits_at(rows), plain.logits_at(rows))
    whole = batch.around or batch
    assert torch.allclose(scores.after, behind_by_hand(policy, whole))
    weights = torch.linspace(-1, 1, len(scores.after), dtype=torch.float64)
    names, parameters = zip(*policy.trainable(), strict=True)
    found = torch.autograd.grad((scores.after * weights).sum(), parameters, retain_graph=True)
    expected = torch.autograd.grad((behind_by_hand(policy, whole) * weights).sum(), parameters)
    for name, mine, theirs in zip(names, found, expected, strict=True):
        assert torch.allclose(mine, theirs, atol=1e-9), name
    assert torch.allclose(
        torch.autograd.grad(scores.logprobs.sum(), parameters)[0],
        torch.autograd.grad(plain.logprobs.sum(), parameters)[0],
    )


def test_a_token_of_its_own_for_each_row() -> None:
    policy = tiny()
    tokens = torch.arange(BATCH.num_responses) % 11
    scores = score_with_after(policy, BATCH.with_extras(**{AFTER: tokens}), temperature=0.7)
    assert scores.after is not None
    for token in (0, 3, 8):
        alone = reserved_logprobs(policy, BATCH, token, max_tokens=99)
        assert torch.allclose(scores.after.detach()[tokens == token], alone[tokens == token], atol=1e-5)
