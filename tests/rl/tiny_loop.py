"""A loop over a model of a few thousand weights with prompts that it solves now and then, for tests of whole steps."""

from __future__ import annotations

import string
from pathlib import Path
from typing import Any

from components.contract.params import Params
from components.contract.registry import operators
from components.modeling.loading.load import load_policy, new_policy
from components.modeling.models.model_config import ModelConfig
from components.modeling.text.prompting import encode_prompts
from components.modeling.text.tokenizer import train_tokenizer
from components.modeling.text.tokenizer_config import TokenizerConfig
from components.rl.batch.batch import Prompt
from components.rl.params import RLParams
from components.rl.run import build_loop
from components.rl.step.loop import Loop
from components.tasks.item import Item
from components.tasks.verdict import RIGHT, Verdict, wrong

SIZES = {"prompts_per_step": 4, "group_size": 4, "max_new_tokens": 4, "start_kl_every": 0}


class EarlyLettersConfig(Params):
    """No settings."""


def toy_early_letters(item: Item, response: str, *, config: EarlyLettersConfig) -> Verdict:
    """Judge by whether the response has a letter of the first third of the alphabet."""
    return RIGHT if set(response.lower()) & set("abcdefgh") else wrong("no early letter")


operators("verifier").add("toy_early_letters", f"{__name__}:toy_early_letters", origin="test")


def write_model(folder: Path) -> Path:
    """Write a tiny model that knows letters and digits; return its folder."""
    tokenizer = train_tokenizer([string.ascii_letters + string.digits], {}, TokenizerConfig(phrases=False))
    new_policy(ModelConfig(width=16, layers=1, heads=2, mlp_width=24), tokenizer=tokenizer, seed=0).save(folder)
    return folder


def items(count: int = 8, **changes: Any) -> list[Item]:
    """Return items with numbers that curricula read; right is a letter of the first half of the alphabet, anywhere.

    `changes` replaces fields of all of them.
    """
    sizes = [{"number": i, "metadata": {"num_terms": 2 + i % 3, "num_digits": 1 + i % 2}} for i in range(count)]
    return [
        Item(
            **{
                "id": f"p{i}",
                "domain": "A" if i % 2 else "B",
                "prompt": f"letter {i}",
                "answer": "x",
                "verifier": "toy_early_letters",
                "data": sizes[i],
            }
            | changes
        )
        for i in range(count)
    ]


def loop_of(folder: Path, *, pool: list[Item] | None = None, seed: int = 0, **given: Any) -> Loop:
    """Return a loop over `pool`, by default eight prompts in two domains."""
    policy = load_policy(folder)
    assert policy.tokenizer is not None
    chosen = items() if pool is None else pool
    tokens = encode_prompts(policy.tokenizer, [item.prompt for item in chosen])
    prompts = [Prompt(item, tuple(ids)) for item, ids in zip(chosen, tokens, strict=True)]
    return build_loop(RLParams.model_validate(SIZES | {"steps": 4} | given), policy, prompts, start=folder, seed=seed)
