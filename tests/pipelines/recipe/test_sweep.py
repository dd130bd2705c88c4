"""Sweeps, unrolled: which stages differ between trials, what is drawn, and what is refused with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.contract.job import FirstOf, Setting, StageRef
from tests.pipelines.writing import load, messages, stages, write

pytestmark = pytest.mark.usefixtures("toy_catalog")

HEAD = """
params: {{rate: 0.01, twice: "${{params.rate}}", steps: {{default: 8, max: 64}}, other: 5}}
sweep: {{{sweep}}}
stages:
  base: {{uses: pretrain, with: {{layers: 2}}}}
  data: {{uses: curate}}
  sft: {{uses: sft, in: {{model: base.model, dataset: data.dataset}}, with: {{{params}}}}}
  rl: {{uses: rl, in: {{model: sft.model, dataset: data.dataset}}}}
  ev: {{uses: evaluate, in: {{model: rl.model, dataset: data.heldout}}}}
"""
RATE = "rate: {low: 1.0e-4, high: 0.1, log: true}"
USE = 'optimizer: {peak_learning_rate: "${params.rate}"}'


def text(sweep: str, params: str = USE, more: str = "") -> str:
    """Return a recipe with a sweep; `more` are further stages."""
    return HEAD.format(sweep=sweep, params=params) + "".join(f"  {line}\n" for line in more.splitlines())


def random(space: str = RATE, trials: int = 3, more: str = "") -> str:
    return f"space: {{{space}}}, trials: {trials}, maximize: ev.pass_at_1{more}"


def test_trials_share_everything_before_the_difference(tmp_path: Path) -> None:
    found = stages(load(tmp_path, text(random(trials=2))))
    assert list(found) == [
        "base",
        "data",
        *(f"{name}-trial-{n}" for name in ("sft", "rl", "ev") for n in (1, 2)),
        "sweep",
    ]
    rates = [found[f"sft-trial-{n}"].params["optimizer"]["peak_learning_rate"] for n in (1, 2)]
    assert len(set(rates)) == 2 and all(1e-4 <= rate <= 0.1 for rate in rates)
    assert found["rl-trial-2"].inputs["model"] == [StageRef(stage="sft-trial-2", port="model")]
    assert found["rl-trial-2"].labels == {"trial": 2}
    assert found["sweep"].settings == [
        Setting(path=["trials", i, "values", 0], stage=f"ev-trial-{i + 1}", metric="pass_at_1", or_none=True)
        for i in range(2)
    ]


def test_more_trials_and_parameters_leave_those_there_were(tmp_path: Path) -> None:
    few = load(tmp_path, text(random(trials=2))).sweep
    both = f"{RATE}, other: [1, 5, 9]"
    params = f'{USE}, warmup_steps: "${{params.other}}"'
    many = load(tmp_path, text(random(both, trials=5), params)).sweep
    assert few is not None and many is not None
    assert [t.values["rate"] for t in few.trials if t.values] == [t.values["rate"] for t in many.trials if t.values][:2]
    again = load(tmp_path, text(random(trials=2)), "seed=1").sweep
    assert again is not None and again.trials[0].values != few.trials[0].values


def test_a_parameter_that_refers_to_a_swept_one_changes_with_it(tmp_path: Path) -> None:
    found = stages(load(tmp_path, text(random(), 'optimizer: {peak_learning_rate: "${params.twice}"}')))
    assert len({found[f"sft-trial-{n}"].params["optimizer"]["peak_learning_rate"] for n in (1, 2, 3)}) == 3


def test_a_grid_has_every_point_and_other_axes_stay(tmp_path: Path) -> None:
    grid = "space: {steps: {low: 4, high: 8, step: 2}, other: [1, 3]}, sampler: grid, minimize: ev.pass_at_1"
    recipe = load(
        tmp_path, text(grid, 'steps: "${params.steps}", warmup_steps: "${params.other}"') + "matrix: {seed: [3, 4]}\n"
    )
    assert recipe.sweep is not None
    points = [(4, 1), (4, 3), (6, 1), (6, 3), (8, 1), (8, 3)]
    assert [tuple((trial.values or {}).values()) for trial in recipe.sweep.trials] == points
    found = stages(recipe)
    assert found["sft-seed-4-trial-5"].params == {"steps": 8, "warmup_steps": 1}
    first = [setting for setting in found["sweep"].settings if setting.path[:2] == ["trials", 0]]
    assert [setting.stage for setting in first] == ["ev-seed-3-trial-1", "ev-seed-4-trial-1"], "the mean over the seeds"


def test_the_best_trial_is_an_input_like_any_other(tmp_path: Path) -> None:
    found = stages(
        load(
            tmp_path,
            text(random(), more='last: {uses: evaluate, in: {model: "rl[trial=best].model", dataset: data.heldout}}'),
        )
    )
    [reference] = found["last"].inputs["model"]
    assert reference == FirstOf(
        first_of=[StageRef(stage=f"rl-trial-{n}", port="model") for n in (1, 2, 3)],
        picked_by=StageRef(stage="sweep", port="best_trial"),
    )
    assert {"sweep", "rl-trial-1"} <= set(found["last"].after) and not found["last"].labels


def test_tpe_draws_later_rounds_in_the_run(tmp_path: Path) -> None:
    sweep = f"space: {{{RATE}, other: [1, 3]}}, trials: 5, batch: 2, sampler: tpe, maximize: ev.pass_at_1"
    recipe = load(tmp_path, text(sweep, f'{USE}, warmup_steps: "${{params.other}}"'))
    found = stages(recipe)
    assert recipe.sweep is not None and recipe.sweep.drawn == {3, 4, 5}
    assert [name for name in found if name.startswith("sweep")] == ["sweep-draw-2", "sweep-draw-3", "sweep"]
    assert found["sft-trial-2"].settings == []
    assert found["sft-trial-5"].settings == [
        Setting(path=["optimizer", "peak_learning_rate"], stage="sweep-draw-3", metric="rate_5"),
        Setting(path=["warmup_steps"], stage="sweep-draw-3", metric="other_5", choices=[1, 3]),
    ]
    assert set(found["sweep-draw-2"].after) == {"ev-trial-1", "ev-trial-2"}


def test_a_rung_stops_what_its_metric_does_not_need(tmp_path: Path) -> None:
    found = stages(load(tmp_path, text(random(more=", stop: [{at: sft.loss, keep: 0.5}, {at: rl.kl, at_most: 1}]"))))
    assert found["sft-trial-1"].when is None
    assert found["rl-trial-1"].when == "sweep-rung-1-1.goes_on_1 >= 1"
    assert found["ev-trial-3"].when == "sweep-rung-2-1.goes_on_3 >= 1"
    assert set(found["sweep-rung-1-1"].after) == {"sft-trial-1", "sft-trial-2", "sft-trial-3"}


def test_a_failed_trial_is_left_behind_if_the_sweep_says_so(tmp_path: Path) -> None:
    found = stages(load(tmp_path, text(random(trials=2, more=", on_failure: skip"))))
    assert {name for name, stage in found.items() if stage.on_failure == "skip"} == {
        f"{name}-trial-{n}" for name in ("sft", "rl", "ev") for n in (1, 2)
    }
    assert [setting for setting in found["sweep"].settings if setting.failure] == [
        Setting(path=["trials", n - 1, "failures", place], stage=f"{name}-trial-{n}", or_none=True, failure=True)
        for n in (1, 2)
        for place, name in enumerate(("sft", "rl", "ev"))
    ]
    own = text(random(trials=2, more=", on_failure: skip")).replace("uses: rl,", "uses: rl, on_failure: stop,")
    assert stages(load(tmp_path, own))["rl-trial-1"].on_failure == "stop", "a stage's own word comes first"
    [problem] = messages(tmp_path, text(random(trials=2, more=", on_failure: ignore")))
    assert "sweep.on_failure: got 'ignore', expected one of stop, skip" in problem


@pytest.mark.parametrize(
    ("sweep", "params", "said"),
    [
        ("space: {lr: [1, 2]}, trials: 2, maximize: ev.pass_at_1", USE, "unknown parameter in sweep.space: 'lr'"),
        (random("rate: {low: 2, high: 1}"), USE, "low 2 is not below high 1"),
        (random("rate: {low: 0, high: 1, log: true}"), USE, "a logarithmic scale needs a low above 0, got 0"),
        (random("rate: [0.1, 0.1]"), USE, "expected at least two choices, each once"),
        (random("rate: 5"), USE, "expected a list of choices or a range {low, high, log, step}"),
        (random("steps: {low: 4, high: 90}"), USE, "params.steps: got 90, expected at most 64"),
        (random("rate: [0.1, 0.2]", trials=3), USE, "sweep.trials: got 3, and the space has 2 points"),
        (f"space: {{{RATE}}}, trials: 2", USE, "expected exactly one of maximize and minimize"),
        (f"space: {{{RATE}}}, maximize: ev.pass_at_1", USE, "trials is missing: how many does random draw?"),
        (f"space: {{{RATE}}}, sampler: grid, maximize: ev.pass_at_1", USE, "a grid needs points or step here"),
        (random(more=", batch: 2"), USE, "batch is for tpe"),
        (random(more=", stop: [{at: sft.loss}]"), USE, "expected exactly one of keep"),
        (random("other: [1, 2]", trials=2), USE, "no stage uses ${params.other}"),
        (random().replace("ev.pass_at_1", "ev.right"), USE, "unknown metric of 'ev': 'right'"),
        (random().replace("ev.pass_at_1", "data.num_rows"), USE, "is the same in all trials"),
        (random().replace("ev.pass_at_1", "nowhere.x"), USE, "unknown stage 'nowhere'"),
        (random("rate: [0.1, -1]", trials=2), USE, "optimizer.peak_learning_rate"),
    ],
)
def test_what_is_refused(tmp_path: Path, sweep: str, params: str, said: str) -> None:
    found = messages(tmp_path, text(sweep, params))
    assert any(said in message for message in found), found


def test_tpe_refuses_what_the_run_could_not_set(tmp_path: Path) -> None:
    tpe = f"space: {{{RATE}}}, trials: 4, batch: 2, sampler: tpe, maximize: ev.pass_at_1"
    [inside] = messages(tmp_path, text(tpe, 'notes: {a: "rate ${params.rate}"}'))
    assert "with sampler tpe the run draws it, so it must be the whole value of a parameter of a stage" in inside
    late = text(
        tpe, USE, more="more: {uses: sft, in: {model: sft.model, dataset: data.dataset}, when: params.rate > 0.1}"
    )
    assert "is swept: with sampler tpe" in messages(tmp_path, late)[0]
    space = "space: {other: [1, 2, 3, 4, 5, 6, 90]}, trials: 3, batch: 1, sampler: tpe, maximize: ev.pass_at_1"
    [ends] = messages(tmp_path, text(space, 'warmup_steps: "${params.other}"'))
    assert "sweep.space.other: 90 in stage 'sft'" in ends and "must not exceed steps" in ends


def test_a_swept_parameter_cannot_change_the_graph_and_sweep_is_a_stage_s_name(tmp_path: Path) -> None:
    rounds = text(
        random("other: [1, 2]", trials=2), more="loop: {repeat: '${params.other}', stages: {a: {uses: curate}}}"
    )
    assert any("all trials have one graph" in message for message in messages(tmp_path, rounds))
    named = text(random(), more="sweep: {uses: curate}")
    assert "the section 'sweep' makes a stage of this name" in messages(tmp_path, named)[0]
    listed = text(
        random(), more='last: {uses: sft, in: {model: ["rl[trial=best].model", sft.model], dataset: data.dataset}}'
    )
    assert any("it stands alone, not in a list" in message for message in messages(tmp_path, listed))


def test_a_recipe_becomes_a_sweep_by_extending_it(tmp_path: Path) -> None:
    write(tmp_path, text(random()).replace(f"sweep: {{{random()}}}\n", ""), "plain.yaml")
    child = f"extends: ./plain.yaml\nsweep: {{{random(trials=2)}}}\n"
    assert "ev-trial-2" in stages(load(tmp_path, child))
    assert len([name for name in stages(load(tmp_path, child, "sweep.trials=4")) if name.startswith("ev")]) == 4
