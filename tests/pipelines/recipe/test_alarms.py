"""Alarms in the recipe language: `on_alarm`, bounds, and what parameters are called in the recipe."""

from __future__ import annotations

from pathlib import Path

from components.contract.job import Job
from pipelines.plan.plan import build_plan
from tests.pipelines.writing import load, messages

RECIPE = """
params: {lr: 0.1}
defaults: {on_alarm: stop}
stages:
  data:
    uses: curate
    with: {kind: prompts, sources: [{domain: a, count: 9, source: {name: reasoning_gym, task: chain_sum}}]}
  base: {uses: pretrain, in: {dataset: data.dataset}, with: {optimizer: {peak_learning_rate: "${params.lr}"}}}
  loop:
    repeat: 1
    carry: {model: base.model}
    yield: {model: rl.model}
    stages:
      rl:
        uses: rl
        in: {model: carry.model, dataset: data.dataset}
        on_alarm: warn
        alarms: {nothing_right: off, kl_beyond_bound: 3}
"""


def jobs(folder: Path, text: str, *overrides: str) -> dict[str, Job]:
    return {job.stage: job for job in build_plan(load(folder, text, *overrides), str(folder), "r").jobs}


def test_the_reaction_comes_from_the_stage_or_the_defaults_and_bounds_may_be_off(tmp_path: Path) -> None:
    found = jobs(tmp_path, RECIPE)
    assert {name: job.on_alarm for name, job in found.items()} == {"data": "stop", "base": "stop", "loop-1-rl": "warn"}
    assert found["loop-1-rl"].alarms == {"nothing_right": None, "kl_beyond_bound": 3.0}


def test_alarms_call_parameters_what_set_calls_them(tmp_path: Path) -> None:
    found = jobs(tmp_path, RECIPE)
    assert found["base"].written["optimizer.peak_learning_rate"] == "lr"
    assert found["base"].written["optimizer.warmup_steps"] == "stages.base.with.optimizer.warmup_steps"
    name = found["loop-1-rl"].written["optimizer.peak_learning_rate"]
    assert name == "stages.loop.stages.rl.with.optimizer.peak_learning_rate"
    changed = jobs(tmp_path, RECIPE, f"{name}=0.05")["loop-1-rl"]
    assert changed.params["optimizer"]["peak_learning_rate"] == 0.05


def test_a_plan_is_the_same_whatever_its_parameters_are_called(tmp_path: Path) -> None:
    plain = RECIPE.replace('"${params.lr}"', "0.1")
    digests = {build_plan(load(tmp_path, text), "s", "r").digest for text in (RECIPE, plain)}
    assert len(digests) == 1


def test_mistakes_are_told_at_their_line(tmp_path: Path) -> None:
    text = """
stages:
  data:
    uses: curate
    on_alarm: stop
    with: {kind: prompts, sources: [{domain: a, count: 9, source: {name: reasoning_gym, task: chain_sum}}]}
  base:
    uses: pretrain
    in: {dataset: data.dataset}
    on_alarm: explode
    alarms: {loss_explodes: 3, not_finite: never}
  sft: {uses: sft, in: {model: base.model, dataset: data.dataset}, alarms: {loss_explodes: 3}}
"""
    found = "\n".join(messages(tmp_path, text))
    assert "stage 'data', on_alarm: component 'curate' raises no alarms" in found
    assert "stage 'base', on_alarm: got 'explode'" in found
    assert "stage 'base', alarms.not_finite: got 'never', expected a number, or off" in found
    assert "alarm of stage 'sft': 'loss_explodes'" in found
    assert "loss_exploded" in found


ROLLED_BACK = """
stages:
  data:
    uses: curate
    with: {kind: prompts, sources: [{domain: a, count: 9, source: {name: reasoning_gym, task: chain_sum}}]}
  base: {uses: pretrain, in: {dataset: data.dataset}}
  rl: {uses: rl, in: {model: base.model, dataset: data.dataset}, on_alarm: rollback, keep_partial: every 5}
"""


def test_rollback_needs_kept_checkpoints_and_a_stage_that_returns_to_them(tmp_path: Path) -> None:
    assert jobs(tmp_path, ROLLED_BACK)["rl"].on_alarm == "rollback"
    bare = ROLLED_BACK.replace(", keep_partial: every 5", "")
    (found,) = messages(tmp_path, bare)
    assert found.endswith(
        "stage 'rl', on_alarm: rollback returns to a checkpoint that is kept: set `keep_partial: every N`, too"
    )
    other = ROLLED_BACK.replace("base: {uses: pretrain,", "base: {uses: pretrain, on_alarm: rollback,")
    (found,) = messages(tmp_path, other)
    assert found.endswith("on_alarm: component 'pretrain' does not return to a checkpoint; set stop")


def test_a_default_of_rollback_stops_the_stages_that_cannot_return(tmp_path: Path) -> None:
    text = "defaults: {on_alarm: rollback, keep_partial: every 5}" + ROLLED_BACK.replace(
        "on_alarm: rollback, keep_partial: every 5", "summary: x"
    )
    found = jobs(tmp_path, text)
    assert {name: job.on_alarm for name, job in found.items()} == {"data": "stop", "base": "stop", "rl": "rollback"}


def test_rollback_is_refused_for_several_processes(tmp_path: Path) -> None:
    several = ROLLED_BACK.replace("every 5", "every 5, backend: {trainer: deepspeed, processes: 2}")
    (found,) = messages(tmp_path, several)
    assert found.endswith("rollback is for stages of one process, and this one trains on 2; set stop")
