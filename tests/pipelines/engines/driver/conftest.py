"""The toy components; its pretrain trains on all GPUs that it gets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.pipelines import toys


@pytest.fixture(autouse=True)
def training(monkeypatch: pytest.MonkeyPatch, toy_catalog: None) -> None:
    """Make the toy pretrain one that trains on several processes."""
    monkeypatch.setattr(toys, "pretrain", replace(toys.pretrain, backends=frozenset({"trainer"})))
