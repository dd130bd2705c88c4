"""Which library multiplies on this kind of CPU: measured once for each user, and the default without a clear margin.

The products of today's CPUs differ by up to 2.3 times, either way: oneDNN wins on AMD processors with AVX-512, where
MKL stays on AVX2; MKL wins on those without it, and on Intel's. What is kept is one file for each processor, number of
threads, version of torch and of this measurement. The first to write it decides for all, so that stages of one run
agree. A container's files end with it: in Kubernetes the default counts, unless POSTTRAIN_PRODUCTS is set.
"""

from __future__ import annotations

import hashlib
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from components.contract.errors import InputError, PosttrainError, did_you_mean
from components.modeling.native.ops import ONEDNN, matmul_transposed
from components.modeling.native.products import OneDnnProduct, mkl_product
from components.runtime.store.access import local_cache
from components.runtime.store.directory import DirectoryBlobs
from components.runtime.store.records import seal, unseal
from components.runtime.system import products
from components.runtime.system.machine import processor
from components.runtime.system.products import DEFAULT, MKL, Products

PRODUCTS = "POSTTRAIN_PRODUCTS"
GIVEN = {"onednn": DEFAULT, "mkl": Products(MKL, MKL)}
MEASURE = "measure"
IN_KUBERNETES = "KUBERNETES_SERVICE_HOST"
FOLDER, VERSION = "products", 1
MARGIN = 1.15
"""How many times as fast MKL has to be to be chosen. Repeated measurements differ by about .03, under load too."""
ROUNDS = 15
SHAPES = ((384, 128), (128, 128), (768, 128), (128, 384))
"""Weights of a small model's layer, [O, K]: what costs most where everything runs on a CPU."""
DECODED_ROWS = (64, 256, 512)
TRAINED_ROWS = 2048

Work = Callable[[], object]


def choose(environ: Mapping[str, str] = os.environ) -> None:
    """Set the libraries of this process; models call it when they are loaded.

    Raises InputError for a variable POSTTRAIN_PRODUCTS that names none.
    """
    if products.is_pinned():
        return
    given = environ.get(PRODUCTS) or MEASURE
    if given != MEASURE and given not in GIVEN:
        raise InputError(f"{PRODUCTS} is {given!r}; set {MEASURE}, {', '.join(GIVEN)}{did_you_mean(given, GIVEN)}")
    if given in GIVEN:
        products.use(GIVEN[given] if can_choose() else DEFAULT)
    elif can_choose() and not environ.get(IN_KUBERNETES):
        products.use(_kept())
    else:
        products.use(DEFAULT)


def can_choose() -> bool:
    """Return whether torch has both libraries."""
    return ONEDNN is not None and torch.backends.mkl.is_available()


_known: dict[str, Products] = {}


def _kept() -> Products:
    """Return the choice for this kind of machine: what a file says, or what is measured now and kept there."""
    about = {
        "processor": processor(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "capability": torch.backends.cpu.get_cpu_capability(),
        "version": VERSION,
    }
    name = hashlib.sha256(repr(sorted(about.items())).encode()).hexdigest()[:16] + ".json"
    if name not in _known:
        _known[name] = DEFAULT  # where nothing can be kept, nothing is chosen: the next process might choose otherwise
        with suppress(PosttrainError, OSError, RuntimeError, KeyError, TypeError):  # no home folder is a RuntimeError
            _known[name] = Products(**_read_or_measure(name, about)["chosen"])
    return _known[name]


def _read_or_measure(name: str, about: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the file says; one that is missing or damaged is written first."""
    files = DirectoryBlobs(local_cache() / FOLDER)
    kept = files.read(name)
    if kept is None:
        files.create(name, seal({**about, **measured()}))
    elif unseal(kept) is None:
        files.write(name, seal({**about, **measured()}))
    return unseal(files.read(name) or b"") or {}


def measured() -> dict[str, Any]:
    """Return the choice and what it rests on: oneDNN's time over MKL's in each kind of work.

    Takes about 1.5 s of CPU time. Both take turns, on the CPU's clock, so that other processes disturb both.
    """
    ratios = {"sampling": _ratio(_decoding), "training": _ratio(_training)}
    return {
        "chosen": {kind: MKL if ratio >= MARGIN else products.ONEDNN for kind, ratio in ratios.items()},
        "times as fast": {kind: round(ratio, 3) for kind, ratio in ratios.items()},
    }


def _ratio(work_by: Callable[[str], Sequence[Work]]) -> float:
    """Return oneDNN's time over MKL's, the median of all rounds."""
    before = products.in_use()
    try:
        with torch.inference_mode():
            default, other = (work_by(library) for library in (products.ONEDNN, MKL))
            for work in (*default, *other):
                work()
            return statistics.median(_seconds(default) / _seconds(other) for _ in range(ROUNDS))
    finally:
        products.use(before)


def _seconds(works: Sequence[Work]) -> float:
    started = time.process_time()
    for work in works:
        work()
    return time.process_time() - started


def _weights() -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator) for shape in SHAPES]


def _decoding(library: str) -> list[Work]:
    """Return the products of steps of decoding: as many rows in all by few at a time as by many."""
    one: Callable[[Tensor], Any] = OneDnnProduct if library == products.ONEDNN else mkl_product
    kinds = [one(weight) for weight in _weights()]
    steps = [rows for rows in DECODED_ROWS for _ in range(DECODED_ROWS[-1] // rows)]
    inputs = [[torch.ones(rows, shape[1]) for shape in SHAPES] for rows in steps]
    return [lambda product=product, x=x: product(x) for row in inputs for product, x in zip(kinds, row, strict=True)]


def _training(library: str) -> list[Work]:
    """Return the products of a training pass: forward, and two backward."""

    def work(weight: Tensor) -> None:
        products.use(Products(training=library))
        x, grad = torch.ones(TRAINED_ROWS, weight.shape[1]), torch.ones(TRAINED_ROWS, weight.shape[0])
        matmul_transposed(x, weight)
        matmul_transposed(grad, weight.t())
        matmul_transposed(grad.t(), x.t())

    return [lambda weight=weight: work(weight) for weight in _weights()]
