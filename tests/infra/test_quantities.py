"""Quantities in manifests are texts, as the API server answers: a number would differ from its text at each plan."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.infra.conftest import INFRA

QUANTITIES = {"requests", "limits", "hard", "default", "defaultRequest", "max", "min", "capacity"}
SINGLE = {"nominalQuota", "borrowingLimit", "lendingLimit", "sizeLimit", "storage"}
FILES = sorted((INFRA / "kubernetes").rglob("*.yaml"))


def numbers(value: Any, place: str) -> Iterator[str]:
    """Yield the place of every quantity that is a number."""
    if isinstance(value, list):
        for at, item in enumerate(value):
            yield from numbers(item, f"{place}[{at}]")
    if isinstance(value, dict):
        for key, item in value.items():
            inside = f"{place}.{key}"
            if key in QUANTITIES and isinstance(item, dict):
                yield from (f"{inside}.{name}" for name, amount in item.items() if isinstance(amount, int | float))
            elif key in SINGLE and isinstance(item, int | float):
                yield inside
            yield from numbers(item, inside)


def test_a_number_is_seen() -> None:
    wrong = {"flavors": [{"resources": [{"name": "cpu", "nominalQuota": 15}]}], "limits": {"cpu": 1, "memory": "1Gi"}}
    assert list(numbers(wrong, "spec")) == ["spec.flavors[0].resources[0].nominalQuota", "spec.limits.cpu"]
    assert len(FILES) > 20


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(INFRA)))
def test_quantities_are_texts(path: Any) -> None:
    for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
        assert not list(numbers(document, "")), "quote it: the API server does"
