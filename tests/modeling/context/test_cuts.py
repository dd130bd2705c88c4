"""Cuts of packs for ranks of a context group: every token once, as many tokens and as much attention for each."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.modeling.context.cuts import LEAST_CHUNK, cut
from components.modeling.packing.ragged import Segment
from tests.modeling.native.attention.test_flash import segments_of

lengths = st.one_of(st.integers(1, 12), st.integers(1, 300))
packs = st.lists(st.tuples(lengths, st.lists(lengths, max_size=4)), min_size=1, max_size=5)


def attended(segments: Sequence[Segment]) -> int:
    """Return how many pairs of a token and one that it attends to there are."""
    return sum(s.length * s.whole + s.length * (s.length + 1) // 2 for s in segments)


def seen(segments: list[Segment]) -> dict[int, tuple[int, ...]]:
    """Return token -> what it attends to, in the order of positions."""
    found = {}
    for segment in segments:
        prefix = range(segment.prefix_start, segment.prefix_start + segment.prefix_length)
        for token in range(segment.start, segment.start + segment.length):
            assert token not in found
            found[token] = (*prefix, *range(segment.start - segment.before, token + 1))
    return found


@settings(max_examples=80, deadline=None)
@given(packs, st.integers(1, 8), st.integers(1, 20))
def test_every_token_is_computed_once_and_attends_to_the_same(
    groups: list[tuple[int, list[int]]], ranks: int, least: int
) -> None:
    segments = segments_of(groups)
    cuts = cut(segments, ranks, least=least)
    assert len(cuts) == ranks
    parts = [part for own in cuts for part in own]
    assert seen(parts) == seen(list(segments))
    tokens = [sum(part.length for part in own) for own in cuts]
    runs = 1 + sum(tokens) // (2 * ranks * least)
    assert max(tokens) - min(tokens) <= 2 * runs
    assert all(own == sorted(own) for own in cuts)


@settings(max_examples=80, deadline=None)
@given(packs, st.integers(2, 8), st.integers(1, 4))
def test_segments_cut_by_themselves_are_equal_work(groups: list[tuple[int, list[int]]], ranks: int, least: int) -> None:
    """But for one token, and what it attends to, at each of a rank's ends of chunks."""
    segments = [segment for segment in segments_of(groups) if segment.length >= 2 * ranks * least]
    work = [attended(own) for own in cut(segments, ranks, least=least)]
    assert max(work) - min(work) <= sum(3 * segment.keys for segment in segments)
    assert sum(work) == attended(segments)


def test_by_hand() -> None:
    """Eight tokens for two ranks: chunks of two; rank 0 has the first and the last, rank 1 those between as one."""
    first, second = cut([Segment(0, 8)], 2, least=2)
    assert first == [Segment(0, 2), Segment(6, 2, 0, 0, before=6)]
    assert second == [Segment(2, 4, 0, 0, before=2)]
    assert attended(first) == 1 + 2 + 7 + 8 and attended(second) == 3 + 4 + 5 + 6


def test_a_response_after_a_shared_prompt_by_hand() -> None:
    first, second = cut([Segment(4, 4, 0, 4)], 2, least=1)
    assert first == [Segment(4, 1, 0, 4), Segment(7, 1, 0, 4, before=3)]
    assert second == [Segment(5, 2, 0, 4, before=1)]
    assert attended(first) == 5 + 8 and attended(second) == 6 + 7


def test_neighbours_of_different_sequences_stay_apart() -> None:
    (own,) = cut([Segment(0, 3), Segment(3, 2)], 1)
    assert own == [Segment(0, 3), Segment(3, 2)]


@pytest.mark.parametrize(
    ("name", "segments"),
    [
        ("one sequence of 128k", [Segment(0, 131_072)]),
        ("one of 96k among short ones", [Segment(0, 98_304), *(Segment(98_304 + i * 512, 512) for i in range(64))]),
        ("a prompt of 30k with 16 responses of 4k", segments_of([(30_000, [4096] * 16)])),
        ("short responses to long and short prompts", segments_of([(30_000, [100] * 32), (50, [100] * 300)])),
    ],
)
@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_ranks_have_equal_work(name: str, segments: list[Segment], ranks: int) -> None:
    work = [attended(own) for own in cut(segments, ranks)]
    tokens = [sum(part.length for part in own) for own in cut(segments, ranks)]
    assert max(work) / (sum(work) / ranks) < 1.02
    assert max(tokens) / (sum(tokens) / ranks) < 1.01


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_drawn_lengths_are_equal_work(ranks: int) -> None:
    """Log-normal lengths of long reasoning, packed to 64k: as such packs are, longest first."""
    draw = random.Random(0)
    for _ in range(20):
        drawn = sorted((min(32_768, max(16, int(draw.lognormvariate(8, 1.2)))) for _ in range(12)), reverse=True)
        segments = segments_of([(length, []) for length in drawn])
        work = [attended(own) for own in cut(segments, ranks)]
        assert max(work) / (sum(work) / ranks) < 1.02


def test_short_sequences_are_not_cut_into_crumbs() -> None:
    segments = segments_of([(40, []) for _ in range(100)])
    parts = [part for own in cut(segments, 4) for part in own]
    assert len(parts) <= len(segments) + 7  # one more for each border between chunks
    assert min(segment.length for segment in segments) < 2 * 4 * LEAST_CHUNK


def test_ranks_without_tokens_have_no_part() -> None:
    cuts = cut([Segment(0, 2)], 4)
    assert sorted(map(len, cuts)) == [0, 0, 1, 1]
    assert sum(part.length for own in cuts for part in own) == 2
