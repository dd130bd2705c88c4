"""What operators add to a batch: marks, given groups, and buffers in JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.rl.batch.as_json import batch_from_json, batch_to_json
from components.rl.batch.batch import FOREIGN, POLICY, TENSORS, Batch, Prompt
from components.rl.batch.joining import concatenate, regroup
from tests.rl.build import batch_of, prompt, rows_of

ragged = st.lists(
    st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.integers(1, 3)), min_size=1, max_size=3),
    min_size=1,
    max_size=4,
).map(lambda groups: batch_of([[r for r, _ in g] for g in groups], [[n for _, n in g] for g in groups]))


def marked(batch: Batch) -> Batch:
    return batch.with_extras(place_s=torch.arange(batch.num_responses), place_n=torch.arange(batch.num_tokens))


@given(ragged, st.data())
def test_marks_stay_with_their_responses_and_tokens(batch: Batch, data: st.DataObject) -> None:
    whole = marked(batch)
    mask = torch.tensor(data.draw(st.lists(st.booleans(), min_size=batch.num_responses, max_size=batch.num_responses)))
    kept = whole.select(mask)
    assert kept.extras["place_s"].tolist() == mask.nonzero().flatten().tolist()
    tokens = rows_of(whole, whole.extras["place_n"])
    assert rows_of(kept, kept.extras["place_n"]) == [tokens[row] for row in kept.extras["place_s"].tolist()]


def test_a_mark_that_only_one_batch_has_is_zero_in_the_other() -> None:
    first, second = batch_of([[1.0, 0.0]], [[1, 2]]), marked(batch_of([[1.0]], [[2]]))
    second = second.with_extras(more_s=torch.tensor([True]))
    joined = concatenate([first, second])
    assert joined.extras["place_n"].tolist() == [0, 0, 0, 0, 1]
    assert joined.extras["more_s"].tolist() == [False, False, True]


@pytest.mark.parametrize(
    "name, count, words", [("place", 2, "end the name in"), ("place_s", 4, "4 values for 2"), ("place_n", 2, "for 4")]
)
def test_a_mark_says_by_its_name_what_it_belongs_to(name: str, count: int, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        batch_of([[1.0, 0.0]]).with_extras(**{name: torch.zeros(count)})


@given(ragged, ragged)
def test_regrouping_unites_equal_prompts_and_keeps_every_row(first: Batch, second: Batch) -> None:
    """Both batches have prompts p0, p1, ...; so the longer one's prompts are all there are."""
    joined = regroup([marked(first), marked(second)])
    assert [p.item.id for p in joined.prompts] == [f"p{i}" for i in range(max(first.num_prompts, second.num_prompts))]
    rows = [
        (batch.prompts[group].item.id, row, text)
        for batch in (first, second)
        for group, row, text in zip(batch.group.tolist(), rows_of(batch, batch.old_logprobs), batch.texts, strict=True)
    ]
    found = zip(joined.group.tolist(), rows_of(joined, joined.old_logprobs), joined.texts, strict=True)
    assert [(joined.prompts[group].item.id, row, text) for group, row, text in found] == sorted(
        rows, key=lambda row: int(row[0][1:])
    )
    assert joined.group.tolist() == sorted(joined.group.tolist())


def test_rows_of_one_task_are_a_group_whatever_they_were_conditioned_on() -> None:
    batch = batch_of([[1.0], [0.0]])
    hinted = replace(batch, prompts=(batch.prompts[0], Prompt(batch.prompts[0].item, (9, 9))))
    joined = regroup([hinted])
    assert joined.prompts == (batch.prompts[0],)
    assert joined.group.tolist() == [0, 0]
    assert joined.contexts == (batch.prompts[0].tokens, (9, 9))
    assert regroup([replace(hinted, prompts=(batch.prompts[0],) * 2)]).group_sizes.tolist() == [2, 2]


@given(ragged)
def test_a_batch_in_json_comes_back_bit_for_bit(batch: Batch) -> None:
    batch = replace(marked(batch), author=torch.where(batch.to_tokens(batch.rewards > 0.2), FOREIGN, POLICY))
    batch = replace(batch, prompts=tuple(Prompt(p.item, (*p.tokens, 3)) for p in batch.prompts))
    pool = [prompt(index) for index in range(9)]
    back = batch_from_json(json.loads(json.dumps(batch_to_json(batch), allow_nan=False)), pool)
    assert back.prompts == batch.prompts and back.texts == batch.texts
    for name in TENSORS:
        mine, other = vars(batch)[name], vars(back)[name]
        assert mine.dtype == other.dtype and torch.equal(mine.nan_to_num(nan=-7.0), other.nan_to_num(nan=-7.0))
    assert back.extras.keys() == batch.extras.keys()
    assert all(torch.equal(back.extras[name], value) for name, value in batch.extras.items())
