"""The flash kernel's preparation: any pack, window and prefix gives what plain masks give, and no layer waits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from components.modeling.loading.load import new_policy
from components.modeling.models.model_config import ModelConfig
from components.modeling.native.attention import attend, flash
from components.modeling.native.attention.padded import attend_padded
from components.modeling.packing.attention_plan import AttentionPlan
from components.modeling.packing.packed import Packed
from components.modeling.packing.ragged import Segment
from tests.modeling.native.attention import kernels

HEADS, KV_HEADS, WIDTH = 4, 2, 8
CPU = torch.device("cpu")

packs = st.lists(st.tuples(st.integers(1, 9), st.lists(st.integers(1, 12), max_size=4)), min_size=1, max_size=4)


def segments_of(groups: list[tuple[int, list[int]]]) -> tuple[Segment, ...]:
    """Return segments of prompts, each followed by its responses."""
    found, at = [], 0
    for prompt, responses in groups:
        start = at
        found.append(Segment(at, prompt))
        at += prompt
        for response in responses:
            found.append(Segment(at, response, start, prompt))
            at += response
    return tuple(found)


@pytest.fixture(scope="module", autouse=True)
def reference() -> Iterator[None]:
    """A plain kernel in place of the one that only a GPU has."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flash, "kernel_forward", kernels.forward)
        patch.setattr(flash, "kernel_backward", kernels.backward)
        yield


def drawn(plan: AttentionPlan) -> Tensor:
    generator = torch.Generator().manual_seed(plan.num_tokens)
    shape = (plan.num_tokens, (HEADS + 2 * KV_HEADS) * WIDTH)
    return torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True)


def by_masks(qkv: Tensor, plan: AttentionPlan, window: int | None) -> Tensor:
    query, key, value = qkv.unflatten(1, (-1, WIDTH)).split((HEADS, KV_HEADS, KV_HEADS), dim=1)
    return attend_padded(query, key, value, plan.buckets, window, None)


@settings(max_examples=60, deadline=None)
@given(packs, st.sampled_from([None, 1, 2, 3, 5, 8]))
def test_any_pack_equals_plain_masks(groups: list[tuple[int, list[int]]], window: int | None) -> None:
    plan = AttentionPlan(segments_of(groups), CPU)
    qkv = drawn(plan)
    results = []
    for out in (flash.attend_flash(qkv, plan.calls(window), HEADS, KV_HEADS), by_masks(qkv, plan, window)):
        weights = torch.linspace(-1, 2, out.numel(), dtype=out.dtype).view_as(out)
        results.append((out, torch.autograd.grad((out * weights).sum(), qkv)[0]))
    for one, two in zip(*results, strict=True):
        torch.testing.assert_close(one, two, atol=1e-11, rtol=1e-11)


def test_prefixes_that_are_far_apart_or_used_again() -> None:
    """Families are found by their prefix, wherever in the pack their segments lie."""
    segments = (Segment(0, 4), Segment(4, 3), Segment(7, 2, 0, 4), Segment(9, 2, 4, 3), Segment(11, 5, 0, 4))
    plan = AttentionPlan(segments, CPU)
    qkv = drawn(plan)
    ours = flash.attend_flash(qkv, plan.calls(None), HEADS, KV_HEADS)
    torch.testing.assert_close(ours, by_masks(qkv, plan, None), atol=1e-12, rtol=1e-12)
    assert plan.calls(None)[1].queries.tolist() == [7, 8, 11, 12, 13, 14, 15, 9, 10]


def test_copies_of_a_prefix_are_summed_in_float32() -> None:
    """256 equal gradients of 1 are 256, which bfloat16 does not reach by adding 1 again and again beyond its steps."""
    total = flash._whole(
        torch.full((600, 1, 1), 1.0, dtype=torch.bfloat16), torch.zeros(600, dtype=torch.long), torch.empty(1, 1, 1)
    )
    assert total.dtype == torch.bfloat16
    assert total.item() == 600


class Waits(TorchDispatchMode):
    """Records every operator that would wait for a GPU, or gather by booleans."""

    NAMES = ("nonzero", "item", "_local_scalar_dense", "masked_select", "index", "index_put", "unique", "_to_copy")

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.seen: set[str] = set()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = function.overloadpacket.__name__.rstrip("_")
        self.seen.add(name)
        if name in self.NAMES or name.startswith(("_index_put", "unique", "masked_select", "nonzero")):
            self.found.append(name)
        return function(*args, **(kwargs or {}))


@contextmanager
def unseen() -> Iterator[None]:
    """Hide the plain kernel, which the GPU does not run."""
    with torch.utils._python_dispatch._disable_current_modes():
        yield


@pytest.mark.parametrize("kernel", ["flash", "padded"])
@pytest.mark.parametrize("window", [None, 4])
def test_no_layer_waits_for_the_device(kernel: str, window: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    def hidden(function: Any) -> Any:
        def call(*args: Any) -> Any:
            with unseen():
                return function(*args)

        return call

    monkeypatch.setattr(attend, "choose", lambda *_: kernel)
    monkeypatch.setattr(flash, "kernel_forward", hidden(kernels.forward))
    monkeypatch.setattr(flash, "kernel_backward", hidden(kernels.backward))
    policy = new_policy(ModelConfig(vocab_size=16, width=32, heads=4, kv_heads=2, mlp_width=16), tokenizer=None, seed=0)
    layer = policy.module.layers[0]
    layer.window = window
    packed = Packed.from_groups([[1, 2, 3], [4]], [[[5, 6, 7], [8, 9]], [[9, 10, 11, 12, 13]]], keep_last=True)
    turns = policy.module.turns(packed.positions, packed.attention.widest)[0]
    x = torch.randn(packed.num_tokens, 32, requires_grad=True)
    layer(x, turns, plan=packed.attention).sum().backward()  # plans are built
    with Waits() as waits:
        layer(x, turns, plan=packed.attention).sum().backward()
    assert waits.found == []
    assert {"mm", "silu"} <= waits.seen  # both passes were watched


def test_the_watch_sees_what_waits() -> None:
    tensor = torch.arange(4.0)
    with Waits() as waits:
        tensor[tensor > 1]
        tensor.index_put((torch.tensor([0, 0]),), torch.ones(2), accumulate=True)
        int(tensor.max())
        tensor.to(torch.float64)
    assert set(waits.found) == {"index", "index_put", "_local_scalar_dense", "_to_copy"}
