"""TraPO's reward and filter: against numbers worked by hand, plain loops, and the selector that reads a ledger."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean, stdev

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.contract.errors import InputError
from components.curate.operators.selectors.trajectory_match import mean_direction, similarity
from components.rl.batch.batch import RIGHT, UNSCORED, WRONG, Batch, Prompt
from components.rl.operators.filters.trajectory_match import mean_cosines
from components.rl.step.context import SlotContext
from components.tasks.item import UNLABELLED
from tests.rl.build import batch_of, context, near, operator

LABELLED, OPEN = "labelled", "open"
POOL_NAMES = ("a", "b", "u", "v", "w")


def prompts_of(names: Sequence[str], verifier: str = "exact") -> tuple[Prompt, ...]:
    """Return prompts; `a` and `b` are labelled."""
    empty = batch_of([[0.0]]).prompts[0]
    return tuple(
        replace(
            empty,
            item=empty.item.model_copy(
                update={"id": name, "domain": LABELLED if name in "ab" else OPEN, "verifier": verifier}
            ),
        )
        for name in names
    )


def drawn(**groups: Sequence[float]) -> Batch:
    """Return a batch of these groups; a rewarded response is right."""
    batch = batch_of(list(groups.values()))
    return replace(batch, prompts=prompts_of(tuple(groups)))


def texts_of(batch: Batch, texts: Sequence[str]) -> Batch:
    return replace(batch, texts=tuple(texts))


def vote(batch: Batch, now: SlotContext | None = None) -> list[float]:
    found: list[float] = operator("reward", "verify_or_majority", unlabelled=[OPEN])(batch, now or context()).tolist()
    return found


# the reward


def test_labelled_groups_are_verified_and_others_vote() -> None:
    now = context()
    batch = texts_of(drawn(a=[1, 0, 0], u=[0, 0, 1]), [f"<answer>{text}" for text in "155" + "559"])
    assert vote(batch, now) == [1, 0, 0, 1, 1, 0]  # a: 1 is right, though 5 has more votes; u: 5, though 9 is right
    assert now.metrics == {"majority_share": pytest.approx(2 / 3), "tied_share": 0.0}


def test_a_tie_is_no_label_and_neither_is_silence() -> None:
    now = context()
    tied = texts_of(drawn(u=[1, 1, 1, 1], v=[1, 1, 1, 1]), [f"<answer>{text}" for text in "5599" + "5 99"])
    assert vote(tied, now) == [0, 0, 0, 0, 0, 0, 1, 1]
    assert now.metrics["tied_share"] == 0.5
    assert vote(texts_of(drawn(u=[1, 1]), ["no", "<answer>"])) == [0, 0]


@given(st.lists(st.sampled_from("abc "), min_size=1, max_size=9), st.lists(st.booleans(), min_size=9, max_size=9))
def test_outcomes_of_unlabelled_prompts_change_nothing(votes: list[str], right: list[bool]) -> None:
    batch = texts_of(drawn(u=[0.0] * len(votes)), [f"<answer>{one}" for one in votes])
    poisoned = replace(batch, outcomes=torch.tensor([RIGHT if one else WRONG for one in right[: len(votes)]]))
    counts = Counter(one for one in votes if one.strip()).most_common()
    winner = counts[0][0] if counts and (len(counts) == 1 or counts[1][1] < counts[0][1]) else None
    assert vote(batch) == vote(poisoned) == [float(one == winner) for one in votes]


def test_prompts_without_a_verifier_vote_in_any_domain() -> None:
    batch = texts_of(drawn(a=[0, 0, 0]), ["<answer>5", "<answer>5", "<answer>6"])
    bare = replace(batch, prompts=prompts_of("a", UNLABELLED), outcomes=torch.full((3,), UNSCORED))
    assert vote(bare) == [1, 1, 0]


# the filter


def run(visits: Sequence[dict[str, Sequence[float]]], now: SlotContext, **settings: float | None) -> list[list[str]]:
    """Return the prompts kept of each batch."""
    bound = operator("filter", "trajectory_match", unlabelled=[OPEN], **settings)

    def refused(_: int) -> Batch:
        raise AssertionError("nothing is to be refilled")

    return [[prompt.item.id for prompt in bound(drawn(**groups), refused, now).prompts] for groups in visits]


RISING = [[0, 0, 0, 0], [1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0]]
FALLING = RISING[::-1]
FLAT = [[1, 0, 0, 0]] * 4


def test_rising_votes_match_rising_pass_rates() -> None:
    now = context(pool=prompts_of(POOL_NAMES))
    batches = [{"a": RISING[t], "u": RISING[t], "v": FALLING[t], "w": FLAT[t]} for t in range(4)]
    settings = {"warmup_visits": 3, "top_share": None}
    assert run(batches, now, **settings) == [["a"]] * 3 + [["a", "u"]]
    assert now.memory == {
        "curves": {"a": [0, 0.25, 0.5, 0.75], "u": [0, 0.25, 0.5, 0.75], "v": [0.75, 0.5, 0.25, 0], "w": [0.25] * 4},
        "accepted": ["u"],
    }
    assert now.metrics["accepted_share"] == pytest.approx(1 / 3)


def test_the_top_share_takes_one_at_least_and_the_best_first() -> None:
    now = context(pool=prompts_of(POOL_NAMES))
    batches = [{"a": RISING[t], "v": FALLING[t], "w": FLAT[t]} for t in range(4)]
    assert run(batches, now, warmup_visits=3, threshold=None, top_share=0.1)[-1] == ["a", "w"]  # 0 is above -1


def test_accepted_prompts_join_the_reference_until_one_of_them_comes_again() -> None:
    now = context(pool=prompts_of(POOL_NAMES))
    steps = [{"a": RISING[t], "u": RISING[t], "v": RISING[t]} for t in range(3)] + [{"a": RISING[3]}, {"u": RISING[3]}]
    run(steps, now, warmup_visits=2, top_share=None)
    assert now.memory["accepted"] == ["u"]  # u and v at the third visit; u again: the set began anew
    run([{"v": RISING[3]}], now, warmup_visits=2, top_share=None)
    assert now.memory["accepted"] == ["u", "v"]


def test_what_is_kept_follows_from_rewards_and_goes_on_after_json() -> None:
    whole, first = context(pool=prompts_of(POOL_NAMES)), context(pool=prompts_of(POOL_NAMES))
    batches = [{"a": RISING[t], "u": RISING[t], "v": FALLING[t]} for t in range(4)]
    kept = run(batches, whole, warmup_visits=1)
    head = run(batches[:2], first, warmup_visits=1)
    again = context(pool=prompts_of(POOL_NAMES), memory=json.loads(json.dumps(first.memory)))
    assert head + run(batches[2:], again, warmup_visits=1) == kept
    bound = operator("filter", "trajectory_match", unlabelled=[OPEN], warmup_visits=1)
    poisoned = context(pool=prompts_of(POOL_NAMES))
    for groups, names in zip(batches, kept, strict=True):
        batch = replace(drawn(**groups), outcomes=torch.full((12,), WRONG))
        assert [prompt.item.id for prompt in bound(batch, len, poisoned).prompts] == names


def test_precision_is_of_groups_that_have_a_label() -> None:
    now = context(pool=prompts_of(POOL_NAMES))
    bound = operator("filter", "trajectory_match", unlabelled=[OPEN], warmup_visits=1, top_share=None)
    for t in range(4):
        batch = drawn(a=RISING[t], u=RISING[t], v=FALLING[t], w=[0, 0, 0, 0])
        wrong_v = torch.where(batch.group == 2, WRONG, batch.outcomes)
        bound(replace(batch, outcomes=wrong_v), len, now)
        if t == 1:
            assert now.metrics["pseudo_label_precision"] == 0.5  # u is right, v is not, w has none
    assert now.metrics["accepted_precision"] == 1.0
    bare = context(pool=prompts_of(POOL_NAMES))
    batch = drawn(a=RISING[1], u=RISING[1])
    unscored = replace(batch, outcomes=torch.where(batch.group == 1, UNSCORED, batch.outcomes))
    bound(unscored, len, bare)
    assert "pseudo_label_precision" not in bare.metrics


curves = st.lists(st.lists(st.integers(0, 8).map(lambda n: n / 8), min_size=4, max_size=4), min_size=1, max_size=5)


@given(curves, curves)
def test_cosines_equal_a_plain_loop_and_the_selector_of_curate(
    asked: list[list[float]], known: list[list[float]]
) -> None:
    def z(curve: list[float]) -> list[float]:
        spread = stdev(curve)
        return [(value - fmean(curve)) / spread if spread else 0.0 for value in curve]

    def cosine(first: list[float], second: list[float]) -> float:
        length = math.hypot(*first) * math.hypot(*second)
        return sum(x * y for x, y in zip(first, second, strict=True)) / length if length else 0.0

    expected = [fmean(cosine(z(curve), z(other)) for other in known) for curve in asked]
    assert near(mean_cosines(asked, known), expected)
    reference = mean_direction(torch.tensor(known).double().numpy())
    assert near([similarity(curve, reference) for curve in asked], expected)


def test_settings_that_select_nothing_and_stages_without_labels_are_refused() -> None:
    with pytest.raises(InputError, match="set threshold, top_share or both"):
        operator("filter", "trajectory_match", threshold=None, top_share=None)
    with pytest.raises(InputError, match="no prompt of the stage is labelled"):
        run([{"u": [1.0, 0.0]}], context(pool=prompts_of("uvw")))
