"""Trajectories of several turns: gradients as of hand-built rows, and tokens of others that are context and no more."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.rl.batch.as_json import batch_from_json, batch_to_json
from components.rl.batch.batch import FOREIGN, PER_TOKEN, TENSORS, Batch
from components.rl.batch.joining import concatenate, regroup
from components.rl.batch.returns import next_in_response, suffix_sum
from components.rl.slots import Slots
from components.rl.step.diagnostics import sample_metrics
from components.rl.step.learner import token_weights
from components.rl.step.scoring import frozen_logprobs, micro_rows, response_hidden
from tests.rl.build import batch_of, context, near, operator, prompt
from tests.rl.step.test_learner import assert_equal, gradients, learner, slots_of, tiny
from tests.rl.trajectories import conversations, single_rows

REWARDS = [[1.0, 0.0], [0.0, 1.0, 1.0]]
TURNS = [
    [[(0, 2), (3, 1), (2, 3)], [(0, 1), (1, 2), (1, 1)]],
    [[(0, 3), (2, 2), (1, 1)], [(0, 1), (2, 4), (3, 2)], [(0, 2), (1, 1), (2, 5)]],
]
METHODS = {
    "tokens": ("dapo", {}),
    "responses": ("grpo", {}),
    "groups": ("grpo", {"objective": {"name": "ppo_clip", "denominator": "groups"}}),
    "constant": ("dr-grpo", {}),
    "one ratio for all turns": ("gspo", {}),
    "ratio of tokens and responses": ("dhpo", {}),
    "length and entropy": ("canon", {}),
    "whitened": ("reinforce++", {}),
    "classifier": ("pacs", {}),
    "history": ("dcpo", {}),
}


def prepared(batch: Batch, slots: Slots) -> Batch:
    """Return the learned tokens with advantages, and log-probabilities near those of the tiny policy."""
    policy = tiny()
    own = frozen_logprobs(policy, batch, temperature=1.0, max_tokens=10_000)
    noise = 0.1 * torch.sin(17 * batch.old_logprobs)  # belongs to the token, not to its place
    batch = replace(batch, old_logprobs=own + noise, reference_logprobs=own - noise).of_learned()
    for bound in slots.advantages:
        found = bound(batch, context())
        batch = found if isinstance(found, Batch) else batch.with_advantages(found)
    return batch


@pytest.mark.parametrize("given", METHODS)
def test_the_gradient_of_three_turns_is_that_of_hand_built_rows(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    method, overrides = METHODS[given]
    slots, whole = slots_of(method, **overrides), conversations(REWARDS, TURNS)
    first, metrics = gradients(learner(tiny(), slots), prepared(whole, slots), monkeypatch)
    second, others = gradients(learner(tiny(), slots), prepared(single_rows(whole), slots), monkeypatch)
    assert_equal(first, second, 1e-5)
    assert max(float(value.abs().max()) for value in first.values()) > 1e-4
    assert metrics == pytest.approx(others, abs=1e-5)


@pytest.mark.parametrize("cut", ["rows", "small passes"])
def test_passes_of_any_size_give_one_gradient(cut: str, monkeypatch: pytest.MonkeyPatch) -> None:
    slots, whole = slots_of("gspo"), conversations(REWARDS, TURNS)
    batch = prepared(single_rows(whole) if cut == "rows" else whole, slots)
    first, _ = gradients(learner(tiny(), slots, micro=12), batch, monkeypatch)
    second, _ = gradients(learner(tiny(), slots), batch, monkeypatch)
    assert_equal(first, second, 1e-5)
    for rows in micro_rows(batch, 12):
        batch.select(rows)  # raises for a part of a trajectory


@pytest.mark.parametrize("value", [7.0, float("nan"), float("inf")])
@pytest.mark.parametrize("method", ["grpo", "dapo", "gspo", "reinforce++", "canon"])
def test_what_is_recorded_of_an_observation_leaves_the_loss_unchanged(
    value: float, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    slots, whole = slots_of(method), conversations(REWARDS, TURNS)
    whole = replace(whole, reference_logprobs=whole.old_logprobs - 0.1)
    recorded = [name for name in PER_TOKEN if vars(whole)[name].dtype == torch.float32]
    changed = replace(whole, **{name: vars(whole)[name].where(whole.learned, value) for name in recorded})
    found = []
    for batch in (whole, changed):
        for bound in slots.advantages:
            batch = batch.of_learned().with_advantages(bound(batch.of_learned(), context()))
        found.append(gradients(learner(tiny(), slots), batch, monkeypatch))
    assert found[0][1] == found[1][1]
    assert_equal(found[0][0], found[1][0], 0.0)


def test_the_update_takes_learned_tokens_alone_from_any_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    slots, whole = slots_of("dapo"), conversations(REWARDS, TURNS)
    whole = whole.with_advantages(whole.group_centred(whole.rewards))
    first, _ = gradients(learner(tiny(), slots), whole, monkeypatch)
    second, _ = gradients(learner(tiny(), slots), whole.of_learned(), monkeypatch)
    assert_equal(first, second, 0.0)


def test_an_observation_is_no_target_but_is_read() -> None:
    """Another observation changes what later turns are worth, but has no log-probability of its own."""
    policy, whole = tiny(), conversations([[1.0]], [[[(0, 2), (2, 2)]]])
    tokens = whole.tokens.clone()
    tokens[2] = (tokens[2] + 1) % 11
    scored = [
        frozen_logprobs(policy, replace(whole, tokens=t).of_learned(), temperature=1.0, max_tokens=99)
        for t in (whole.tokens, tokens)
    ]
    assert len(scored[0]) == 4
    assert torch.allclose(scored[0][:2], scored[1][:2])
    assert not torch.allclose(scored[0][2:], scored[1][2:])


def test_learned_tokens_are_scored_as_in_the_whole_row() -> None:
    policy, whole = tiny(), conversations(REWARDS, TURNS)
    every = frozen_logprobs(policy, whole, temperature=1.0, max_tokens=99)
    assert torch.allclose(
        frozen_logprobs(policy, whole.of_learned(), temperature=1.0, max_tokens=9), every[whole.learned], atol=1e-6
    )
    states = torch.cat(response_hidden(policy, whole, max_tokens=99))[whole.learned]
    assert torch.allclose(torch.cat(response_hidden(policy, whole.of_learned(), max_tokens=9)), states, atol=1e-6)


@pytest.mark.parametrize("build", [Batch.of_learned, single_rows], ids=["one row", "a row per turn"])
def test_statistics_are_of_trajectories_and_learned_tokens(build: Callable[[Batch], Batch]) -> None:
    batch = build(conversations([[1.0, 0.0]], [[[(0, 2), (3, 1)], [(0, 1), (2, 5)]]]))
    assert batch.of_traces(batch.response_lengths).tolist() == [3, 6]
    assert batch.group_sizes.unique().tolist() == [2]
    assert near(batch.of_traces(batch.group_centred(batch.rewards)), [0.5, -0.5])
    assert near(token_weights(batch, "tokens", 1), [1 / 9] * 9)
    assert near(token_weights(batch, "responses", 1), [1 / 6] * 3 + [1 / 12] * 6)
    assert near(token_weights(batch, "groups", 1), [1 / 9] * 9)
    assert near(token_weights(batch, "constant", 10), [1 / 20] * 9)
    assert batch.positions.tolist() == [0, 1, 2, 0, 1, 2, 3, 4, 5]
    ones = torch.ones(9)
    assert suffix_sum(batch, ones).tolist() == [3, 2, 1, 6, 5, 4, 3, 2, 1]
    assert next_in_response(batch, ones).tolist() == [1, 1, 0, 1, 1, 1, 1, 1, 0]
    metrics = sample_metrics(batch)
    assert metrics["num_samples"] == 2 and metrics["length_mean"] == 4.5 and metrics["length_max"] == 6


def test_values_and_advantages_go_across_turns() -> None:
    """The reward comes at the last token of the last turn; the value of an observation is that of what follows it."""
    whole = conversations([[1.0]], [[[(0, 1), (2, 1)]]])
    whole = replace(whole, values=torch.tensor([0.25, 9.0, 9.0, 0.5]))
    gae = operator("advantage", "gae", gamma=1.0, lam=1.0, whiten=False)
    for batch in (whole.of_learned(), single_rows(whole)):
        assert near(gae(batch, context()), [0.75, 0.5])
        assert near(operator("critic", "lambda_return", gamma=1.0, lam=1.0)(batch, context()), [1.0, 1.0])


def test_a_trajectory_with_a_foreign_token_is_external() -> None:
    batch = conversations([[1.0, 0.0]], [[[(1, 2)], [(1, 2)]]])
    author = batch.author.clone()
    author[0] = FOREIGN  # not learned from, and still not the policy's own
    batch = replace(batch, author=author)
    assert batch.external.tolist() == [True, False]
    assert batch.of_learned().external.tolist() == [True, False]
    assert batch_of([[1.0]]).external.tolist() == [False]


turns = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3)), min_size=1, max_size=3)
rewarded = st.tuples(st.sampled_from([0.0, 1.0]), turns)
shapes = st.lists(st.lists(rewarded, min_size=1, max_size=3), min_size=1, max_size=3)
forms = st.sampled_from([lambda whole: whole, Batch.of_learned, single_rows])
batches = st.builds(
    lambda shape, form: form(conversations([[r for r, _ in g] for g in shape], [[t for _, t in g] for g in shape])),
    shapes,
    forms,
)


def traces(batch: Batch) -> list[tuple[object, ...]]:
    """Return all that belongs to each trajectory."""
    found: list[tuple[object, ...]] = []
    ends = batch.lengths.cumsum(0).tolist()
    for trace in range(batch.num_traces):
        rows = (batch.trace == trace).nonzero().squeeze(1).tolist()
        assert rows == list(range(rows[0], rows[-1] + 1))
        tokens = [batch.tokens[ends[row] - int(batch.lengths[row]) : ends[row]].tolist() for row in rows]
        around = None if batch.around is None else [batch.around.contexts[row] for row in rows]
        item = batch.prompts[int(batch.group[rows[0]])].item.id
        found.append((item, tokens, [batch.contexts[row] for row in rows], around, float(batch.rewards[rows[0]])))
    return found


@given(batches, st.randoms(use_true_random=False))
def test_a_mask_keeps_or_drops_whole_trajectories(batch: Batch, random: object) -> None:
    mask = torch.tensor([random.random() < 0.7 for _ in range(batch.num_responses)])  # type: ignore[attr-defined]
    kept = batch.select(mask)
    whole = [bool(mask[batch.trace == trace].all()) for trace in range(batch.num_traces)]
    assert traces(kept) == [trace for trace, is_kept in zip(traces(batch), whole, strict=True) if is_kept]
    assert kept.trace.tolist() == sorted(kept.trace.tolist())


@given(batches, batches)
def test_joining_and_json_keep_trajectories_together(first: Batch, second: Batch) -> None:
    joined = concatenate([first, second])
    if (first.around is None) == (second.around is None):
        assert traces(joined) == traces(first) + traces(second)
    united = regroup([first, second])
    assert sorted(map(repr, traces(united))) == sorted(map(repr, traces(joined)))
    back = batch_from_json(
        json.loads(json.dumps(batch_to_json(united), allow_nan=False)), [prompt(i) for i in range(9)]
    )
    assert traces(back) == traces(united)
    assert all(torch.equal(vars(back)[n].nan_to_num(), vars(united)[n].nan_to_num()) for n in TENSORS)


@given(batches)
def test_a_part_of_a_trajectory_is_refused(batch: Batch) -> None:
    if batch.one_row_each:
        return
    row = next(row for row in range(batch.num_responses) if batch.num_responses > 1 and shared(batch, row))
    with pytest.raises(ValueError, match="kept together"):
        batch.select(torch.tensor([row]))


def shared(batch: Batch, row: int) -> bool:
    return int((batch.trace == batch.trace[row]).sum()) > 1


def test_a_replay_buffer_of_conversations_is_learned_from() -> None:
    """RoRecomp leaves trajectories out and learns from them later: their context comes back with them."""
    batch = conversations(REWARDS, TURNS).of_learned()
    batch = batch.with_advantages(batch.group_centred(batch.rewards))
    pool = [prompt(index) for index in range(2)]
    replay = operator("replay", "recompose", share=0.5, first_probability=0.0, last_probability=0.0)
    now = context(pool=pool)
    (learned,) = replay(batch, now)
    kept = batch_from_json(now.memory["buffer"], pool)
    assert sorted(map(repr, traces(kept) + traces(learned))) == sorted(map(repr, traces(batch)))
    assert kept.around is not None and kept.around.num_tokens > kept.num_tokens
