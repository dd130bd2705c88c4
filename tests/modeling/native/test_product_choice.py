"""The library of matrix products: by the processor alone, in a pod as on a laptop, whatever a clock says."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from components.contract.errors import InputError
from components.contract.job import Job, Resources
from components.modeling.native import product_choice
from components.modeling.native.product_choice import PRODUCTS, TABLE, choose
from components.runtime.system import products
from components.runtime.system.machine import machine_in_words, machine_record, vendor
from components.runtime.system.products import DEFAULT, MKL, Products, in_use

BOTH = Products(sampling=MKL, training=MKL)
pytestmark = pytest.mark.skipif(not product_choice.can_choose(), reason="torch without MKL or oneDNN")


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process that has chosen nothing yet."""
    monkeypatch.setattr(products, "_state", {})
    monkeypatch.delenv(PRODUCTS, raising=False)
    yield


@pytest.mark.parametrize(
    ("maker", "capability", "chosen"),
    [
        ("GenuineIntel", "AVX512", BOTH),
        ("AuthenticAMD", "AVX512", DEFAULT),
        ("AuthenticAMD", "AVX2", BOTH),
        ("GenuineIntel", "AVX2", DEFAULT),  # not measured
        ("", "DEFAULT", DEFAULT),  # a processor that does not name itself
    ],
)
def test_the_processor_decides(maker: str, capability: str, chosen: Products, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(product_choice, "vendor", lambda: maker)
    monkeypatch.setattr("torch.backends.cpu.get_cpu_capability", lambda: capability)
    choose()
    assert in_use() == chosen


def test_no_clock_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """A benchmark of two seconds once chose other bytes on a busy machine, and another cache in pods."""

    def read() -> float:
        raise AssertionError("a clock was read")

    for clock in ("time", "process_time", "perf_counter", "monotonic", "thread_time"):
        monkeypatch.setattr(time, clock, read)
    choose()
    assert is_of_the_table()
    choose({"KUBERNETES_SERVICE_HOST": "10.0.0.1"})
    assert is_of_the_table()


def is_of_the_table() -> bool:
    import torch

    return in_use() == TABLE.get((vendor(), torch.backends.cpu.get_cpu_capability()), DEFAULT)


def test_the_variable_overrides_the_table() -> None:
    choose({PRODUCTS: "mkl"})
    assert in_use() == BOTH
    choose({PRODUCTS: "onednn"})
    assert in_use() == DEFAULT
    with pytest.raises(InputError, match=r"POSTTRAIN_PRODUCTS is 'mlk'; set onednn or mkl.*did you mean"):
        choose({PRODUCTS: "mlk"})


def test_the_record_names_the_choice() -> None:
    job = Job.model_construct(resources=Resources(), endpoints={})
    before = machine_record(job, device="cpu", processes=1, models=True)
    assert "products" not in before
    products.use(Products(sampling=MKL))
    record = machine_record(job, device="cpu", processes=1, models=True)
    assert record["products"] == {"sampling": "mkl", "training": "onednn"}
    assert machine_in_words(record) == f"{machine_in_words(before)}, sampling by MKL"
    assert "products" not in machine_record(job, device="cpu", processes=1, models=False)


DRAW = """
import hashlib, sys, torch
torch.set_num_threads(1)
from components.modeling.generation.generate import generate
from components.modeling.generation.sampling_config import SamplingConfig
from components.modeling.loading.load import new_policy
from components.modeling.models.model_config import ModelConfig
policy = new_policy(ModelConfig(vocab_size=64, max_positions=64), tokenizer=None, seed=0)
drawn = generate(policy, [[1, 2, 3]] * 8, SamplingConfig(num_samples=8, max_new_tokens=16),
                 generator=torch.Generator().manual_seed(0))
print(hashlib.sha256(drawn.logprobs.numpy().tobytes()).hexdigest())
"""


@pytest.mark.parametrize("library", ["onednn", "mkl"])
def test_either_library_repeats_its_bytes(library: str) -> None:
    environment = {**os.environ, PRODUCTS: library, "OMP_NUM_THREADS": "1"}
    found = {
        subprocess.run([sys.executable, "-c", DRAW], env=environment, check=True, capture_output=True, text=True).stdout
        for _ in range(2)
    }
    assert len(found) == 1
