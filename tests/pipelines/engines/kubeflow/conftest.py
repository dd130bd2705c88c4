"""Kubeflow's environment for tests: images, no settings of the user's; without kfp, nothing here is collected."""

from __future__ import annotations

import os
from dataclasses import replace
from importlib.util import find_spec

import pytest

from tests.pipelines import toys

CPU, GPU = (f"registry.example/posttrain-{kind}@sha256:{digit * 64}" for kind, digit in (("cpu", "1"), ("gpu", "2")))

if find_spec("kfp") is None:
    collect_ignore_glob = ["*test_*.py"]


@pytest.fixture(autouse=True)
def cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Name both images, and nothing else; the toy pretrain trains on all GPUs that it gets."""
    monkeypatch.setattr(toys, "pretrain", replace(toys.pretrain, backends=frozenset({"trainer"})))
    for variable in [name for name in os.environ if name.startswith(("POSTTRAIN_", "MLFLOW_", "KF_PIPELINES"))]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("POSTTRAIN_IMAGE_CPU", CPU)
    monkeypatch.setenv("POSTTRAIN_IMAGE_GPU", GPU)
    monkeypatch.setenv("POSTTRAIN_LINEAGE", "later")
