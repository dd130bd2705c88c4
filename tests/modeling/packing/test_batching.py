from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.contract.errors import InputError, UnknownName
from components.modeling.packing.batching import BatchSampler, micro_batches

SIZES = st.integers(1, 12)


@given(num=SIZES, batch=SIZES, seed=st.integers(0, 5))
def test_every_example_comes_once_per_epoch(num: int, batch: int, seed: int) -> None:
    sampler = BatchSampler(["x"] * num, batch, seed=seed)
    drawn = [index for step in range(3 * num) for index in sampler.batch(step)]
    for start in range(0, len(drawn) - num + 1, num):
        assert sorted(drawn[start : start + num]) == list(range(num))


@given(
    domains=st.lists(st.sampled_from("abc"), min_size=1, max_size=20),
    steps=st.lists(st.integers(0, 9), min_size=1, max_size=6),
    batch=st.integers(1, 7),
)
def test_a_batch_depends_on_seed_and_step_only(domains: list[str], steps: list[int], batch: int) -> None:
    mixture = {domain: 1.0 + i for i, domain in enumerate(sorted(set(domains)))}
    straight = BatchSampler(domains, batch, seed=3, mixture=mixture)
    expected = [straight.batch(step) for step in range(10)]
    jumping = BatchSampler(domains, batch, seed=3, mixture=mixture)
    assert [jumping.batch(step) for step in steps] == [expected[step] for step in steps]


def test_epochs_and_seeds_differ() -> None:
    sampler = BatchSampler(["x"] * 50, 50, seed=0)
    other = BatchSampler(["x"] * 50, 50, seed=1)
    assert len({tuple(s.batch(step)) for s in (sampler, other) for step in range(3)}) == 6


@given(
    shares=st.dictionaries(st.sampled_from("abcd"), st.floats(0.05, 5), min_size=1),
    count=st.integers(1, 200),
)
def test_a_mixture_holds_to_within_one_example_per_domain_at_any_time(shares: dict[str, float], count: int) -> None:
    domains = [domain for domain in "abcd" for _ in range(5)]
    sampler = BatchSampler(domains, 1, seed=0, mixture=shares)
    drawn = Counter(domains[index] for step in range(count) for index in sampler.batch(step))
    assert set(drawn) <= set(shares)
    for domain, share in shares.items():
        assert abs(drawn[domain] - count * share / sum(shares.values())) <= len(shares)


def test_a_mixture_by_hand() -> None:
    sampler = BatchSampler(["a", "b", "a", "c"], 4, seed=0, mixture={"a": 3, "b": 1})
    batch = sampler.batch(0)
    assert sorted(Counter(batch).items()) in ([(0, 2), (1, 1), (2, 1)], [(0, 1), (1, 1), (2, 2)])
    assert sampler.num_examples == 3  # "c" has no share


def test_wrong_mixtures_and_no_examples_are_refused() -> None:
    with pytest.raises(UnknownName, match=r"'sum'; did you mean 'sums'"):
        BatchSampler(["sums", "words"], 2, seed=0, mixture={"sum": 1.0})
    with pytest.raises(InputError, match="no example"):
        BatchSampler([], 2, seed=0)


@given(lengths=st.lists(st.integers(1, 30), max_size=25), budget=st.integers(1, 60))
def test_micro_batches_cover_all_once_within_the_budget(lengths: list[int], budget: int) -> None:
    plan = list(micro_batches(lengths, budget))
    assert sorted(index for batch in plan for index in batch) == list(range(len(lengths)))
    for batch in plan:
        assert sum(lengths[index] for index in batch) <= budget or len(batch) == 1
    flat = [lengths[index] for batch in plan for index in batch]
    assert flat == sorted(lengths, reverse=True)


def test_micro_batches_by_hand() -> None:
    assert list(micro_batches([3, 8, 1, 5], 9)) == [[1], [3, 0, 2]]
