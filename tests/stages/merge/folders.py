"""Small model folders of known weights, and merges of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from components.merge.component import COMPONENT
from tests.support.stage_context import Finished, run_stage

CONFIG = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4, "tie_word_embeddings": False}
VOCABULARY = {"a": 0, "b": 1, "c": 2}


def write_model(
    folder: Path,
    weights: Mapping[str, Tensor],
    *,
    config: Mapping[str, Any] | None = None,
    vocabulary: Mapping[str, int] = VOCABULARY,
    shards: Mapping[str, list[str]] | None = None,
) -> Path:
    """Write a folder with the files that the stage reads; `shards` maps a file to its tensors."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({**CONFIG, **(config or {})}))
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": vocabulary}, "added_tokens": []}))
    if shards is None:
        save_file(dict(weights), folder / "model.safetensors", {"format": "pt"})
        return folder
    for file, names in shards.items():
        save_file({name: weights[name] for name in names}, folder / file, {"format": "pt"})
    index = {"metadata": {}, "weight_map": {name: file for file, names in shards.items() for name in names}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def read_model(folder: Path) -> dict[str, Tensor]:
    """Return all tensors of a folder."""
    return {name: one for file in sorted(folder.glob("*.safetensors")) for name, one in load_file(file).items()}


def merge(folder: Path, models: list[Path], base: Path | None = None, *, seed: int = 0, **params: Any) -> Finished:
    """Run the stage."""
    inputs: dict[str, Any] = {"models": models, **({} if base is None else {"base": base})}
    formed = COMPONENT.formed(COMPONENT.params.model_validate(params))
    return run_stage(formed, folder, params=params, inputs=inputs, seed=seed)


def merged(
    tmp: Path,
    models: list[Mapping[str, Tensor]],
    base: Mapping[str, Tensor] | None,
    merger: Any,
    seed: int = 0,
    **params: Any,
) -> dict[str, Tensor]:
    """Return the weights that the stage makes of weights."""
    folders = [write_model(tmp / f"model-{number}", weights) for number, weights in enumerate(models)]
    start = None if base is None else write_model(tmp / "base", base)
    done = merge(tmp / "merge", folders, start, merger=merger, seed=seed, **params)
    return read_model(done.outputs["model"])


def tensors(seed: int, spread: float = 1.0, **shapes: tuple[int, ...]) -> dict[str, Tensor]:
    """Return random weights."""
    generator = torch.Generator().manual_seed(seed)
    return {name: spread * torch.randn(shape, generator=generator) for name, shape in shapes.items()}


SHAPES: dict[str, tuple[int, ...]] = {"model.embed.weight": (3, 4), "model.layers.0.up.weight": (5, 4), "norm": (4,)}


def folder_of(tmp: Path, name: str, seed: int, **options: Any) -> Path:
    """Write a folder with random weights of SHAPES."""
    return write_model(tmp / name, tensors(seed, **SHAPES), **options)
