"""What a model folder holds beside weights: config.json and generation_config.json, read and written; the tokenizer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.contract.errors import InputError, PosttrainError
from components.contract.model_folders.inspection import inspect_tokenizer, read_model_config
from components.contract.model_folders.json_files import read_object
from components.contract.model_folders.sizes import check_ids

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


def read_config(folder: Path) -> dict[str, Any]:
    """Return config.json of a model folder; raise InputError for one that is none, or that needs code of the folder."""
    return read_model_config(folder)


def read_generation_config(folder: Path) -> dict[str, Any] | None:
    """Return generation_config.json of a model folder, or None if it has none."""
    path = folder / "generation_config.json"
    if not path.is_file():
        return None
    content = read_object(path)
    check_ids(path, content)
    return content


def load_tokenizer(folder: Path) -> PreTrainedTokenizerFast | None:
    """Return the tokenizer of a model folder, or None if it has none; raise InputError if it cannot be loaded."""
    if not (folder / "tokenizer_config.json").is_file() and not (folder / "tokenizer.json").is_file():
        return None
    inspect_tokenizer(folder)
    from transformers import AutoTokenizer

    with refusing(f"{folder}: its tokenizer cannot be loaded"):
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    # Details of loading do not belong to the tokenizer: saved again, it must give the same bytes.
    for detail in ("is_local", "local_files_only", "name_or_path"):
        tokenizer.init_kwargs.pop(detail, None)
    return tokenizer


@contextmanager
def refusing(what: str) -> Iterator[None]:
    """Turn what a library raises inside, of a folder that it cannot read, into an InputError of one line.

    Memory that runs out is no fault of the folder, and passes.
    """
    try:
        yield
    except (PosttrainError, MemoryError):
        raise
    except Exception as error:  # tokenizers and safetensors raise bare Exception
        if "out of memory" in str(error).lower():
            raise
        line = " ".join(str(error).split())[:300] or type(error).__name__
        raise InputError(f"{what}: {line}") from error


def padding_id(config: Mapping[str, Any], tokenizer: PreTrainedTokenizerFast | None) -> int:
    """Return the padding id of tokenizer or config, 0 if there is none."""
    pad = None if tokenizer is None else tokenizer.pad_token_id
    pad = config.get("pad_token_id") if pad is None else pad
    return 0 if pad is None else pad


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write JSON with sorted keys and a final newline."""
    path.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n")


def generation_config(stored: Mapping[str, Any] | None, ends: Sequence[int], pad_id: int) -> dict[str, Any]:
    """Return generation_config.json: the stored one, with any of `ends` that it does not list added.

    A model without one gets its special tokens only.
    """
    if stored is None:
        return {"eos_token_id": _one_or_many(ends), "pad_token_id": pad_id}
    named = stored.get("eos_token_id")
    first = [] if named is None else list(named) if isinstance(named, list) else [named]
    listed = list(dict.fromkeys((*first, *ends)))
    if listed == first:
        return dict(stored)
    # "_from_model_config" marks a file derived from config.json alone, which this one is not.
    kept = {name: value for name, value in stored.items() if name != "_from_model_config"}
    return {**kept, "eos_token_id": _one_or_many(listed)}


def _one_or_many(ends: Sequence[int]) -> int | list[int] | None:
    return None if not ends else ends[0] if len(ends) == 1 else list(ends)
