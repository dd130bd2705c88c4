"""The library of matrix products: chosen above a margin, kept for the kind of machine, the same for all processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from components.contract.errors import InputError
from components.contract.job import Job, Resources
from components.modeling.native import product_choice
from components.modeling.native.product_choice import FOLDER, IN_KUBERNETES, MARGIN, PRODUCTS, choose, measured
from components.runtime.system import products
from components.runtime.system.machine import machine_in_words, machine_record
from components.runtime.system.products import DEFAULT, MKL, Products, in_use

BOTH = Products(sampling=MKL, training=MKL)
pytestmark = pytest.mark.skipif(not product_choice.can_choose(), reason="torch without MKL or oneDNN")


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process that has chosen nothing yet, with a cache of its own."""
    monkeypatch.setenv("POSTTRAIN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(product_choice, "_known", {})
    monkeypatch.setattr(products, "_state", {})
    for name in (PRODUCTS, IN_KUBERNETES):
        monkeypatch.delenv(name, raising=False)
    yield


def ratios(monkeypatch: pytest.MonkeyPatch, sampling: float, training: float) -> None:
    """Stand in for this machine's speed."""
    found = {product_choice._decoding: sampling, product_choice._training: training}
    monkeypatch.setattr(product_choice, "_ratio", found.__getitem__)


def restart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(product_choice, "_known", {})
    monkeypatch.setattr(products, "_state", {})


def test_only_a_clear_margin_changes_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    ratios(monkeypatch, MARGIN + 0.01, MARGIN - 0.01)
    choose()
    assert in_use() == Products(sampling=MKL)
    assert Products("onednn", "onednn") == DEFAULT


def test_what_was_chosen_once_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ratios(monkeypatch, 2.0, 2.0)
    choose()
    (kept,) = (tmp_path / "cache" / FOLDER).glob("*.json")
    assert json.loads(kept.read_text())["value"]["times as fast"] == {"sampling": 2.0, "training": 2.0}
    restart(monkeypatch)
    ratios(monkeypatch, 1.0, 1.0)  # noise: the file decides
    choose()
    assert in_use() == BOTH


def test_the_first_to_write_decides_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two jobs measure at once, and differ by noise."""

    def other_job_first() -> dict[str, object]:
        monkeypatch.setattr(product_choice, "measured", lambda: {"chosen": BOTH.record()})
        restart(monkeypatch)
        choose()
        return {"chosen": DEFAULT.record()}

    monkeypatch.setattr(product_choice, "measured", other_job_first)
    choose()
    assert in_use() == BOTH


def test_another_number_of_threads_is_another_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ratios(monkeypatch, 2.0, 1.0)
    choose()
    monkeypatch.setattr("torch.get_num_threads", lambda: 7)
    ratios(monkeypatch, 1.0, 1.0)
    choose()
    assert in_use() == DEFAULT
    assert len(list((tmp_path / "cache" / FOLDER).glob("*.json"))) == 2


def test_a_damaged_file_is_measured_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ratios(monkeypatch, 2.0, 2.0)
    choose()
    (kept,) = (tmp_path / "cache" / FOLDER).glob("*.json")
    whole = kept.read_bytes()
    kept.write_bytes(whole[: len(whole) // 2])
    restart(monkeypatch)
    choose()
    assert in_use() == BOTH and kept.read_bytes() == whole


def test_where_nothing_can_be_kept_nothing_is_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("POSTTRAIN_CACHE", str(tmp_path / "file" / "below"))
    ratios(monkeypatch, 2.0, 2.0)
    choose()
    assert in_use() == DEFAULT


def test_a_pod_takes_the_default_or_what_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ratios(monkeypatch, 2.0, 2.0)
    choose({IN_KUBERNETES: "10.0.0.1"})
    assert in_use() == DEFAULT and not (tmp_path / "cache").exists()
    choose({IN_KUBERNETES: "10.0.0.1", PRODUCTS: "mkl"})
    assert in_use() == BOTH
    choose({PRODUCTS: "onednn"})
    assert in_use() == DEFAULT
    with pytest.raises(InputError, match=r"POSTTRAIN_PRODUCTS is 'mlk'; set measure, onednn, mkl.*did you mean"):
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


def test_a_measurement_is_a_choice_and_leaves_nothing_behind() -> None:
    found = measured()
    assert set(found["chosen"]) == set(found["times as fast"]) == {"sampling", "training"}
    for kind, ratio in found["times as fast"].items():
        assert 0.1 < ratio < 10
        assert (found["chosen"][kind] == MKL) == (ratio >= MARGIN)
    assert in_use() == DEFAULT


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
