"""Memory before a run: sizes follow the models through a recipe, and what does not fit is said with what to turn."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipelines.advice import advice
from pipelines.memory import memory_fits, stages_of_unknown_models
from pipelines.recipe import load_recipe

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
    assert all(fit.fits for found in fits.values() for fit in found)
    names = [need.name for need in fits["rl"][0].estimate.needs]
    assert "starting policy" in names
    assert "key-value cache" not in names  # the pool's sampler is vLLM


def test_what_does_not_fit_is_said_with_what_to_turn(recipe: Path) -> None:
    small = load_recipe(str(recipe), ["stages.sft.pool=h100x1", "stages.sft.with.dtype=float32"])
    (note,) = [line for line in advice(small) if line.startswith("sft:")]
    assert "GiB on each GPU of pool h100x1, which has 80 (" in note
    expected = "turn backend.zero_stage: 1; micro_batch_tokens, smaller; backend.zero_stage: 3 (trainer deepspeed)"
    assert note.endswith(f"{expected}, or take a larger pool")
    assert not [line for line in advice(load_recipe(str(recipe))) if "needs about" in line]


def test_a_stage_of_an_unknown_model_is_left_out(recipe: Path, tmp_path: Path) -> None:
    (tmp_path / "model" / "config.json").unlink()
    loaded = load_recipe(str(recipe))
    assert (memory_fits(loaded), stages_of_unknown_models(loaded)) == ({}, ["sft", "rl"])


def test_the_quickstart_fits_a_laptop() -> None:
    fits = memory_fits(load_recipe("quickstart"))
    assert {"base", "sft", "rl", "replay"} <= set(fits)
    assert all(fit.fits and fit.need_gib < 2 for found in fits.values() for fit in found)
