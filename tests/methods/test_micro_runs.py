"""Every method runs from its recipe to its evaluation, at a size of seconds, through `posttrain run`."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from components.rl.presets import FOLDER, load_preset
from pipelines.cli import main
from pipelines.language.find import FOLDER as RECIPES
from pipelines.methods.methods import RUNNABLE, list_methods
from pipelines.methods.systems import list_systems, outline
from pipelines.recipe.recipe import load_recipe
from tests.methods.micro import MICRO_OF, MICRO_SIZE

SLUGS = sorted(path.stem for path in FOLDER.glob("*.yaml"))
SYSTEMS = sorted(list_systems())


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One store for all methods, and for all workers of a parallel test run: they share base and SFT models."""
    base = tmp_path_factory.getbasetemp()
    return str((base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "methods" / "store")


def test_all_methods_are_runnable_and_have_a_reproduction() -> None:
    methods = list_methods()
    shipped = [method for method in methods if method.slug in SLUGS]
    assert {method.slug: method.status for method in shipped} == dict.fromkeys(SLUGS, RUNNABLE)
    assert len(shipped) >= 39
    assert {method.slug: method.recipe for method in shipped} == {slug: f"methods/{slug}" for slug in SLUGS}
    assert sorted(path.stem for path in (RECIPES / "methods").glob("*.yaml")) == sorted({*SLUGS, *SYSTEMS})
    assert {method.slug: method.status for method in methods if method.slug in SYSTEMS} == dict.fromkeys(
        SYSTEMS, RUNNABLE
    )
    assert "ton" in SYSTEMS


@pytest.mark.parametrize("slug", SLUGS)
def test_a_claim_is_about_the_method_and_cites_the_catalogue(slug: str) -> None:
    recipe = load_recipe(f"methods/{slug}")
    assert recipe.hallmark is not None and "method" in recipe.hallmark.arms
    assert recipe.hallmark.words.catalogue == load_preset(slug).catalogue
    trained = [stage for stage in recipe.stages if stage.labels.get("arm", "method") == "method"]  # or all arms' own
    assert slug in {stage.params["method"] for stage in trained if stage.component.name == "rl"}
    assert len(recipe.hallmark.seeds) >= 3


@pytest.mark.parametrize("slug", SYSTEMS)
def test_a_system_claims_something_of_its_own_arm_and_cites_its_constants(slug: str) -> None:
    recipe = load_recipe(f"methods/{slug}")
    assert recipe.hallmark is not None and recipe.system is not None
    assert "method" in recipe.hallmark.arms and len(recipe.hallmark.arms) > 1
    assert recipe.hallmark.words.catalogue == recipe.system.catalogue
    assert recipe.system.sources and len(recipe.hallmark.seeds) >= 3
    operators = {place for place in recipe.system.sources if place.startswith("stages.rl.with.")}
    own = recipe.documents[0].root.find(("stages", "rl", "with"))
    for slot in ("rewards", "advantages", "filters", "regularizers"):
        given = own.child(slot) if own else None
        for spec in given.plain() if given else ():
            settings = {f"stages.rl.with.{slot}.{spec['name']}.{key}" for key in spec if key != "name"}
            assert settings <= operators, "every constant of an operator that the system sets is cited"


@pytest.mark.parametrize("slug", [*SLUGS, *SYSTEMS])
def test_a_method_runs(
    slug: str, store: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The method's own arm; the other arms are other methods, or this one with a constant changed."""
    monkeypatch.setenv("POSTTRAIN_LINEAGE", "later")
    recipe = load_recipe(f"methods/{slug}")
    hallmark = recipe.hallmark
    assert hallmark is not None
    others = [f"matrix.arm.{arm}=null" for arm in hallmark.arms if arm != "method"]
    scaled = recipe.documents[0].root.find(("matrix", "arm", "method", "steps"))  # so that it spends what others do
    fewer = ["matrix.arm.method.steps=2"] if scaled is not None else []
    own = MICRO_OF.get(slug, ())
    sizes = [text for change in (*MICRO_SIZE, *own, *others, *fewer, "hallmark=null") for text in ("--set", change)]
    code = main(["run", f"methods/{slug}", *sizes, "--store", store, "--json"])
    printed = capsys.readouterr()
    assert code == 0, printed.err
    shown: dict[str, Any] = json.loads(printed.out)
    done = {stage["component"]: stage for stage in shown["stages"] if stage["status"] == "done"}
    if slug in SLUGS:
        # a fixed set of the starting policy's responses counts as external: the trained policy draws nothing
        drawn = load_preset(slug).slots.rollout.name != "offline_group"
        assert (done["rl"]["metrics"]["num_samples"] > 0) is drawn
    else:
        assert {stage.component.name for stage in outline(recipe).values()} == set(done)
    assert any(name.startswith("pass_at_1") for name in done["evaluate"]["metrics"])
