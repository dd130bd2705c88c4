"""Whether models can be merged: one architecture, one vocabulary, the same tensors in the same shapes.

Free of torch: `validate` asks it of folders that are on this machine.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.contract.errors import InputError
from components.contract.model_folders.headers import EMBEDDING, HEAD, MERGED, Stored, read_headers

CONFIG, TOKENIZER = "config.json", "tokenizer.json"
VOCABULARIES = ("tokenizer.model", "vocab.json", "vocab.txt", "merges.txt")
"""What holds a vocabulary where there is no tokenizer.json."""
FREE = frozenset(
    {
        "_name_or_path",
        "transformers_version",
        "torch_dtype",
        "dtype",
        "use_cache",
        "bos_token_id",
        "eos_token_id",
        "pad_token_id",
        "initializer_range",
        "attention_dropout",
        "max_position_embeddings",
        "pretraining_tp",
    }
)
"""Keys of a config.json in which models of one architecture may differ: the result has the first model's."""
WINDOW = ("sliding_window", "max_window_layers")
"""Keys that say nothing where `use_sliding_window` is false."""
CHUNK_BYTES = 1 << 24
"""Most bytes of two tensors that are compared at a time."""
SHOWN = 60
"""Most characters of a value that an error shows."""


@dataclass(frozen=True)
class Named:
    """A model folder, and how errors call it."""

    name: str
    folder: Path


def check_agreement(models: Sequence[Named], *, same_tokenizer: bool = True) -> None:
    """Raise InputError with the first difference of models from the first one."""
    configs = [_config(model) for model in models]
    for model, config in zip(models, configs, strict=True):
        if config.get("quantization_config"):
            raise InputError(f"{model.name} is quantised, and packed weights are not merged; give the weights unpacked")
    first, *others = models
    told = [(_facts(configs[0]), _tokens(first), weights_of(first.folder))]
    for model, config in zip(others, configs[1:], strict=True):
        facts, tokens, tensors = told[0]
        _compare(f"{first.name} and {model.name} differ in config.json", facts, _facts(config))
        if same_tokenizer:
            _compare(f"the tokenizers of {first.name} and {model.name} differ", tokens, _tokens(model))
        _compare_tensors(first.name, tensors, model.name, weights_of(model.folder))


def weights_of(folder: Path) -> dict[str, Stored]:
    """Return the tensors of a folder; an output matrix that is tied to the embedding is left out.

    One that differs from it stays whatever the config's flag says: transformers loads both then.
    """
    tensors = read_headers(folder, MERGED)
    if not tensors:
        raise InputError(f"{folder} has no tensors")
    head, embedding = tensors.get(HEAD), tensors.get(EMBEDDING)
    apart = head is not None and embedding is not None and not _same_bytes(head, embedding)
    if is_tied(_read_json(folder / CONFIG)) and len(tensors) > 1 and not apart:
        tensors.pop(HEAD, None)
    return tensors


def _same_bytes(first: Stored, second: Stored) -> bool:
    if (first.dtype, first.shape) != (second.dtype, second.shape):
        return False
    with first.path.open("rb") as ours, second.path.open("rb") as theirs:
        ours.seek(first.begin)
        theirs.seek(second.begin)
        for left in range(first.size, 0, -CHUNK_BYTES):
            if ours.read(min(left, CHUNK_BYTES)) != theirs.read(min(left, CHUNK_BYTES)):
                return False
    return True


def is_tied(config: Mapping[str, Any]) -> bool:
    """Return whether the output matrix is the embedding matrix."""
    text = config.get("text_config")
    nested = text.get("tie_word_embeddings") if isinstance(text, dict) else None
    return bool(config.get("tie_word_embeddings", nested))


def _config(model: Named) -> dict[str, Any]:
    if not (model.folder / CONFIG).is_file():
        raise InputError(f"{model.name} ({model.folder}) is not a model folder: it has no {CONFIG}")
    return _read_json(model.folder / CONFIG)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise InputError(f"{path} holds no JSON object")
    return found


def _facts(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a config.json says of the architecture, nested keys joined by dots; false and null are as nothing."""
    silent = FREE | (frozenset(WINDOW) if config.get("use_sliding_window") is False else frozenset())
    return {key: value for key, value in _flat(config) if key.rpartition(".")[2] not in silent and value}


def _flat(value: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for key, inner in sorted(value.items()):
        if isinstance(inner, dict):
            yield from _flat(inner, f"{before}{key}.")
        else:
            yield f"{before}{key}", inner


def _tokens(model: Named) -> dict[str, Any]:
    """Return token -> id, or file -> digest where the vocabulary is in files of another form; empty without any."""
    path = model.folder / TOKENIZER
    if not path.is_file():
        paths = [model.folder / name for name in VOCABULARIES if (model.folder / name).is_file()]
        return {path.name: hashlib.sha256(path.read_bytes()).hexdigest()[:12] for path in paths}
    found = _read_json(path)
    try:
        listed = found["model"]["vocab"]
        pairs = listed.items() if isinstance(listed, dict) else ((row[0], at) for at, row in enumerate(listed))
        added = {row["content"]: row["id"] for row in found.get("added_tokens") or ()}
        return {**dict(pairs), **added}
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise InputError(f"{path} cannot be read: {error!r}") from error


def _compare(where: str, first: Mapping[str, Any], other: Mapping[str, Any]) -> None:
    """Raise InputError for the first key with another value."""
    for key in sorted(first.keys() | other.keys(), key=str):  # a hostile vocabulary has numbers among its tokens
        if first.get(key) != other.get(key):
            raise InputError(f"{where}: {_shown(key)} is {_value(first, key)} and {_value(other, key)}")


def _value(values: Mapping[str, Any], key: str) -> str:
    return _shown(values[key]) if key in values else "not there"


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def _compare_tensors(first: str, ours: Mapping[str, Stored], other: str, theirs: Mapping[str, Stored]) -> None:
    for name in sorted(ours.keys() | theirs.keys()):
        if name not in theirs or name not in ours:
            raise InputError(
                f"{name} is in {first if name in ours else other} and not in {other if name in ours else first}"
            )
        if ours[name].shape != theirs[name].shape:
            raise InputError(f"{name} is {list(ours[name].shape)} in {first} and {list(theirs[name].shape)} in {other}")
        if ours[name].is_float != theirs[name].is_float:
            raise InputError(f"{name} is {ours[name].dtype} in {first} and {theirs[name].dtype} in {other}")
