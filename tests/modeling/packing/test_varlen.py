"""Which rows a varlen kernel reads, by hand."""

from __future__ import annotations

import torch

from components.modeling.packing.ragged import Segment
from components.modeling.packing.varlen import plan_calls

CPU = torch.device("cpu")
# a prompt of 4 with responses of 2 and 3, then a prompt of 2 with one of 1, then a sequence of 5
PACK = (Segment(0, 4), Segment(4, 2, 0, 4), Segment(6, 3, 0, 4), Segment(9, 2), Segment(11, 1, 9, 2), Segment(12, 5))


def test_prefixes_by_hand() -> None:
    own, shared = plan_calls(PACK, None, CPU)
    assert (own.queries, own.keys, own.causal, own.left) == (None, None, True, -1)
    assert own.query_starts.tolist() == own.key_starts.tolist() == [0, 4, 6, 9, 11, 12, 17]
    assert own.query_starts.dtype == torch.int32
    assert (own.most_queries, own.most_keys) == (5, 5)
    assert shared.queries.tolist() == [4, 5, 6, 7, 8, 11]
    assert shared.keys.tolist() == [0, 1, 2, 3, 9, 10]
    assert (shared.query_starts.tolist(), shared.key_starts.tolist()) == ([0, 5, 6], [0, 4, 6])
    assert (shared.most_queries, shared.most_keys, shared.causal, shared.left) == (5, 4, False, -1)


def test_a_window_copies_only_what_it_reaches() -> None:
    (call,) = plan_calls(PACK, 3, CPU)
    assert call.queries is None
    assert call.query_starts.tolist() == [0, 4, 6, 9, 11, 12, 17]
    assert call.keys.tolist() == [0, 1, 2, 3, *(2, 3, 4, 5), *(2, 3, 6, 7, 8), 9, 10, *(9, 10, 11), *range(12, 17)]
    assert call.key_starts.tolist() == [0, 4, 8, 13, 15, 18, 23]
    assert (call.most_keys, call.causal, call.left) == (5, True, 2)


def test_without_prefixes_nothing_is_copied() -> None:
    plain = (Segment(0, 3), Segment(3, 1))
    (call,) = plan_calls(plain, 2, CPU)
    assert (call.queries, call.keys, call.left) == (None, None, 1)
    (call,) = plan_calls((Segment(0, 1), Segment(1, 1)), None, CPU)
    assert call.most_queries == 2  # at 1 the kernel would swap heads and queries


def test_a_prompt_shared_by_many_long_responses_stays_one_copy() -> None:
    """32k tokens of context and 16 responses: keys grow by the prompt, not by 16 prompts."""
    prompt, response = 32_768, 512
    segments = (
        Segment(0, prompt),
        *(Segment(prompt + i * response, response, 0, prompt) for i in range(16)),
    )
    own, shared = plan_calls(segments, None, CPU)
    assert own.keys is None
    assert shared.keys.numel() == prompt
    assert shared.queries.numel() == 16 * response
