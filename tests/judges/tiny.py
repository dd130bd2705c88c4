"""A judge of a few thousand weights, trained by sft to say y or n of a response."""

from __future__ import annotations

import random
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

from components.contract.job import Resources
from components.judges.config import PointwiseConfig
from components.judges.fencing import request_of
from components.modeling.loading.load import new_policy
from components.modeling.models.model_config import ModelConfig
from components.modeling.serving.local import LocalModel
from components.modeling.text.tokenizer import train_tokenizer
from components.modeling.text.tokenizer_config import TokenizerConfig
from components.sft.component import COMPONENT
from tests.support.stage_context import run_stage, write_jsonl

TINY: dict[str, Any] = {
    "template": "{response}=",
    "fence": "quoted",
    "mark": "",
    "labels": {"y": 1, "n": 0},
    "max_new_tokens": 3,
}
EARLY = frozenset("abcdefgh")


def random_letters(rng: random.Random) -> str:
    """Return up to four letters, half of the times without an early one."""
    letters = string.ascii_lowercase if rng.random() < 0.5 else "".join(sorted(set(string.ascii_lowercase) - EARLY))
    return "".join(rng.choice(letters) for _ in range(rng.randint(1, 4)))


def has_early(text: str) -> bool:
    """Return what the judge learns to say."""
    return bool(EARLY & set(text))


def train_judge(
    folder: Path, write: Callable[[random.Random], str] = random_letters, right: Callable[[str], bool] = has_early
) -> Path:
    """Train a judge on random responses by the stage sft; return the model's folder."""
    rng, config = random.Random(0), PointwiseConfig.model_validate(TINY)
    texts = [write(rng) for _ in range(1500)]
    rows = [
        {
            "id": f"row-{index}",
            "domain": "judging",
            "prompt": request_of(config.wording, {"response": text}, {}, config.fence).text,
            "response": "y" if right(text) else "n",
        }
        for index, text in enumerate(texts)
    ]
    characters = string.ascii_letters + string.digits + string.punctuation + " "
    tokenizer = train_tokenizer([characters], {}, TokenizerConfig(phrases=False))
    (folder / "start").mkdir(parents=True)
    new_policy(ModelConfig(width=32, layers=2, heads=2, mlp_width=64), tokenizer=tokenizer, seed=0).save(
        folder / "start"
    )
    params = {
        "steps": 120,
        "batch_size": 32,
        "checkpoint_every": 0,
        "save_every": 0,
        "optimizer": {"name": "muon", "peak_learning_rate": 0.02, "schedule": "cosine"},
    }
    inputs = {"model": folder / "start", "dataset": write_jsonl(folder / "rows", rows)}
    return run_stage(COMPONENT, folder / "stage", params=params, inputs=inputs).outputs["model"]


def open_judge(folder: Path, name: str = "judge.model") -> LocalModel:
    """Return the model as a stage opens it."""
    return LocalModel(name, folder, device="cpu", dtype="float32", resources=Resources())
