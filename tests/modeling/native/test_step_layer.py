"""Layers prepared for generation against the layers themselves; products by either library."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from components.modeling.loading.load import load_policy
from components.modeling.native import ops, products, step_layer
from components.modeling.native.native_policy import NativePolicy
from components.modeling.native.ops import matmul_transposed
from components.modeling.native.product_choice import GIVEN, PRODUCTS
from components.modeling.native.step_layer import StepDecoder
from components.runtime.system.products import in_use, use
from tests.modeling import decoder_models as models

ROWS = 7


@pytest.fixture(params=["oneDNN", "default BLAS", "MKL, transposed", "MKL, packed"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Send all products one way."""
    for module in (ops, products):
        monkeypatch.setattr(module, "FEW_PRODUCTS", 0 if request.param == "oneDNN" else 1 << 40)
    monkeypatch.setattr(products, "WIDEST_TRANSPOSED", 0 if request.param == "MKL, packed" else 1 << 40)
    before = in_use()
    use(GIVEN["mkl" if request.param.startswith("MKL") else "onednn"])
    monkeypatch.setenv(PRODUCTS, "mkl" if request.param.startswith("MKL") else "onednn")  # for models loaded later
    yield
    use(before)


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("kind", models.NATIVE)
def test_prepared_layers_do_what_layers_do(kind: str, tmp_path: Path) -> None:
    models.save(kind, tmp_path)
    policy = load_policy(tmp_path)
    assert isinstance(policy, NativePolicy)
    decoder = policy.module
    if not StepDecoder.serves(decoder):
        assert decoder.config.post_norms
        return
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(ROWS, decoder.config.width, generator=generator)
    turns = decoder.turns(torch.arange(ROWS), ROWS)[0]
    with torch.inference_mode():
        prepared = StepDecoder(decoder)
        for layer, own in zip(decoder.layers, prepared.layers, strict=True):
            qkv = layer.project(x, turns)
            torch.testing.assert_close(own.project(x, turns), qkv, atol=1e-5, rtol=1e-5)
            attended = qkv[:, : layer.heads_out].contiguous()
            after = layer.finish(x, attended)
            torch.testing.assert_close(own.finish(x.clone(), attended), after, atol=1e-5, rtol=1e-5)
            x = after
        expected = policy.logits(ops.rms_norm(x, decoder.norm, decoder.config.norm_eps))
        torch.testing.assert_close(prepared.logits(x), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.usefixtures("library")
def test_products_are_those_of_float64() -> None:
    generator = torch.Generator().manual_seed(0)
    x, weight = torch.randn(5, 12, generator=generator), torch.randn(9, 12, generator=generator)
    expected = (x.double() @ weight.double().t()).float()
    torch.testing.assert_close(matmul_transposed(x, weight), expected)
    times, total = products.product(weight), torch.ones(5, 9)
    torch.testing.assert_close(times(x, torch.full((9,), 2.0)), expected + 2)
    torch.testing.assert_close(times.add_to(total, x), expected + 1)
    # rows that have ended leave: what is packed for one number of rows is packed again
    torch.testing.assert_close(times(x[:3]), expected[:3])
    gain = torch.rand(12, generator=generator)
    scaled = ((x * gain).double() @ weight[:8].double().t()).float()
    gate, up = scaled.chunk(2, -1)
    gated = products.gated_product(weight[:8], gain)
    torch.testing.assert_close(gated(x), torch.nn.functional.silu(gate) * up)


def test_a_norm_of_zeros_is_zero() -> None:
    norm = step_layer.UnitNorm(4, 1e-6)
    assert norm(torch.zeros(1, 4)).tolist() == [[0.0] * 4]
    # rms of (2, 2, 2, 2) is 2; the unit is short of the gain of 2
    torch.testing.assert_close(norm(torch.full((1, 4), 2.0)) * norm.gain, torch.ones(1, 4), atol=1e-6, rtol=0)


def test_what_is_large_or_not_float32_is_left_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    models.save("llama", tmp_path)
    policy = load_policy(tmp_path)
    assert isinstance(policy, NativePolicy)
    assert StepDecoder.serves(policy.module)
    assert not StepDecoder.serves(policy.module.to(torch.bfloat16))
    monkeypatch.setattr(step_layer, "MOST_BYTES", 1000)
    monkeypatch.setattr(step_layer, "MOST_BYTES_MKL", 1000)
    assert not StepDecoder.serves(policy.module.to(torch.float32))
