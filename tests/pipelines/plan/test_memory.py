"""Memory before a run: sizes follow the models through a recipe, and what does not fit is said with what to turn."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from components.contract.memory import MemoryKind
from pipelines.language.problems import RecipeErrors
from pipelines.plan.advice import advice
from pipelines.plan.memory import memory_fits, stages_of_unknown_models
from pipelines.recipe.recipe import load_recipe

SEVEN = {
    "model_type": "qwen2",
    "vocab_size": 152064,
    "hidden_size": 3584,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "intermediate_size": 18944,
    "tie_word_embeddings": False,
}


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """Return a recipe that fine-tunes a model folder of a given size."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps(SEVEN))
    (tmp_path / "rows.jsonl").write_text("{}\n")
    path = tmp_path / "large.yaml"
    path.write_text(
        f"""
name: large
stages:
  sft:
    uses: sft
    in: {{model: "file:{tmp_path}/model", dataset: "{tmp_path}/rows.jsonl"}}
    with: {{steps: 1, dtype: bfloat16, micro_batch_tokens: 4096}}
    pool: h100x8
  rl:
    uses: rl
    in: {{model: sft.model, dataset: "{tmp_path}/rows.jsonl"}}
    with: {{dtype: bfloat16, micro_batch_tokens: 4096, max_new_tokens: 1024, optimizer: {{name: adamw}}}}
    pool: h100x8
"""
    )
    return path


def test_a_model_is_known_behind_the_stage_that_trains_it(recipe: Path) -> None:
    fits = memory_fits(load_recipe(str(recipe)))
    assert set(fits) == {"sft", "rl"}
    assert [fit.where for fit in fits["rl"]] == [MemoryKind.GPU, MemoryKind.HOST]
    names = [need.name for need in fits["rl"][0].estimate.needs]
    assert "starting policy" in names
    assert "key-value cache" not in names  # the pool's sampler is vLLM


def test_what_does_not_fit_is_said_with_what_to_turn(recipe: Path) -> None:
    small = load_recipe(str(recipe), ["stages.sft.pool=h100x1"])
    (note,) = [line for line in advice(small) if line.startswith("sft:")]
    assert "GiB on each GPU of pool h100x1 during a training pass, which has 80 (optimiser states 85, " in note
    expected = "turn backend: {trainer: deepspeed, offload: optimizer}; lora: {rank: 8}; "
    assert note.endswith(f"{expected}backend: {{recompute: true}}; micro_batch_tokens: 2048, or take a larger pool")
    waits = "stages.rl.with.rollout=group"
    (note,) = [line for line in advice(load_recipe(str(recipe), [waits])) if line.startswith("rl:")]
    assert "GiB on each GPU of pool h100x8 between training passes, which has 80 (vLLM's share of the GPU 40, " in note
    fitting = load_recipe(str(recipe), [waits, "stages.rl.backend={offload: optimizer}"])
    assert not [line for line in advice(fitting) if "needs about" in line]


def test_an_engine_that_draws_ahead_by_default_is_said_and_can_be_made_to_wait(recipe: Path) -> None:
    remark, note = (line for line in advice(load_recipe(str(recipe))) if line.startswith("rl:"))
    chosen = "pool h100x8 sets rollout group_ahead and advantages group_mean_std, truncated_importance; "
    assert remark == f"rl: {chosen}what the stage sets itself stays"
    assert "GiB on each GPU of pool h100x8 during a training pass, which has 80 (vLLM's share of the GPU 40, " in note
    assert "; turn rollout: group; POSTTRAIN_VLLM_GPU_MEMORY=0.25; " in note


def test_some_of_a_pools_memory_stays_free(recipe: Path) -> None:
    (fit,) = (fit for fit in memory_fits(load_recipe(str(recipe)))["sft"] if fit.where is MemoryKind.GPU)
    assert fit.fits and fit.need_gib == pytest.approx(52, abs=1)
    tight = replace(fit, limit_gib=fit.need_gib / 0.96)
    assert not tight.fits and ", of which 5% should stay free (" in tight.warning
    assert replace(fit, limit_gib=fit.need_gib / 0.94).fits


def test_an_evaluation_has_an_estimate_too(recipe: Path) -> None:
    path = recipe.with_name("rows.jsonl")
    recipe.write_text(
        recipe.read_text()
        + f"""
  eval:
    uses: evaluate
    in: {{model: rl.model, dataset: "{path}"}}
    with: {{dtype: bfloat16}}
    pool: l4x1
"""
    )
    (note,) = [line for line in advice(load_recipe(str(recipe))) if line.startswith("eval:")]
    assert "GiB on each GPU of pool l4x1, which has 24 (vLLM's weights and a small cache 15, weights 14, " in note


def test_a_stage_of_an_unknown_model_is_left_out(recipe: Path, tmp_path: Path) -> None:
    (tmp_path / "model" / "config.json").unlink()
    loaded = load_recipe(str(recipe))
    assert (memory_fits(loaded), stages_of_unknown_models(loaded)) == ({}, ["sft", "rl"])


