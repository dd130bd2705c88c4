"""The batch: group and response statistics by hand, and selection that keeps everything lined up."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.rl.batch.batch import PER_RESPONSE, PER_TOKEN, Batch
from components.rl.batch.joining import concatenate
from tests.rl.build import batch_of, near, rows_of

ragged = st.lists(
    st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.integers(1, 5)), min_size=1, max_size=4),
    min_size=1,
    max_size=4,
).map(lambda groups: batch_of([[r for r, _ in g] for g in groups], [[n for _, n in g] for g in groups]))


def test_group_statistics_of_unequal_groups_by_hand() -> None:
    batch = batch_of([[1.0, 0.0, 0.0], [2.0], [3.0, 5.0]])
    assert near(batch.group_mean(batch.rewards), [1 / 3] * 3 + [2.0] + [4.0, 4.0])
    assert near(batch.group_centred(batch.rewards), [2 / 3, -1 / 3, -1 / 3, 0.0, -1.0, 1.0])
    assert near(batch.group_std(batch.rewards, ddof=1), [3**-0.5] * 3 + [0.0] + [2**0.5] * 2)
    assert near(batch.group_std(batch.rewards, ddof=0), [2**0.5 / 3] * 3 + [0.0] + [1.0] * 2)
    assert batch.group_sizes.tolist() == [3, 3, 3, 1, 2, 2]
    assert batch.group_is_equal(batch.rewards).tolist() == [False, False, False, True, False, False]


def test_an_equal_group_is_centred_to_exactly_zero() -> None:
    batch = batch_of([[0.1, 0.1, 0.1]])
    assert batch.group_centred(batch.rewards).tolist() == [0.0, 0.0, 0.0]


def test_response_statistics_by_hand() -> None:
    batch = batch_of([[0.0, 0.0]], [[3, 1]])
    values = torch.tensor([1.0, 2.0, 6.0, 5.0])
    assert batch.response_sum(values).tolist() == [9.0, 5.0]
    assert batch.response_mean(values).tolist() == [3.0, 5.0]
    assert batch.response_of.tolist() == [0, 0, 0, 1]
    assert batch.positions.tolist() == [0, 1, 2, 0]
    assert batch.to_tokens(torch.tensor([7.0, 8.0])).tolist() == [7.0, 7.0, 7.0, 8.0]


def test_advantages_are_given_per_response_or_per_token() -> None:
    batch = batch_of([[0.0, 0.0]], [[2, 1]])
    assert batch.with_advantages(torch.tensor([1.0, -1.0])).advantages.tolist() == [1.0, 1.0, -1.0]
    assert batch.with_advantages(torch.tensor([1.0, 2.0, 3.0])).advantages.tolist() == [1.0, 2.0, 3.0]


@given(ragged, st.data())
def test_selection_keeps_rows_and_their_tokens_together(batch: Batch, data: st.DataObject) -> None:
    mask = torch.tensor(data.draw(st.lists(st.booleans(), min_size=batch.num_responses, max_size=batch.num_responses)))
    chosen = batch.select(mask)
    kept = mask.nonzero().flatten().tolist()
    assert list(chosen.texts) == [batch.texts[row] for row in kept]
    for name in PER_RESPONSE:
        assert vars(chosen)[name].tolist() == [vars(batch)[name][row].item() for row in kept]
    for name in ("tokens", "old_logprobs", "entropies"):
        before, after = rows_of(batch, vars(batch)[name]), rows_of(chosen, vars(chosen)[name])
        assert after == [before[row] for row in kept]
    owners = [batch.prompts[group] for group in batch.group[mask].tolist()]
    assert [chosen.prompts[group] for group in chosen.group.tolist()] == owners
    assert len(chosen.prompts) == len(set(batch.group[mask].tolist()))


@given(ragged, ragged)
def test_concatenation_is_undone_by_selection(first: Batch, second: Batch) -> None:
    joined = concatenate([first, second])
    assert joined.num_prompts == first.num_prompts + second.num_prompts
    back = joined.select(joined.group < first.num_prompts)
    assert back.texts == first.texts
    for name in ("group", *PER_RESPONSE, *PER_TOKEN):
        assert torch.equal(vars(back)[name].nan_to_num(), vars(first)[name].nan_to_num())


def test_groups_can_be_put_into_another_order() -> None:
    batch = batch_of([[1.0, 2.0], [3.0]], [[1, 2], [3]])
    turned = batch.select(torch.tensor([2, 0, 1]))
    assert turned.rewards.tolist() == [3.0, 1.0, 2.0]
    assert turned.group.tolist() == [0, 1, 1]
    assert [p.item.id for p in turned.prompts] == ["p1", "p0"]
    assert turned.responses()[0][0] == batch.responses()[1][0]


def test_statistics_of_an_empty_batch_are_empty() -> None:
    empty = batch_of([[1.0], [0.0]]).select(torch.tensor([False, False]))
    assert (empty.num_prompts, empty.num_responses, empty.num_tokens) == (0, 0, 0)
    assert empty.group_centred(empty.rewards).tolist() == []
    assert empty.responses() == []


@pytest.mark.parametrize("count, expected", [(0, 0), (1, 3), (9, 4)])
def test_first_groups(count: int, expected: int) -> None:
    assert batch_of([[1.0, 0.0, 0.0], [1.0]]).first_groups(count).num_responses == expected


def test_moving_to_a_device_keeps_values() -> None:
    batch = batch_of([[1.0, 0.0]])
    moved = batch.to("cpu")
    assert torch.equal(moved.tokens, batch.tokens) and moved.texts == batch.texts
    assert replace(moved, texts=batch.texts).group.device.type == "cpu"
