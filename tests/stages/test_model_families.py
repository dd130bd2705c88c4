"""sft, rl and evaluate one after the other on families beyond Llama: on the native decoder, and mixtures of experts."""

from __future__ import annotations

import json
import string
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from components.contract.component import Component
from components.evaluate.component import COMPONENT as EVALUATE
from components.modeling.loading.load import load_policy
from components.modeling.text.tokenizer import train_tokenizer
from components.modeling.text.tokenizer_config import TokenizerConfig
from components.rl.component import COMPONENT as RL
from components.sft.component import COMPONENT as SFT
from tests.modeling import decoder_models
from tests.stages.rl_stage import item
from tests.support.stage_context import Finished, run_stage, write_jsonl

pytestmark = pytest.mark.usefixtures("one_thread")

STAGES: tuple[tuple[Component, dict[str, Any]], ...] = (
    (SFT, {"optimizer": {"peak_learning_rate": 2e-2}, "steps": 25, "batch_size": 8}),
    (
        RL,
        {
            "optimizer": {"peak_learning_rate": 1e-3},
            "steps": 2,
            "prompts_per_step": 4,
            "group_size": 4,
            "max_new_tokens": 2,
        },
    ),
    (EVALUATE, {"num_samples": 4, "max_new_tokens": 3, "bootstrap_samples": 100}),
)
LORA = {"rank": 4, "bits": 4}


def base(kind: str, folder: Path) -> Path:
    """Write a random model of a family with a tokenizer of letters."""
    tokenizer = train_tokenizer([string.ascii_letters], {}, TokenizerConfig(phrases=False))
    model = decoder_models.build(kind)
    model.resize_token_embeddings(len(tokenizer))
    model.config.eos_token_id = model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.config.pad_token_id = tokenizer.pad_token_id
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.parametrize(
    ("kind", "backend", "lora"),
    [
        ("gemma2", "native", None),
        ("phi3", "native", LORA),
        ("qwen3-moe", "transformers", None),
        ("gpt-oss", "transformers", {"rank": 4}),
    ],
)
def test_a_family_goes_through_the_stages(kind: str, backend: str, lora: dict[str, Any] | None, tmp_path: Path) -> None:
    model = base(kind, tmp_path / "base")
    assert load_policy(model).backend == backend
    rows = [{**item(index), "response": "x"} for index in range(8)]
    data = write_jsonl(tmp_path / "data", rows)
    finished: dict[str, Finished] = {}
    for component, params in STAGES:
        given = params if component is EVALUATE or lora is None else {**params, "lora": lora}
        dataset = data if component is SFT else [data]
        inputs = {"model": model, "dataset": dataset}
        finished[component.name] = run_stage(component, tmp_path / component.name, params=given, inputs=inputs)
        model = finished[component.name].outputs.get("model", model)
    losses = [row["loss"] for row in finished["sft"].history]
    # Adapters of four rows change less of a random model, whose head is frozen.
    assert losses[-1] < (0.5 if lora is None else 0.8) * losses[0]
    evaluated = finished["evaluate"].metrics
    assert evaluated["num_failed"] == 0
    assert evaluated["pass_at_1"] > (0.3 if lora is None else 0.01)  # at random about 0.005: a letter, then the end
    before, after = (json.loads((tmp_path / at / "config.json").read_text()) for at in ("base", model))
    assert before["architectures"] == after["architectures"]
    tokens = torch.tensor([[5, 6, 7]])
    one, two = (AutoModelForCausalLM.from_pretrained(at)(tokens).logits for at in (tmp_path / "base", model))
    assert two.isfinite().all() and (one - two).abs().max() > 1e-2
