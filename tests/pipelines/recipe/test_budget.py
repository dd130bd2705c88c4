"""`budget` and `moved` in a recipe: what they become, and how mistakes are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.contract.job import Budget
from pipelines.language.problems import RecipeErrors
from pipelines.plan.plan import build_plan
from pipelines.recipe.pools import VARIABLE
from tests.pipelines.writing import load, messages

RECIPE = "name: r\nstages:\n  base: {uses: pretrain, with: {layers: 2}}\n"
POOLS = """
cpu: {summary: one core, cpus: 1, memory_gib: 4, price_per_hour: 3, currency: EUR}
spare: {summary: the same, cpus: 1, memory_gib: 4, price_per_hour: 1, currency: EUR, spot: true}
large: {summary: another, cpus: 8, memory_gib: 4, price_per_hour: 0.5, currency: EUR}
dear: {summary: the same, cpus: 1, memory_gib: 4, price_per_hour: 9, currency: EUR}
dollars: {summary: the same, cpus: 1, memory_gib: 4, price_per_hour: 1, currency: USD}
"""


@pytest.fixture(autouse=True)
def pools(toy_catalog: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pools.yaml").write_text(POOLS)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "pools.yaml"))


@pytest.mark.parametrize("written, amount", [("40 EUR", 40.0), ("0.5EUR", 0.5)])
def test_every_job_knows_the_budget(tmp_path: Path, written: str, amount: float) -> None:
    recipe = load(tmp_path, RECIPE, f"budget={written}")
    assert recipe.budget == Budget(amount=amount, currency="EUR")
    assert [job.budget for job in build_plan(recipe, "s", "r").jobs] == [recipe.budget]
    dearer = build_plan(load(tmp_path, RECIPE, "budget=99 EUR"), "s", "r")
    assert dearer.digest == build_plan(recipe, "s", "r").digest, "the same run goes on, and what it has spent counts"
    plain = build_plan(load(tmp_path, RECIPE), "s", "r").jobs[0]
    assert plain.budget is None and not {"budget", "moved"} & plain.model_dump(mode="json").keys()


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("budget=much", "budget: got 'much', expected an amount above 0, such as 40 EUR"),
        ("budget=0 EUR", "expected an amount above 0"),
        ("budget=-3 EUR", "expected an amount above 0"),
        ("budget=true", "expected an amount above 0"),
        ("budget=[1]", "expected an amount above 0"),
        ("budget=40 USD", "budget: it is in USD, pool 'cpu' in EUR"),
        ("budget=40", "budget: it is in no currency, pool 'cpu' in EUR"),
        ("moved=3", "moved: got 3, expected the id of a run"),
        ("moved={a: 1}", "expected the id of a run"),
    ],
)
def test_mistakes(tmp_path: Path, override: str, told: str) -> None:
    (message,) = messages(tmp_path, RECIPE, override)
    assert told in message


def test_a_pool_without_a_price_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pools.yaml").write_text("cpu: {summary: one core, cpus: 1, memory_gib: 4}\n")
    with pytest.raises(RecipeErrors, match="pool 'cpu' has no price_per_hour in the pools file: nothing bounds it"):
        load(tmp_path, RECIPE, "budget=40 EUR")
