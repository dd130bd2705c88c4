"""Flex attention, as plain torch on a CPU and compiled there, against padded buckets."""

from __future__ import annotations

import pytest
import torch

from components.modeling.native.attention import attend, flex
from components.modeling.native.attention.padded import attend_padded
from components.modeling.packing.attention_plan import AttentionPlan
from tests.modeling.native.attention.test_flash import segments_of

CPU = torch.device("cpu")
PACK = segments_of([(40, [9, 200]), (130, [1, 70, 30]), (5, [])])


def inputs(heads: int, kv_heads: int, width: int, num_tokens: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn((num_tokens, h, width), generator=generator) for h in (heads, kv_heads, kv_heads)]


@pytest.mark.parametrize("window", [None, 20, 150])
@pytest.mark.parametrize("limit", [None, 2.0])
def test_plain_flex_equals_buckets(window: int | None, limit: float | None) -> None:
    plan = AttentionPlan(PACK, CPU)
    given = inputs(4, 2, 16, plan.num_tokens)
    expected = attend_padded(*given, plan.buckets, window, limit)
    ours = flex.attend_flex(*given, plan.blocks(window), limit, compiled=False)
    torch.testing.assert_close(ours, expected, atol=2e-6, rtol=1e-5)


def test_a_toolchain_that_does_not_compile_means_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine has no GPU: trying the kernel fails, says so once, and attention goes on."""
    if torch.cuda.is_available():
        pytest.skip("a GPU compiles it")
    flex.compiles.cache_clear()
    with pytest.warns(UserWarning, match="flex attention does not compile here"):
        assert not flex.compiles(torch.float32, 4, 2, 16, None)
    assert not flex.compiles(torch.float32, 4, 2, 16, None)
    flex.compiles.cache_clear()


class _OnGpu:
    """Projections as they would be on a GPU, for the choice alone."""

    def __init__(self, dtype: torch.dtype, features: int) -> None:
        self.device, self.dtype, self.shape = torch.device("cuda"), dtype, (4096, features)


@pytest.mark.parametrize(
    ("dtype", "width", "limit", "tokens", "expected"),
    [
        (torch.bfloat16, 64, None, 10, "flash"),
        (torch.float16, 128, None, 4096, "flash"),
        (torch.bfloat16, 256, 50.0, 4096, "flex"),
        (torch.bfloat16, 256, 50.0, 100, "padded"),
        (torch.bfloat16, 20, None, 4096, "flex"),
        (torch.bfloat16, 320, None, 4096, "flex"),
        (torch.float32, 64, None, 4096, "flex"),
        (torch.float32, 64, None, 100, "padded"),
        (torch.float64, 64, None, 4096, "padded"),
    ],
)
def test_the_kernel_fits_what_there_is(
    dtype: torch.dtype, width: int, limit: float | None, tokens: int, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attend, "_has_flash", lambda device: True)
    monkeypatch.setattr(attend, "has_triton", lambda: True)
    monkeypatch.setattr(flex, "compiles", lambda *_: True)
    plan = AttentionPlan(segments_of([(tokens, [])]), CPU)
    assert attend.choose(_OnGpu(dtype, 8 * width), plan, 4, 2, limit) == expected
    monkeypatch.setattr(attend, "_has_flash", lambda device: False)
    monkeypatch.setattr(attend, "has_triton", lambda: False)
    assert attend.choose(_OnGpu(dtype, 8 * width), plan, 4, 2, limit) == "padded"
