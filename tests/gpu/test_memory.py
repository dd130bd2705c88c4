"""The peak of a training's memory is within 15 % of what `posttrain plan` says."""

from __future__ import annotations

import pytest

from tests.gpu.device import ON_GPU
from tests.gpu.training_memory import CLOSE_TO_ESTIMATE, compare

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("way", ["torch", "recompute", "lora"])
def test_the_peak_is_near_its_estimate(way: str) -> None:
    found = compare(way)
    assert found["estimate"] > 0 and len(found["losses"]) == 3
    if not ON_GPU:
        pytest.skip("it trained; how much memory its tensors took, only a GPU counts")
    assert found["peak"] == pytest.approx(found["estimate"], rel=CLOSE_TO_ESTIMATE), found["parts"]
