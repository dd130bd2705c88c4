"""From a saved policy to a classifier's folder: what AutoModelForSequenceClassification or its like loads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor

from components.contract.errors import InputError
from components.contract.heads import Head
from components.modeling.models.folder import read_config, write_json
from components.modeling.scorers.layout import Layout

OUTPUT = "lm_head.weight"
ONE, INDEX, GENERATION = "model.safetensors", "model.safetensors.index.json", "generation_config.json"


def write_scorer(folder: Path, layout: Layout, head: Mapping[str, Tensor], *, pad_id: int) -> None:
    """Turn a policy's folder into a classifier's: its class, its labels, and the head in the place of the output.

    `pad_id` is named in config.json, since the last token that is not padding is what transformers reads.
    """
    config = read_config(folder)
    name = classifier(config, layout.head)
    write_json(folder / "config.json", {**config, "architectures": [name], "pad_token_id": pad_id, **layout.entries()})
    (folder / GENERATION).unlink(missing_ok=True)  # it generates nothing
    _replace_output(folder, head)


def classifier(config: Mapping[str, Any], head: Head) -> str:
    """Return transformers' class for a model of this config with a head; raise InputError where it has none."""
    from transformers.models.auto import modeling_auto

    names: Mapping[str, str] = {
        Head.SCORE: modeling_auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES,
        Head.STEPS: modeling_auto.MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES,
    }[head]
    kind = config.get("model_type", "")
    if kind not in names:
        task = "sequence" if head == Head.SCORE else "token"
        raise InputError(f"transformers has no {task} classification for models of type {kind!r}: take another model")
    return names[kind]


def _replace_output(folder: Path, head: Mapping[str, Tensor]) -> None:
    index = folder / INDEX
    if not index.is_file():
        _rewrite(folder / ONE, head)
        return
    content = json.loads(index.read_text())
    places: dict[str, str] = content["weight_map"]
    holder = places.pop(OUTPUT, max(places.values()))
    before, after = _rewrite(folder / holder, head)
    content["weight_map"] = {**places, **dict.fromkeys(head, holder)}
    if "total_size" in content.get("metadata", {}):
        content["metadata"]["total_size"] += after - before
    write_json(index, content)


def _rewrite(file: Path, head: Mapping[str, Tensor]) -> tuple[int, int]:
    """Replace the output matrix in a file, and return the bytes of its tensors before and after."""
    tensors = load_file(file)
    before = sum(tensor.nbytes for tensor in tensors.values())
    tensors.pop(OUTPUT, None)
    dtype = next(iter(tensors.values())).dtype
    tensors |= {name: tensor.to(dtype).contiguous() for name, tensor in head.items()}
    file.unlink()  # the loaded tensors may be views of the file
    save_file({name: tensors[name].clone() for name in sorted(tensors)}, file, {"format": "pt"})
    return before, sum(tensor.nbytes for tensor in tensors.values())
