"""The recipe for real models on a model of the same architecture at toy width, trained on two processes."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from components.modeling.text.tokenizer import train_tokenizer
from components.modeling.text.tokenizer_config import TokenizerConfig
from components.runtime.ledger.records import stage_key
from components.runtime.store import open_store
from pipelines.plan.memory import memory_fits
from pipelines.plan.plan import build_plan
from pipelines.recipe.recipe import load_recipe

ROOT = Path(__file__).parents[2]
SMALL = {"sft_epochs": 1, "rl_steps": 2, "prompts_per_step": 4, "response_tokens": 12, "eval_samples": 1}


def problem(first: int, second: int) -> dict[str, str]:
    """Return one problem as openai/gsm8k has it."""
    question = f"Tom has {first} apples and buys {second} more. How many has he?"
    return {"question": question, "answer": f"He has {first} + {second} = {first + second}.\n#### {first + second}"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with problems and a Qwen2.5 of random weights and toy width."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    draw = random.Random(0)
    for name, lowest, count in (("train", 10, 40), ("test", 200, 6)):
        rows = [problem(draw.randint(lowest, lowest + 89), draw.randint(10, 99)) for _ in range(count)]
        (tmp_path / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    tokenizer = train_tokenizer([problem(1, 2)["answer"]], {"gsm8k": []}, TokenizerConfig(byte_fallback=True))
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    Qwen2ForCausalLM(config).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    return tmp_path


def settings(folder: Path) -> dict[str, Any]:
    return {"base": f"file:{folder}/model", "train": f"{folder}/train.jsonl", "test": f"{folder}/test.jsonl"}


def overrides(values: dict[str, Any]) -> list[str]:
    return [f"{name}={json.dumps(value)}" for name, value in values.items()]


def test_the_plan_for_one_node_and_for_two(folder: Path) -> None:
    one, two = (
        build_plan(load_recipe("gsm8k", overrides(settings(folder) | more)), str(folder / "store"), "r")
        for more in ({}, {"pool": "h100x16"})
    )
    found = {job.stage: job.resources for job in one.jobs}
    assert (found["rl"].trainer, found["rl"].sampler, found["rl"].world_size) == ("deepspeed", "vllm", 8)
    assert (found["eval-rl"].gpus, found["eval-rl"].trainer, found["curate" if "curate" in found else "test"].gpus) == (
        1,
        "torch",
        0,
    )
    wide = {job.stage: job.resources for job in two.jobs}["rl"]
    assert (wide.nodes, wide.zero_stage, wide.world_size) == (2, 3, 16)
    assert all(fit.fits for fits in memory_fits(one.recipe).values() for fit in fits)


@pytest.mark.deepspeed
def test_it_runs_at_toy_width_on_two_processes(folder: Path) -> None:
    store = folder / "store"
    values = settings(folder) | SMALL | {"pool": "cpu", "eval_pool": "cpu"}
    values |= {f"defaults.with.{name}.dtype": "float32" for name in ("sft", "rl", "evaluate")}
    backend = {"trainer": "deepspeed", "zero_stage": 3, "processes": 2}
    values |= {f"stages.{stage}.backend": backend for stage in ("sft", "rl")}
    values |= {"stages.sft.with.batch_size": 8, "stages.rl.with.group_size": 4}
    command = [sys.executable, "-m", "pipelines.cli", "run", "gsm8k", "--store", str(store)]
    command += [word for override in overrides(values) for word in ("--set", override)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=500)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    opened = open_store(str(store))
    (run,) = {key.split("/")[1] for key in opened.keys("ledger/") if key.endswith(".json") and "/" in key[7:]}
    entry = opened.get(stage_key(run, "rl"))
    assert entry is not None
    assert entry["metrics"]["num_samples"] == 2 * 4 * 4
    model = opened.fetch(entry["outputs"]["model"]["digest"])
    assert json.loads((model / "config.json").read_text())["architectures"] == ["Qwen2ForCausalLM"]
