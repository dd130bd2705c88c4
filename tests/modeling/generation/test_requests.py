"""Requests and replies: which rows are asked for, and where what comes back is put."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.modeling.generation.engine.requests import Request, plan_requests, to_arrays, to_samples
from components.modeling.generation.sampling_config import SamplingConfig

END = frozenset({3})
FACTS = {"pad_id": 0, "vocab_size": 10}


def reply(*responses: tuple[list[int], list[float], bool]) -> dict[str, np.ndarray]:
    return {
        "tokens": np.array([token for tokens, _, _ in responses for token in tokens], dtype=np.int32),
        "lengths": np.array([len(tokens) for tokens, _, _ in responses], dtype=np.int32),
        "logprobs": np.array([value for _, values, _ in responses for value in values], dtype=np.float32),
        "finished": np.array([finished for _, _, finished in responses], dtype=bool),
    }


def test_plans_by_hand() -> None:
    config = SamplingConfig(num_samples=2, max_new_tokens=4)
    assert plan_requests([[5, 6], [7]], config, None, END) == [
        Request((5, 6), (), (0, 1), 4),
        Request((7,), (), (2, 3), 4),
    ]
    prefixes = [[8], [8], [9, 3, 9], [1, 2, 4, 5, 6]]
    assert plan_requests([[5, 6], [7]], config, prefixes, END) == [
        Request((5, 6, 8), (8,), (0, 1), 3),
        Request((7, 9, 3), (9, 3), (2,), 0, True),
        Request((7, 1, 2, 4, 5), (1, 2, 4, 5), (3,), 0),
    ]


def test_the_wire_by_hand() -> None:
    requests = [Request((5, 6), (), (0, 1), 4), Request((7, 8), (8,), (2,), 3)]
    arrays = to_arrays(requests, torch.tensor([2**61, 5]), greedy=False)
    assert {name: (array.tolist(), array.dtype.name) for name, array in arrays.items()} == {
        "tokens": ([5, 6, 7, 8], "int32"),
        "lengths": ([2, 2], "int32"),
        "counts": ([2, 1], "int32"),
        "limits": ([4, 3], "int32"),
        "seeds": ([2**61, 5], "int64"),
    }
    assert to_arrays(requests, torch.tensor([0, 0]), greedy=True)["counts"].tolist() == [1, 1]


def test_samples_by_hand() -> None:
    """A drawn row, a forced and ended one, one that goes on behind its prefix, and one that the limit cuts."""
    config = SamplingConfig(num_samples=2, max_new_tokens=3)
    requests = plan_requests([[5], [6]], config, [[], [3], [7], [7, 8, 9]], END)
    found = reply(([4, 3], [-0.5, -1.0], True), ([1, 2], [-0.25, -2.0], False))
    samples = to_samples(requests, found, config, num_rows=4, **FACTS)
    assert samples.responses() == [[4, 3], [3], [7, 1, 2], [7, 8, 9]]
    assert samples.tokens.tolist() == [[4, 3, 0], [3, 0, 0], [7, 1, 2], [7, 8, 9]]
    assert samples.logprobs.tolist() == [[-0.5, -1.0, 0], [0, 0, 0], [0, -0.25, -2.0], [0, 0, 0]]
    assert samples.sampled.int().tolist() == [[1, 1, 0], [0, 0, 0], [0, 1, 1], [0, 0, 0]]
    assert samples.finished.tolist() == [True, True, False, False]
    assert samples.prompt_index.tolist() == [0, 0, 1, 1]


def test_greedy_rows_share_a_reply() -> None:
    config = SamplingConfig(num_samples=3, max_new_tokens=3, temperature=0.0)
    requests = plan_requests([[5], [6]], config, None, END)
    found = reply(([4, 3], [-0.5, -1.0], True), ([1, 2, 2], [-0.25, -2.0, -1.0], False))
    samples = to_samples(requests, found, config, num_rows=6, **FACTS)
    assert samples.responses() == [[4, 3]] * 3 + [[1, 2, 2]] * 3


@pytest.mark.parametrize(
    "found, message",
    [
        (reply(([4], [-0.5], False)), "1 responses where 2"),
        (reply(([4], [-0.5], False), ([1, 2, 4, 5], [-1.0] * 4, False)), "of 4 tokens, not of 1 to 3"),
        (reply(([4], [-0.5], False), ([], [], False)), "of 0 tokens"),
        (reply(([4], [-0.5], False), ([10], [-1.0], False)), "outside the vocabulary of 10"),
        (reply(([4], [float("nan")], False), ([1], [-1.0], False)), "not finite"),
        (reply(([4], [-0.5, -0.5], False), ([1], [-1.0], False)), "2 tokens|tokens in responses"),
    ],
)
def test_replies_that_do_not_fit_are_refused(found: dict[str, np.ndarray], message: str) -> None:
    config = SamplingConfig(num_samples=2, max_new_tokens=3)
    with pytest.raises(ValueError, match=message):
        to_samples(plan_requests([[5]], config, None, END), found, config, num_rows=2, **FACTS)


@given(st.integers(1, 3), st.integers(1, 5), st.data())
def test_every_row_is_in_one_request_and_no_response_is_too_long(size: int, limit: int, data: st.DataObject) -> None:
    prompts = data.draw(st.lists(st.lists(st.integers(4, 9), min_size=1, max_size=3), min_size=1, max_size=3))
    row = st.lists(st.integers(1, 9), max_size=6)
    prefixes = data.draw(st.lists(row, min_size=len(prompts) * size, max_size=len(prompts) * size))
    config = SamplingConfig(num_samples=size, max_new_tokens=limit)
    requests = plan_requests(prompts, config, prefixes, END)
    assert [row for request in requests for row in request.rows] == list(range(len(prompts) * size))
    for request in requests:
        for number in request.rows:
            prefix = prefixes[number]
            assert list(request.forced) == prefix[: len(request.forced)]
            assert request.tokens == (*prompts[number // size], *request.forced)
            whole = len(request.forced) == min(len(prefix), limit)
            assert whole or (request.forced[-1] in END and not END.intersection(request.forced[:-1]))
        assert request.limit == (0 if request.ended else limit - len(request.forced))
