"""Testbeds: what they promise of their start and of their baseline holds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pipelines.cli import main
from pipelines.recipe.recipe import load_recipe

TESTBEDS = (
    "testbed-fork",
    "testbed-levels",
    "testbed-stale",
    "testbed-noisy",
    "testbed-long",
    "testbed-sums",
    "testbed-notes",
    "testbed-two-domains",
    "testbed-ways",
)
WORKED = ("testbed-long", "testbed-sums", "testbed-notes")
"""Their answers are worked out in writing, or are notes: right responses without end, which only samples can count."""


@pytest.mark.parametrize("name", TESTBEDS)
def test_a_testbed_promises_preconditions_and_claims_nothing(name: str) -> None:
    recipe = load_recipe(name)
    assert recipe.hallmark is not None and not recipe.hallmark.claims
    assert len(recipe.hallmark.preconditions) >= 2 and recipe.hallmark.words.budget == "rl.num_tokens"
    evaluations = [stage for stage in recipe.stages if stage.component.name == "evaluate"]
    assert all(stage.params.get("exact") for stage in evaluations) == (name not in WORKED)


def test_a_testbed_goes_by_its_name_and_has_no_record(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "testbed-fork", "--record"]) == 2
    assert "unknown method 'testbed-fork'" in capsys.readouterr().err  # not: unknown recipe


@pytest.mark.slow
@pytest.mark.parametrize("name", TESTBEDS)
def test_the_preconditions_hold_at_five_seeds(
    name: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setenv("POSTTRAIN_LINEAGE", "later")
    store = tmp_path_factory.getbasetemp() / "testbeds"  # they share their start
    assert main(["reproduce", name, "--store", str(store), "--jobs", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["seeds"]) == 5
    assert {condition: entry["holds"] for condition, entry in found["preconditions"].items()} == dict.fromkeys(
        found["preconditions"], True
    )
