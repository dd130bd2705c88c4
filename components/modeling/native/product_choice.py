"""The library that multiplies on this kind of CPU, by a table: no measurement, load or cache of a user decides bytes.

Products of the two libraries differ in their last digits. So the choice follows from what the processor is, the same in
a pod and out of it. A row comes from `python -m tests.benchmarks.bench_products`, run on such a processor.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import torch

from components.contract.errors import InputError, did_you_mean
from components.modeling.native.ops import ONEDNN
from components.runtime.system import products
from components.runtime.system.machine import vendor
from components.runtime.system.products import DEFAULT, MKL, Products

PRODUCTS = "POSTTRAIN_PRODUCTS"
GIVEN = {"onednn": DEFAULT, "mkl": Products(MKL, MKL)}
TABLE: Mapping[tuple[str, str], Products] = {
    # oneDNN's time over MKL's, for drawing and for training
    ("GenuineIntel", "AVX512"): Products(MKL, MKL),  # Xeon 2.80 GHz, 1 thread: 1.17, 1.30
    (
        "AuthenticAMD",
        "AVX512",
    ): DEFAULT,  # EPYC family 26, 1 thread: .67, .58; 2 threads: .86, .70: MKL stays on AVX2 there
    ("AuthenticAMD", "AVX2"): Products(MKL, MKL),  # EPYC 7003 (Milan), 1 thread: drawing 1.7 to 1.9
}
"""Vendor and torch's CPU capability -> libraries; any number of threads. What is not here has the default."""


def choose(environ: Mapping[str, str] = os.environ) -> None:
    """Set the libraries of this process; models call it when they are loaded.

    Raises InputError for a variable POSTTRAIN_PRODUCTS that names none.
    """
    if products.is_pinned():
        return
    name = environ.get(PRODUCTS)
    if name and name not in GIVEN:
        raise InputError(f"{PRODUCTS} is {name!r}; set {' or '.join(GIVEN)}{did_you_mean(name, GIVEN)}")
    if not can_choose():
        products.use(DEFAULT)
    elif name:
        products.use(GIVEN[name])
    else:
        products.use(TABLE.get((vendor(), torch.backends.cpu.get_cpu_capability()), DEFAULT))


def can_choose() -> bool:
    """Return whether torch has both libraries."""
    return ONEDNN is not None and torch.backends.mkl.is_available()
