"""Small inputs for the tests of supervised stages: a base model, and demonstrations of two domains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from components.modeling.loading.load import new_policy
from components.modeling.models.model_config import ModelConfig
from components.modeling.text.tokenizer import train_tokenizer
from tests.support.stage_context import write_jsonl

torch.set_num_threads(1)  # equal bytes are promised for one thread

WORDS = ("cat", "sun", "tiger", "moon", "star", "ox", "river", "stone")
SMALL = ModelConfig(width=16, layers=1, heads=2, mlp_width=24)


def demonstrations(count: int = 48) -> list[dict[str, Any]]:
    """Rows of two domains, half sums, half words to be spelled backward."""
    rows = []
    for index in range(count):
        if index % 2:
            word = WORDS[index // 2 % len(WORDS)]
            row = {"domain": "words", "prompt": f"Spell backward: {word}", "response": f"<answer>{word[::-1]}"}
        else:
            a, b = index % 5, index % 7
            answer = f"<think>{a}+{b}={a + b}<answer>{a + b}"
            row = {"domain": "sums", "prompt": f"What is the sum: {a} + {b} =", "response": answer}
        rows.append({"id": f"row-{index}", **row})
    return rows


def demonstrations_folder(folder: Path, count: int = 48) -> Path:
    """Write the demonstrations as a Dataset."""
    return write_jsonl(folder, demonstrations(count))


def base_model(folder: Path) -> Path:
    """Write an untrained model."""
    rows = demonstrations()
    prompts = {domain: [row["prompt"] for row in rows if row["domain"] == domain] for domain in ("sums", "words")}
    folder.mkdir(parents=True)
    new_policy(SMALL, tokenizer=train_tokenizer([], prompts), seed=0).save(folder)
    return folder
