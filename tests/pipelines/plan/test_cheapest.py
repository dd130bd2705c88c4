"""The pool on which a stage costs least for the same progress: like pools, and pools on which it was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from components.runtime.ledger.records import run_key, stage_key
from components.runtime.store import Store, open_store
from pipelines.cli.cheapest import on_cheapest_pools
from pipelines.plan.cheapest import Offer, cheapest, offers
from pipelines.plan.forecast import forecast
from pipelines.plan.plan import build_plan
from pipelines.recipe.pools import VARIABLE
from pipelines.recipe.recipe import Recipe
from tests.pipelines.writing import load

RECIPE = "name: r\nstages:\n  base: {uses: pretrain, with: {layers: 2}}\n"
POOLS = """
cpu: {summary: one core, cpus: 1, memory_gib: 4, price_per_hour: 3, currency: EUR}
spare: {summary: the same, cpus: 1, memory_gib: 4, price_per_hour: 1.5, currency: EUR, spot: true}
large: {summary: four cores, cpus: 4, memory_gib: 4, price_per_hour: 6, currency: EUR}
dear: {summary: the same, cpus: 1, memory_gib: 4, price_per_hour: 9, currency: EUR}
dollars: {summary: the same, cpus: 1, memory_gib: 4, price_per_hour: 1, currency: USD}
free: {summary: nobody knows, cpus: 1, memory_gib: 4}
"""


@pytest.fixture(autouse=True)
def pools(toy_catalog: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pools.yaml").write_text(POOLS)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "pools.yaml"))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "store"))


def found(recipe: Recipe, store: Store, **options: bool) -> list[Offer]:
    return offers(recipe, store, forecast(build_plan(recipe, store.uri, "r"), store), **options)


def ran(store: Store, number: int, pool: str, seconds: float, params: dict[str, Any]) -> None:
    """Record a run of the stage."""
    run = f"r-20261126-00000{number}-ab12"
    planned = {"name": "base", "component": "pretrain", "pool": pool, "params": params}
    store.put(
        run_key(run), {"run_id": run, "recipe": "r", "stages": [planned], "started": f"2026-11-26T00:00:0{number}"}
    )
    entry = {"status": "done", "cache": "miss", "seconds": seconds, "fingerprint": "f" * 64, "component": "pretrain"}
    store.put(stage_key(run, "base"), entry)


def test_pools_that_do_the_same_work_at_the_same_speed(tmp_path: Path, store: Store) -> None:
    assert found(load(tmp_path, RECIPE), store) == [Offer("base", "spare", 0.5, False)]
    assert found(load(tmp_path, RECIPE, "stages.base.pool=dear"), store) == [
        Offer("base", "spare", pytest.approx(1 / 6), False),
        Offer("base", "cpu", pytest.approx(1 / 3), False),
    ]
    assert found(load(tmp_path, RECIPE, "stages.base.pool=spare"), store) == []
    assert found(load(tmp_path, RECIPE, "stages.base.pool=free"), store) == []


def test_another_kind_of_pool_counts_once_it_was_measured(tmp_path: Path, store: Store) -> None:
    recipe = load(tmp_path, RECIPE)
    ran(store, 1, "large", 10.0, {"layers": 2})
    assert [offer.pool for offer in found(recipe, store)] == ["spare"], "its own pool was not measured"
    ran(store, 2, "cpu", 80.0, {"layers": 3})
    assert [offer.pool for offer in found(recipe, store)] == ["spare"], "not with these parameters"
    ran(store, 3, "cpu", 80.0, {"layers": 2})
    assert found(recipe, store) == [Offer("base", "large", 0.25, True), Offer("base", "spare", 0.5, False)]
    assert found(recipe, store, same_work=True) == [Offer("base", "spare", 0.5, False)]
    (best,) = cheapest(recipe, store, forecast(build_plan(recipe, store.uri, "r"), store))
    assert best.words == "base costs 25% of that on pool large, as measured"


def test_the_choice_is_an_override(tmp_path: Path, store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = on_cheapest_pools(load(tmp_path, RECIPE), store, engine=None)
    assert chosen.stages[0].pool == "spare" and "stages.base.pool=spare" in chosen.overrides
    again = on_cheapest_pools(chosen, store, engine=None)
    assert again is chosen
    said = capsys.readouterr().err
    assert "cheapest: base costs 50% of that on pool spare, at the same speed" in said
    assert "cheapest: no pool costs less for the same progress" in said


def test_cells_of_a_matrix_share_a_pool(tmp_path: Path, store: Store) -> None:
    matrix = RECIPE.replace("stages:", "matrix: {seed: [0, 1]}\nstages:")
    recipe = load(tmp_path, matrix)
    best = cheapest(recipe, store, forecast(build_plan(recipe, store.uri, "r"), store))
    assert [offer.override for offer in best] == ["stages.base.pool=spare"]
