"""A model of a few thousand weights, prompts that any letter answers, and the rl stage on them."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

from components.modeling.loading.load import new_policy
from components.modeling.models.model_config import ModelConfig
from components.modeling.text.tokenizer import train_tokenizer
from components.modeling.text.tokenizer_config import TokenizerConfig
from components.rl.component import COMPONENT
from tests.support.stage_context import Finished, Interrupted, run_stage

PARAMS: dict[str, Any] = {
    "steps": 6,
    "prompts_per_step": 4,
    "group_size": 4,
    "max_new_tokens": 1,
    "checkpoint_every": 2,
    "save_every": 4,
    "start_kl_every": 3,
    "optimizer": {"peak_learning_rate": 5e-3, "warmup_steps": 2},
    "record": {"browse_every": 2, "browse_samples": 3, "right_samples": 5},
}


def make_model(folder: Path) -> Path:
    """Write a randomly initialised model and return its folder."""
    tokenizer = train_tokenizer([string.ascii_letters], {}, TokenizerConfig(phrases=False))
    new_policy(ModelConfig(width=16, layers=1, heads=2, mlp_width=24), tokenizer=tokenizer, seed=0).save(folder)
    return folder


def item(index: int, *, answer: str = "x") -> dict[str, Any]:
    """A prompt that any letter answers: about half of random tokens. An empty answer breaks it."""
    return {
        "id": f"p{index}",
        "domain": "letters",
        "prompt": f"letter {index}",
        "answer": answer,
        "verifier": "exact",
        "data": {
            "aliases": list(string.ascii_lowercase),
            "metadata": {"num_terms": 2 + index % 3, "num_digits": 1 + index % 2},
        },
    }


def lines(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a JSON Lines file."""
    return [json.loads(line) for line in path.read_text().splitlines()]


class RandomClock:
    """Says at random that a checkpoint is due, and kills the stage a few times, at instants of its own."""

    def __init__(self, seed: int, kills: int) -> None:
        self._draw, self.kills_left, self.checkpoints = random.Random(seed), kills, 0

    def __call__(self) -> bool:
        """Be asked after each step."""
        if self.kills_left and self._draw.random() < 0.25:
            self.kills_left -= 1
            raise Interrupted
        due = self._draw.random() < 0.4
        self.checkpoints += due
        return due


def run(
    folder: Path,
    model: Path,
    dataset: Path,
    *,
    stop_after: int | None = None,
    due: Callable[[], bool] = lambda: False,
    ledger: Path | None = None,
    **params: Any,
) -> Finished:
    """Run the stage with PARAMS and the given ones; with `stop_after` it is interrupted at that checkpoint."""
    inputs: dict[str, Any] = {"model": model, "dataset": [dataset]}
    if ledger is not None:
        inputs["ledger"] = ledger
    params = {**PARAMS, **params}
    if "phases" in params:
        del params["steps"]
    return run_stage(COMPONENT, folder, params=params, inputs=inputs, seed=3, stop_after=stop_after, due=due)
