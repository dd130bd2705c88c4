"""Faults that a store has to survive without anybody's hand: a few of each kind by default, twenty on demand."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.contract.registry import components
from tests.chaos.faults import TRIES, Chaos


@pytest.fixture(scope="module")
def chaos(tmp_path_factory: pytest.TempPathFactory) -> Chaos:
    components().add("chaos-count", "tests.chaos.counting:COMPONENT", origin="test")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POSTTRAIN_LINEAGE", "later")
        yield Chaos(tmp_path_factory.mktemp("chaos"), kills=2)


@pytest.fixture(autouse=True)
def lineage_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSTTRAIN_LINEAGE", "later")


def test_the_same_command_goes_on_after_truncations(chaos: Chaos) -> None:
    outcome = chaos.truncations(3)
    assert (outcome.survived, outcome.notes) == (3, [])


def test_flips_are_told_and_mended(chaos: Chaos) -> None:
    for outcome in chaos.flips(1):
        assert outcome.notes == []


@pytest.mark.slow
def test_twenty_of_each(tmp_path: Path) -> None:
    components().add("chaos-count", "tests.chaos.counting:COMPONENT", origin="test")
    chaos = Chaos(tmp_path, kills=6, seed=23)
    for outcome in (chaos.truncations(TRIES), *chaos.flips(TRIES)):
        assert (outcome.survived, outcome.notes) == (TRIES, []), outcome.kind
