"""oneDNN against MKL on this CPU, at the shapes of a small model: a line for the table of product_choice.py.

Run as a script for JSON: `python -m tests.benchmarks.bench_products --threads 2`. Both take turns, on the CPU's clock,
so that other processes disturb both; the ratio is the median of all rounds. MKL is proposed from 1.15 times as fast.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from components.modeling.native.ops import matmul_transposed
from components.modeling.native.products import OneDnnProduct, mkl_product
from components.runtime.system import products
from components.runtime.system.machine import processor, vendor
from components.runtime.system.products import MKL, ONEDNN, Products
from tests.benchmarks.script import run_script

MARGIN = 1.15
SHAPES = ((384, 128), (128, 128), (768, 128), (128, 384))
"""Weights of a small model's layer, [O, K]: what costs most where everything runs on a CPU."""
DECODED_ROWS = (64, 256, 512)
TRAINED_ROWS = 2048

Work = Callable[[], object]


def compare(*, threads: int, rounds: int) -> dict[str, Any]:
    """Return oneDNN's time over MKL's in each kind of work, and the line that they propose."""
    torch.set_num_threads(threads)
    ratios = {"sampling": ratio(decoding, rounds), "training": ratio(training, rounds)}
    chosen = Products(**{kind: MKL if value >= MARGIN else ONEDNN for kind, value in ratios.items()})
    key = (vendor(), torch.backends.cpu.get_cpu_capability())
    return {
        "processor": processor(),
        "threads": threads,
        "torch": torch.__version__,
        "times_as_fast": {kind: round(value, 3) for kind, value in ratios.items()},
        "line": f"{key}: {chosen},",
    }


def ratio(work_by: Callable[[str], Sequence[Work]], rounds: int) -> float:
    """Return oneDNN's time over MKL's."""
    with torch.inference_mode():
        default, other = (work_by(library) for library in (ONEDNN, MKL))
        for work in (*default, *other):
            work()
        return statistics.median(seconds(default) / seconds(other) for _ in range(rounds))


def seconds(works: Sequence[Work]) -> float:
    """Return the CPU seconds of one round."""
    started = time.process_time()
    for work in works:
        work()
    return time.process_time() - started


def weights() -> list[Tensor]:
    """Return the layer's weights."""
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator) for shape in SHAPES]


def decoding(library: str) -> list[Work]:
    """Return the products of steps of decoding: as many rows in all by few at a time as by many."""
    one: Callable[[Tensor], Any] = OneDnnProduct if library == ONEDNN else mkl_product
    kinds = [one(weight) for weight in weights()]
    steps = [rows for rows in DECODED_ROWS for _ in range(DECODED_ROWS[-1] // rows)]
    inputs = [[torch.ones(rows, shape[1]) for shape in SHAPES] for rows in steps]
    return [lambda product=product, x=x: product(x) for row in inputs for product, x in zip(kinds, row, strict=True)]


def training(library: str) -> list[Work]:
    """Return the products of a training pass: forward, and two backward."""

    def work(weight: Tensor) -> None:
        products.use(Products(training=library))
        x, grad = torch.ones(TRAINED_ROWS, weight.shape[1]), torch.ones(TRAINED_ROWS, weight.shape[0])
        matmul_transposed(x, weight)
        matmul_transposed(grad, weight.t())
        matmul_transposed(grad.t(), x.t())

    return [lambda weight=weight: work(weight) for weight in weights()]


if __name__ == "__main__":
    run_script(__doc__, compare, threads=1, rounds=15)
