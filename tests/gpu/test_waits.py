"""No layer makes the host wait for the GPU, forward or backward: torch's synchronisation debug mode counts none."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

from components.modeling.packing.packed import Packed
from tests.gpu.device import DEVICE, ON_GPU, sized
from tests.gpu.models import qwen, random_policy, token_rows

pytestmark = pytest.mark.gpu

VOCABULARY = 400


@contextmanager
def waits(mode: str) -> Iterator[list[str]]:
    """Collect what waits for the GPU; with mode "error" the first one raises. On a CPU nothing does."""
    found: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if ON_GPU:
            torch.cuda.set_sync_debug_mode(mode)
        try:
            yield found
        finally:
            if ON_GPU:
                torch.cuda.set_sync_debug_mode("default")
    found += [str(one.message) for one in caught if "synchroniz" in str(one.message)]


def packs() -> dict[str, Packed]:
    """Return packs of sequences and of groups."""
    prompts = token_rows(sized([200, 50], [5, 3]), VOCABULARY)
    answers = [token_rows(sized([300, 40, 120], [6, 2, 4]), VOCABULARY, seed=at) for at in range(2)]
    return {
        "sequences": Packed.from_sequences(token_rows(sized([700, 300, 64], [9, 4, 6]), VOCABULARY), DEVICE),
        "groups": Packed.from_groups(prompts, answers, DEVICE),
    }


def rehearsed() -> None:
    if not ON_GPU:
        pytest.skip("it computed; what waits for a device, only a GPU counts")


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("kind", ["sequences", "groups"])
def test_layers_wait_for_nothing(kind: str, dtype: str) -> None:
    decoder, packed = random_policy(qwen("0.5B", layers=3), dtype=dtype).module, packs()[kind]
    turns = decoder.turns(packed.positions, packed.attention.widest)
    for mode in ("default", "error"):  # the first pass builds plans, and compiles
        x = decoder.embed(packed.tokens)
        with waits(mode):
            for layer, turn in zip(decoder.layers, turns, strict=True):
                x = layer(x, turn, plan=packed.attention)
            x.backward(torch.ones_like(x))
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in decoder.layers.parameters())
    rehearsed()


@pytest.mark.parametrize("kind", ["sequences", "groups"])
def test_more_layers_wait_no_more_often(kind: str) -> None:
    """A whole pass, from tokens to gradients: what waits is outside of layers."""
    counts = []
    for layers in (2, 6):
        policy = random_policy(qwen("0.5B", layers=layers))
        for mode in ("default", "warn"):
            packed = packs()[kind]
            with waits(mode) as found:
                policy.target_logprobs(packed).logprobs.sum().backward()
        counts.append(len(found))
    assert counts[0] == counts[1] <= 8, found
    rehearsed()
