"""Small trained models with known skills, for stages that measure: seconds to make, made once per session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from components.modeling.loading.load import new_policy
from components.modeling.models.model_config import ModelConfig
from components.modeling.models.policy import Policy
from components.modeling.supervised.examples import examples_from_rows
from components.modeling.supervised.trainer import fit
from components.modeling.text.tokenizer import train_tokenizer
from components.modeling.training.training_config import OptimizerConfig, SupervisedConfig
from components.tasks.item import item_id

WORDS = ["".join(letters) for letters in product("abcd", repeat=2) if letters[0] != letters[1]]


def prompt_row(domain: str, word: str, **changes: Any) -> dict[str, Any]:
    """Return a prompt of domain "copy" (ab -> ab) or "flip" (ab -> ba)."""
    prompt, answer = f"{domain} {word}", word if domain == "copy" else word[::-1]
    row = {"id": item_id(domain, prompt, answer), "domain": domain, "prompt": prompt, "answer": answer}
    return {**row, "verifier": "exact", "data": {}, **changes}


def prompt_rows(*domains: str) -> list[dict[str, Any]]:
    """Return all prompts of some domains."""
    return [prompt_row(domain, word) for domain in domains for word in WORDS]


def demonstration(row: dict[str, Any], response: str | None = None) -> dict[str, Any]:
    """Return a row with a response: the right one, unless another is given."""
    return {**row, "response": row["answer"] if response is None else response}


class Silent:
    """Hooks of a training that nobody watches."""

    def progress(self, *args: Any, **metrics: float) -> None: ...

    def log(self, *args: Any, **metrics: float) -> None: ...

    def checkpoint(self, *args: Any) -> None: ...


def train(policy: Policy, rows: Sequence[dict[str, Any]], steps: int, **optimizer: Any) -> None:
    """Train on demonstrations in place."""
    config = SupervisedConfig(
        steps=steps, batch_size=24, checkpoint_every=0, optimizer=OptimizerConfig(name="muon", **optimizer)
    )
    fit(policy, examples_from_rows(policy.tokenizer, rows), config, Silent(), seed=0)


@dataclass(frozen=True)
class ToyModels:
    """Folders of models: one untrained, one that can copy and flip, one that can copy but no longer flip."""

    fresh: Path
    both: Path
    forgetful: Path


@cache
def toy_models() -> ToyModels:
    """Train the models."""
    root = Path(mkdtemp(prefix="toy-models-"))
    folders = ToyModels(root / "fresh", root / "both", root / "forgetful")
    rows = prompt_rows("copy", "flip")
    prompts = {name: [row["prompt"] for row in rows if row["domain"] == name] for name in ("copy", "flip")}
    policy = new_policy(
        ModelConfig(width=32, layers=2, heads=2, mlp_width=64), tokenizer=train_tokenizer([], prompts), seed=1
    )
    _save(policy, folders.fresh)
    train(policy, [demonstration(row) for row in rows], 120, peak_learning_rate=3e-2, schedule="cosine")
    _save(policy, folders.both)
    train(
        policy, [demonstration(row, row["prompt"][-2:]) for row in rows], 48, peak_learning_rate=2e-2, schedule="cosine"
    )
    _save(policy, folders.forgetful)
    return folders


def _save(policy: Policy, folder: Path) -> None:
    folder.mkdir()
    policy.save(folder)
