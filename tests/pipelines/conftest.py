"""A small catalog of components with cheap run functions, so that recipes can be read without the real stages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from components.contract import registry
from tests.pipelines import toys


@pytest.fixture
def toy_catalog(monkeypatch: pytest.MonkeyPatch, tmp_path) -> Iterator[None]:
    """Put the toy components and operators in place of the real catalog, and leave the user's settings out."""
    monkeypatch.setattr(registry, "component_targets", lambda: toys.COMPONENTS)
    monkeypatch.setattr(registry, "slots", lambda: toys.SLOTS)
    for variable in ("POSTTRAIN_POOLS", "POSTTRAIN_RECIPES", "POSTTRAIN_STORE", "POSTTRAIN_DEBUG"):
        monkeypatch.delenv(variable, raising=False)
    registry.components.cache_clear()
    yield
    registry.components.cache_clear()