def test_the_quickstart_fits_a_laptop() -> None:
    fits = memory_fits(load_recipe("quickstart"))
    assert {"base", "sft", "rl", "replay"} <= set(fits)
    assert all(fit.fits and fit.need_gib < 2 for found in fits.values() for fit in found)


@pytest.mark.parametrize(
    ("change", "where", "said"),
    [
        (
            "stages.sft.backend={processes: 16}",
            "backend",
            "processes 16: 8 GPUs on each node are not shared out evenly",
        ),
        ("stages.rl.backend={processes: 3}", "backend", "take one of 1, 2, 4, 8"),
        (
            "stages.rl.with.optimizer.name=muon",
            "with.optimizer.name",
            "muon needs whole matrices, which ZeRO 2 cuts up",
        ),
    ],
)
def test_what_no_node_can_do_is_refused_before_it_is_paid_for(recipe: Path, change: str, where: str, said: str) -> None:
    with pytest.raises(RecipeErrors) as caught:
        load_recipe(str(recipe), [change])
    (problem,) = caught.value.problems
    assert f"{where} on pool 'h100x8': " in problem.message and said in problem.message


def test_an_optimizer_that_is_refused_has_its_line(recipe: Path) -> None:
    text = recipe.read_text().replace("optimizer: {name: adamw}", "optimizer: {name: muon}")
    recipe.write_text(text)
    with pytest.raises(RecipeErrors) as caught:
        load_recipe(str(recipe))
    (problem,) = caught.value.problems
    line = next(number for number, line in enumerate(text.splitlines(), 1) if "muon" in line)
    assert problem.mark.line == line
    load_recipe(str(recipe), ["stages.rl.backend={zero_stage: 0}"])


THIRTY_TWO = SEVEN | {
    "hidden_size": 5120,
    "num_hidden_layers": 64,
    "num_attention_heads": 40,
    "num_key_value_heads": 8,
    "intermediate_size": 27648,
}
"""Sizes of Qwen2.5-32B."""


def test_a_model_of_32_billion_weights_is_fine_tuned_on_two_nodes(recipe: Path, tmp_path: Path) -> None:
    """By the estimate: ZeRO 3 gathers the whole model between passes, FSDP never does."""
    (tmp_path / "model" / "config.json").write_text(json.dumps(THIRTY_TWO))
    pool = ["stages.sft.pool=h100x16", "stages.rl=null"]
    loaded = load_recipe(str(recipe), [*pool, "stages.sft.backend={trainer: fsdp, recompute: true}"])
    gpu, host = memory_fits(loaded)["sft"]
    assert gpu.estimate.model.parameters == pytest.approx(32.76e9, rel=1e-3)
    assert gpu.fits and host.fits and gpu.need_gib == pytest.approx(51.3, abs=1)
    assert not [line for line in advice(loaded) if "needs about" in line]
    zero = load_recipe(str(recipe), [*pool, "stages.sft.backend={recompute: true}"])
    (note,) = [line for line in advice(zero) if "needs about" in line]
    assert "between training passes, which has 80" in note


def test_rl_of_a_model_of_32_billion_weights_draws_layer_by_layer_on_two_nodes(recipe: Path, tmp_path: Path) -> None:
    (tmp_path / "model" / "config.json").write_text(json.dumps(THIRTY_TWO))
    changes = ["stages.sft.pool=h100x16", "stages.rl.pool=h100x16", "defaults.backend={trainer: fsdp, recompute: true}"]
    changes.append("stages.rl.backend.sampler=native")
    gpu, host = memory_fits(load_recipe(str(recipe), changes))["rl"]
    assert gpu.fits and host.fits and gpu.need_gib == pytest.approx(57.8, abs=1)
    (note,) = advice(load_recipe(str(recipe), [*changes, "stages.rl.backend.gather=model"]))
    assert "whole weights to draw and score with" in note and "turn backend: {gather: layer}" in note


def test_rl_of_32_billion_weights_draws_with_engines_over_several_ranks(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model" / "config.json").write_text(json.dumps(THIRTY_TWO))
    changes = ["stages.sft.pool=h100x16", "stages.rl.pool=h100x16", "defaults.backend={trainer: fsdp, recompute: true}"]
    (note,) = [line for line in advice(load_recipe(str(recipe), changes)) if "needs about" in line]
    assert "needs about 98.8 GiB" in note and "during a training pass" in note  # vLLM draws ahead meanwhile
    assert "POSTTRAIN_VLLM_GPU_MEMORY=0.25" in note and "rollout: group" in note
    monkeypatch.setenv("POSTTRAIN_VLLM_GPU_MEMORY", "0.25")
    gpu, host = memory_fits(load_recipe(str(recipe), [*changes, "stages.rl.with.rollout=group"]))["rl"]
    assert gpu.fits and host.fits and gpu.need_gib == pytest.approx(63, abs=1)
    assert gpu.estimate.parts(MemoryKind.GPU)["vLLM's share of the GPU"] == 20 * 2**30
    weights = host.estimate.parts(MemoryKind.HOST)["vLLM's weights"]
    assert weights == pytest.approx(2 * 32.76e9 / 8, rel=1e-3)  # of each rank: one engine for eight
