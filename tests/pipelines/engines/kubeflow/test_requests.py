"""Pods that wait for hours leave the nodes to the stages."""

from __future__ import annotations

from decimal import Decimal

import pytest
from kubernetes.utils import parse_quantity

from pipelines.engines.kubeflow.compiler.placement import LIMITS, WAITING, WORKING


def total(name: str, count: int) -> Decimal:
    return parse_quantity(WAITING[name]) * count


def test_the_waiting_tasks_of_fourteen_stages_fit_beside_anything() -> None:
    """All at once: a run of 14 stages never waits with more."""
    assert total("cpu", 14) <= Decimal("0.5") and total("memory", 14) <= Decimal("1.5") * 2**30


@pytest.mark.parametrize("requests", [WAITING, WORKING])
def test_requests_lie_below_the_limits(requests: dict[str, str]) -> None:
    for name, limit in LIMITS.items():
        assert parse_quantity(requests[name]) < parse_quantity(limit)
