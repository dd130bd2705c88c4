"""Truncation and drawing by inverse CDF."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from components.modeling.generation.sampling import draw, exact_running_sum, truncate
from components.modeling.generation.sampling_config import SamplingConfig


def test_truncation_by_hand() -> None:
    logits = torch.tensor([[0.5, 0.25, 0.15, 0.1]]).log()
    inf = float("-inf")

    def kept(**settings: float) -> list[bool]:
        return (truncate(logits, SamplingConfig(**settings)) > inf).squeeze(0).tolist()

    assert kept(top_k=2) == [True, True, False, False]
    assert kept(top_p=0.5) == [True, False, False, False]
    assert kept(top_p=0.51) == [True, True, False, False]
    assert kept(top_p=0.01) == [True, False, False, False]
    assert kept(top_k=3, top_p=0.9) == [True, True, True, False]
    halved = truncate(logits, SamplingConfig(temperature=0.5))
    torch.testing.assert_close(halved, logits * 2)


@given(
    st.lists(st.floats(-30, 5) | st.just(float("-inf")), min_size=2, max_size=9),
    st.floats(0, 1, exclude_max=True),
)
def test_draw_never_picks_an_impossible_token(logits: list[float], uniform: float) -> None:
    logits[len(logits) // 2] = 0.0
    logprobs = torch.log_softmax(torch.tensor([logits]), -1)
    for point in (uniform, 0.0, 1.0 - 2.0**-53):
        (token,) = draw(logprobs.exp(), torch.tensor([point], dtype=torch.float64)).tolist()
        assert logprobs[0, token].exp() > 0


def test_draw_by_hand() -> None:
    probabilities = torch.tensor([[0.25, 0.0, 0.75]]).expand(4, 3)
    uniforms = torch.tensor([0.0, 0.2499, 0.2501, 0.9999], dtype=torch.float64)
    assert draw(probabilities, uniforms).tolist() == [0, 0, 2, 2]


def test_running_sums_of_whole_numbers_are_those_of_float64() -> None:
    """What a deterministic GPU draws by: the same in any order, and the same tokens but within 2^-52 of a border."""
    generator = torch.Generator().manual_seed(0)
    probabilities = (torch.randn(16, 1000, generator=generator) * 3).softmax(-1)
    exact = exact_running_sum(probabilities)
    torch.testing.assert_close(exact, probabilities.cumsum(-1, dtype=torch.float64), atol=1000 * 2.0**-52, rtol=0)
    order = torch.randperm(1000, generator=generator)
    assert torch.equal(exact_running_sum(probabilities[:, order])[:, -1], exact[:, -1])
    assert bool((exact.diff(dim=-1) >= 0).all())
    assert exact_running_sum(torch.tensor([[0.5, 0.25, 0.25]])).tolist() == [[0.5, 0.75, 1.0]]
