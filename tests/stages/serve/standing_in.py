"""A serve stage on a small model, whose server is the stand-in."""

from __future__ import annotations

import json
import string
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from components.modeling.loading.load import new_policy
from components.modeling.models.model_config import ModelConfig
from components.modeling.text.tokenizer import train_tokenizer
from components.modeling.text.tokenizer_config import TokenizerConfig
from components.serve.component import COMPONENT
from components.serve.server.commands import Command, Serving
from tests.support.stage_context import Finished, LocalContext, run_stage, write_jsonl

SCRIPT = Path(__file__).with_name("stand_in.py")
PARAMS = {
    "num_samples": 2,
    "max_new_tokens": 8,
    "check": False,
    "concurrency": 4,
    "retries": 1,
    "max_failed_share": 0.5,
}


def small_model(folder: Path) -> Path:
    characters = string.ascii_letters + string.digits + string.punctuation + " "
    tokenizer = train_tokenizer([characters], {}, TokenizerConfig(phrases=False))
    config = ModelConfig(width=16, layers=1, heads=2, mlp_width=24, max_positions=512)
    new_policy(config, tokenizer=tokenizer, seed=0).save(folder)
    return folder


def sums(count: int = 6) -> list[dict[str, Any]]:
    """Return rows "what is A + 2 ?" for A from 0 on: the stand-in answers even A right."""
    plain = {"domain": "sums", "verifier": "numeric", "data": {}}
    return [{"id": f"p{a}", "prompt": f"what is {a} + 2 ?", "answer": str(a + 2), **plain} for a in range(count)]


def command(mode: str, journal: Path) -> Callable[..., Command]:
    def made(serving: Serving, port: int, *given: Any) -> Command:
        words = [sys.executable, str(SCRIPT), mode, str(port), serving.model, str(journal)]
        return Command("transformers", words, {"POSTTRAIN_SERVE_KEY": serving.key, "PATH": "/usr/bin:/bin"})

    return made


def serve(
    folder: Path, model: Path, mode: str, monkeypatch: pytest.MonkeyPatch, rows: Any = None, **params: Any
) -> Finished:
    monkeypatch.setattr("components.serve.run.command_for", command(mode, folder / "journal"))
    data = write_jsonl(folder / "data", rows or sums())
    inputs = {"model": model, "dataset": [data]}
    return run_stage(COMPONENT, folder / "stage", params={**PARAMS, **params}, inputs=inputs, seed=3)


def journal(folder: Path) -> list[dict[str, Any]]:
    path = folder / "journal"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


class Remembering(LocalContext):
    """A context that keeps what is recorded, as the store does, in a dict that outlives it."""

    def __init__(self, kept: dict[str, Any], *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.kept = kept

    def records(self) -> dict[str, dict[str, Any]]:
        return dict(self.kept)

    def record(self, key: str, value: dict[str, Any]) -> None:
        json.dumps(value, allow_nan=False)
        self.kept.setdefault(key, value)
