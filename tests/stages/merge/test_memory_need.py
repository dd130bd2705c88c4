"""What low_rank holds of a matrix, and what the stage asks for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from components.contract.job import Resources
from components.contract.operators import OperatorSpec
from components.merge.agreement import weights_of
from components.merge.component import COMPONENT, memory
from components.merge.slots import MERGER
from components.merge.stack import Family
from components.modeling.models.model_sizes import ModelSizes
from tests.stages.merge.folders import tensors, write_model


@pytest.mark.parametrize("shape", [(4, 9), (9, 4)])
def test_a_matrix_is_in_float64_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shape: tuple[int, int]) -> None:
    made: list[Tensor] = []
    double = Tensor.double

    def counted(self: Tensor) -> Tensor:
        made.append(double(self))
        return made[-1]

    monkeypatch.setattr(Tensor, "double", counted)
    model, base = (weights_of(write_model(tmp_path / str(seed), tensors(seed, w=shape))) for seed in (0, 1))
    stack = next(Family([model], base).stacks())
    OperatorSpec.model_validate({"name": "low_rank", "rank": 2}).resolve(MERGER)(stack)
    assert [one.numel() for one in made] == [36]


@pytest.mark.parametrize(("heads", "mlp", "wide"), [(4, 300, 300), (10, 300, 640)])
def test_the_widest_matrix_is_asked_for_in_float32_and_in_float64(heads: int, mlp: int, wide: int) -> None:
    """Which is that of the MLP, or of the heads."""
    sizes = ModelSizes(vocab=100, width=64, layers=2, heads=heads, kv_heads=1, head_width=64, mlp_width=mlp, tied=True)
    params: Any = COMPONENT.params.model_validate({"merger": "low_rank"})
    (need,) = [one for one in memory(params, sizes, Resources()).needs if one.name == "products of a matrix"]
    assert need.size == 12 * 64 * wide + 5 * 8 * 64**2
