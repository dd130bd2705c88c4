"""Inputs whose stage is skipped: the asking stage is skipped too, or falls back as the recipe says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from components.runtime.job.launch import Launch
from components.runtime.lineage.graph.graph import ancestors
from components.runtime.store import Store, open_store
from pipelines.plan.advice import advice
from pipelines.plan.forecast import StageForecast, forecast
from pipelines.plan.plan import Plan, build_plan
from pipelines.plan.shown import plan_json
from pipelines.recipe.recipe import Recipe, load_recipe
from tests.pipelines.writing import load, messages, sources, stages, with_stages, write

pytestmark = pytest.mark.usefixtures("toy_catalog")

LEAKS = """
leaks: {uses: curate, when: "params.look"}
tuned: {uses: sft, in: {model: base.model, dataset: data.dataset}}
better: {uses: rl, in: {model: tuned.model, dataset: data.dataset}, when: tuned.loss > params.bound}
asks: {uses: evaluate, in: {model: base.model, dataset: data.heldout, against: [better.model]}}
one: {uses: curate, in: {policy: [better.model, tuned.model]}}
many: {uses: sft, in: {model: base.model, dataset: [data.dataset, [leaks.dataset, data.heldout]]}}
without: {uses: curate, in: {policy: [better.model, none]}}
"""
HEAD = "params: {look: true, bound: 0}"


def run(recipe: Recipe, store: Store, run_id: str = "r-1") -> dict[str, dict[str, Any]]:
    """Run every stage here and now; return its ledger entries."""
    jobs = build_plan(recipe, store.uri, run_id).jobs
    return {job.stage: Launch(job, lambda event: None, store=store, gates_here=True).run() for job in jobs}


def taken(entry: dict[str, Any]) -> dict[str, list[str]]:
    return {port: [item["source"] for item in items] for port, items in entry["inputs"].items()}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """An empty store; rows of toys hold numbers, which the gates of real rows would refuse."""
    monkeypatch.setattr("components.runtime.job.launch.pass_data_gates", lambda *arguments, **options: {})
    return open_store(str(tmp_path / "store"))


def outlook(recipe: Recipe, store: Store) -> tuple[Plan, dict[str, StageForecast]]:
    plan = build_plan(recipe, store.uri, "plan")
    return plan, {stage.job.stage: stage for stage in forecast(plan, store)}


def test_what_the_run_skips_is_asked_for_no_more_than_the_recipe_says(tmp_path: Path, store: Store) -> None:
    text = with_stages(LEAKS, HEAD)
    all_ran = run(load(tmp_path, text), store)
    assert taken(all_ran["asks"])["against"] == ["better.model"]
    assert taken(all_ran["one"]) == {"policy": ["better.model"]}
    assert taken(all_ran["many"])["dataset"] == ["data.dataset", "leaks.dataset"]
    assert taken(all_ran["without"]) == {"policy": ["better.model"]}

    skipped = run(load(tmp_path, text, "bound=1"), store, "r-2")
    assert skipped["better"]["status"] == "skipped"
    reason = "its input against comes from better, which was skipped"
    assert (skipped["asks"]["status"], skipped["asks"]["error"]) == ("skipped", reason)
    assert taken(skipped["one"]) == {"policy": ["tuned.model"]}
    assert taken(skipped["without"]) == {}
    assert skipped["without"]["fingerprint"] == all_ran["data"]["fingerprint"], "as if the recipe did not name it"
    walked = ancestors(store, "r-2:one.dataset").of_kind("stage")
    assert {node["stage"] for node in walked} == {"one", "tuned", "base", "data"}


def test_what_is_left_out_before_the_run_follows_the_same_rule(tmp_path: Path, store: Store) -> None:
    asks = LEAKS + "list: {uses: sft, in: {model: base.model, dataset: [data.dataset, leaks.dataset]}}\n"
    recipe = load(tmp_path, with_stages(asks, HEAD), "look=false")
    assert {left.name: left.reason for left in recipe.left_out} == {
        "leaks": "when is false: params.look",
        "list": "input dataset: leaks is left out",
    }
    assert sources(stages(recipe)["many"])["dataset"] == ["data.dataset", "data.heldout"]
    assert taken(run(recipe, store)["many"])["dataset"] == ["data.dataset", "data.heldout"]
    whole = load_recipe(str(tmp_path / "recipe.yaml"), ["look=false"], whole=True)  # as Airflow draws it
    assert sources(stages(whole)["many"])["dataset"] == ["data.dataset", "leaks.dataset or else data.heldout"]
    assert stages(whole)["many"].after == ["base", "data", "leaks"]


def test_plan_says_which_is_taken_or_that_it_depends(
    tmp_path: Path, store: Store, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from pipelines.cli import main

    text = with_stages(LEAKS, HEAD)
    path = str(write(tmp_path, text))
    plan, before = outlook(load_recipe(path, ["look=false"]), store)
    assert before["one"].reason == "never run" and before["better"].may_be_skipped and before["asks"].may_be_skipped
    assert not before["without"].may_be_skipped and not before["one"].may_be_skipped
    shown = {stage["name"]: stage for stage in plan_json(plan, list(before.values()))["stages"]}
    assert shown["one"]["inputs"] == {"policy": ["better.model or else tuned.model"]}
    assert shown["without"]["inputs"] == {"policy": ["better.model or else none"]}
    assert shown["many"]["inputs"]["dataset"] == ["data.dataset", "data.heldout"]
    assert main(["plan", path, "--set", "look=false", "--store", store.uri]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.strip()}
    assert "policy takes better.model or else tuned.model (the run decides)" in lines["one"]
    assert "dataset takes data.dataset, data.heldout" in lines["many"]

    run(load_recipe(path), store)
    _, after = outlook(load_recipe(path, ["bound=1"]), store)
    assert (after["asks"].outlook, after["asks"].reason) == ("skip", "input against: better will be skipped")
    assert main(["plan", path, "--set", "bound=1", "--store", store.uri]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.strip()}
    assert "policy takes tuned.model" in lines["one"]
    assert "policy takes nothing" in lines["without"]
    done = run(load_recipe(path, ["bound=1"]), store, "r-2")
    forecast_marks = {name: stage.fingerprint for name, stage in after.items() if stage.fingerprint}
    assert forecast_marks == {name: done[name]["fingerprint"] for name in forecast_marks}, "what was planned happened"


def test_rounds_hand_on_what_the_last_one_made_that_ran(tmp_path: Path, store: Store) -> None:
    text = with_stages(
        """
        loop:
          repeat: 3
          carry: {model: base.model}
          yield: {model: [rl.model, carry.model]}
          stages:
            fresh: {uses: curate, in: {policy: carry.model}, with: {rows: "${round}"}}
            rl: {uses: rl, in: {model: carry.model, dataset: fresh.dataset}, when: round == params.trains}
        final: {uses: evaluate, in: {model: loop.model, dataset: data.heldout}}
        """,
        "params: {trains: 2}",
    )
    entries = run(load(tmp_path, text), store)
    assert taken(entries["loop-1-fresh"]) == taken(entries["loop-2-fresh"]) == {"policy": ["base.model"]}
    assert taken(entries["loop-3-fresh"]) == {"policy": ["loop-2-rl.model"]}
    assert taken(entries["final"])["model"] == ["loop-2-rl.model"]
    dynamic = load(tmp_path, text.replace("round == params.trains", "fresh.num_rows > 1"), "trains=1")
    assert sources(stages(dynamic)["final"])["model"] == [
        "loop-3-rl.model or else loop-2-rl.model or else loop-1-rl.model or else base.model"
    ]
    none_ran = run(dynamic, store, "r-2")  # the toy measures 0.5
    assert {none_ran[f"loop-{number}-rl"]["status"] for number in (1, 2, 3)} == {"skipped"}
    assert taken(none_ran["loop-3-fresh"]) == {"policy": ["base.model"]}
    assert taken(none_ran["final"])["model"] == ["base.model"]


def test_rounds_that_hand_on_in_each_others_place_are_read_in_no_time(tmp_path: Path) -> None:
    text = with_stages(
        """
        loop:
          repeat: 60
          carry: {a: base.model, b: base.model}
          yield: {a: [carry.a, carry.b, rl.model], b: [carry.b, carry.a, rl.model]}
          stages:
            rl: {uses: rl, in: {model: carry.a, dataset: data.dataset}}
        """
    )
    assert sources(stages(load(tmp_path, text))["loop-60-rl"])["model"][0].startswith("base.model or else loop-1-rl")


def test_repeats_in_repeats_hand_on_to_any_depth(tmp_path: Path) -> None:
    text = with_stages(
        """
        outer:
          repeat: 12
          carry: {model: base.model}
          yield: {model: inner.model}
          stages:
            inner:
              repeat: 12
              carry: {model: carry.model}
              yield: {model: [rl.model, carry.model]}
              stages:
                rl: {uses: rl, in: {model: carry.model, dataset: data.dataset}, when: params.more > round}
        final: {uses: evaluate, in: {model: outer.model, dataset: data.heldout}}
        """,
        "params: {more: 2}",
    )
    recipe = load(tmp_path, text)
    assert len(recipe.stages) == 15
    newest = [f"outer-{number}-inner-1-rl.model" for number in range(12, 0, -1)]
    assert sources(stages(recipe)["final"])["model"] == [" or else ".join([*newest, "base.model"])]


def test_cells_of_a_matrix_fall_back_one_by_one(tmp_path: Path, store: Store) -> None:
    text = with_stages(
        """
        arm:
          uses: sft
          in: {model: base.model, dataset: data.dataset}
          matrix: {arm: [1, 2, 3]}
          with: {steps: "${matrix.arm}"}
        more:
          uses: rl
          in: {model: arm.model, dataset: data.dataset}
          matrix: {arm: [1, 2, 3]}
          when: matrix.arm != 2
        own: {uses: curate, in: {policy: [more.model, arm.model]}, matrix: {arm: [1, 2, 3]}}
        those: {uses: evaluate, in: {model: base.model, dataset: data.heldout, against: [[more.model, none]]}}
        all:
          uses: evaluate
          in: {model: base.model, dataset: data.heldout, against: [[more.model, arm.model], base.model]}
        strict: {uses: evaluate, in: {model: base.model, dataset: data.heldout, against: more.model}}
        picked:
          uses: evaluate
          in: {model: base.model, dataset: data.heldout, against: [[more.model, "arm[arm=3].model"]]}
        """
    )
    found = stages(load(tmp_path, text))
    assert sources(found["own-arm-2"])["policy"] == ["arm-arm-2.model"]
    assert sources(found["own-arm-3"])["policy"] == ["more-arm-3.model or else arm-arm-3.model"]
    assert sources(found["those"])["against"] == [f"more-arm-{arm}.model or else none" for arm in (1, 3)]
    entries = run(load(tmp_path, text), store)
    assert taken(entries["those"])["against"] == ["more-arm-1.model", "more-arm-3.model"]
    assert taken(entries["all"])["against"] == ["more-arm-1.model", "arm-arm-2.model", "more-arm-3.model", "base.model"]
    assert taken(entries["picked"])["against"] == ["more-arm-1.model", "arm-arm-3.model", "more-arm-3.model"]
    assert "strict" not in entries


def test_a_fallback_is_set_and_inherited_as_any_list_is(tmp_path: Path) -> None:
    parent = with_stages(LEAKS, HEAD)
    write(tmp_path, parent, "parent.yaml")
    child = "name: child\nextends: parent.yaml\nstages: {asks: {in: {against: [[better.model, tuned.model]]}}}\n"
    path = str(write(tmp_path, child, "child.yaml"))
    recipe = load_recipe(path, ["stages.one.in.policy=[better.model, base.model]"])
    assert sources(stages(recipe)["asks"])["against"] == ["better.model or else tuned.model"]
    assert sources(stages(recipe)["one"])["policy"] == ["better.model or else base.model"]
    (problem,) = messages(tmp_path, parent, "stages.one.in.policy=[better.model, data.dataset]")
    assert problem.endswith("input 'policy' of stage 'one' takes a Model, and data.dataset is a Dataset")


def test_what_is_taken_in_anothers_place_is_not_taken_twice(tmp_path: Path, store: Store) -> None:
    text = with_stages(
        LEAKS + "both: {uses: evaluate, in: {model: base.model, dataset: data.heldout, "
        "against: [[better.model, tuned.model], [better.model, base.model], tuned.model, base.model]}}\n",
        HEAD,
    )
    assert taken(run(load(tmp_path, text, "bound=1"), store)["both"])["against"] == ["tuned.model", "base.model"]


def test_a_fallback_that_is_never_reached_is_remarked_on(tmp_path: Path) -> None:
    text = with_stages(LEAKS + "back: {uses: curate, in: {policy: [tuned.model, better.model]}}\n", HEAD)
    notes = advice(load(tmp_path, text))
    assert notes == ["back: input policy: tuned.model is always made, so better.model is never taken"]


def test_a_job_with_a_fallback_survives_its_json(tmp_path: Path, store: Store) -> None:
    jobs = build_plan(load(tmp_path, with_stages(LEAKS, HEAD)), store.uri, "r-1").jobs
    for job in jobs:
        assert type(job).model_validate(json.loads(job.model_dump_json())) == job
