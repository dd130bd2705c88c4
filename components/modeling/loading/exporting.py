"""A model's files as a Hugging Face folder: what transformers, vLLM and converters read, and the ends of its turns."""

from __future__ import annotations

import shutil
from pathlib import Path

from components.modeling.models.folder import (
    generation_config,
    load_tokenizer,
    padding_id,
    read_config,
    read_generation_config,
    write_json,
)
from components.modeling.text.turn_ends import find_turn_ends

GENERATION = "generation_config.json"
CARD = "README.md"
"""The card of the model that another one began as: not copied."""
UNSAFE = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".py")
"""Weights that unpickle, and code: not exported."""


def write_exported(source: Path, folder: Path) -> None:
    """Copy a model into an empty folder, with the access of new files (a store's are read-only), and complete its ends.

    generation_config.json then lists every token that ends a turn; those of base models often lack the template's.
    """
    for path in sorted(source.rglob("*")):
        if path.is_file() and path.suffix not in UNSAFE and path.name != CARD:
            place = folder / path.relative_to(source)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, place)
    _complete_ends(folder)


def _complete_ends(folder: Path) -> None:
    config, stored, tokenizer = read_config(folder), read_generation_config(folder), load_tokenizer(folder)
    ends = find_turn_ends(tokenizer, config, stored)
    wanted = generation_config(stored, ends.ids, padding_id(config, tokenizer))
    if wanted != stored:
        write_json(folder / GENERATION, wanted)
