"""No kernel makes a tensor of every query and key: sizes of both passes over up to 32k tokens, without data."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from components.modeling.native.attention import attend
from components.modeling.packing.attention_plan import AttentionPlan
from tests.modeling.native.attention.test_flash import segments_of

HEADS, KV_HEADS, WIDTH = 4, 2, 64


class Largest(TorchDispatchMode):
    """Remembers the bytes of the largest tensor that any operator made."""

    def __init__(self) -> None:
        super().__init__()
        self.num_bytes = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = function(*args, **(kwargs or {}))
        sizes = [leaf.untyped_storage().nbytes() for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor)]
        self.num_bytes = max(self.num_bytes, *sizes, 0)
        return out


@pytest.mark.parametrize(
    ("kernel", "window", "limit", "groups"),
    [
        ("flash", None, None, [(16_384, [4096] * 4)]),
        ("flash", 4096, None, [(16_384, [4096] * 4)]),
        ("padded", None, None, [(16_384, [4096] * 4)]),
        ("padded", 4096, None, [(16_384, [4096])]),
        ("padded", None, None, [(32_768, [])]),
        ("padded", 4096, 50.0, [(8192, [])]),
    ],
)
def test_memory_grows_with_the_tokens(
    kernel: str, window: int | None, limit: float | None, groups: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attend, "choose", lambda *_: kernel)
    plan = AttentionPlan(segments_of(groups), torch.device("cpu"))
    plan.calls(window), plan.buckets  # built of real numbers
    with FakeTensorMode(allow_non_fake_inputs=True), Largest() as largest:
        qkv = torch.empty(plan.num_tokens, (HEADS + 2 * KV_HEADS) * WIDTH, requires_grad=True)
        attend.attend(qkv, plan, HEADS, KV_HEADS, window, limit).sum().backward()
    projections = plan.num_tokens * (HEADS + 2 * KV_HEADS) * WIDTH * 4
    pairs = max(segment.length * (segment.length + segment.prefix_length) for segment in plan.segments)
    assert projections <= largest.num_bytes <= max(2.5 * projections, 1.3 * 4 * (1 << 24))
    assert largest.num_bytes < 4 * pairs / 2


def test_the_ruler_sees_a_dense_mask() -> None:
    with FakeTensorMode(), Largest() as largest:
        query = torch.empty(1, 1, 4096, 8)
        mask = torch.ones(4096, 4096, dtype=torch.bool).tril()
        torch.nn.functional.scaled_dot_product_attention(query, query, query, attn_mask=mask)
    assert largest.num_bytes >= 4096 * 4096
