"""Inspection of a model folder before a library reads it: what it claims is held against what its files hold.

A folder is hostile until it is inspected: every loader, `validate` and `plan` ask here first. Memory and time follow
the bytes that are there, never the sizes that are claimed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from components.contract.errors import InputError
from components.contract.model_folders.code import refuse_code
from components.contract.model_folders.headers import PICKLED, read_headers
from components.contract.model_folders.json_files import MOST_TOKENIZER_BYTES, read_object
from components.contract.model_folders.sizes import check_counts, check_ids, check_sizes

CONFIG, TOKENIZER, GENERATION = "config.json", "tokenizer.json", "generation_config.json"
TOKENIZER_CONFIG, ADAPTER_CONFIG = "tokenizer_config.json", "adapter_config.json"
HUB_BLOBS = "blobs"


def inspect_model(folder: Path) -> dict[str, Any]:
    """Return config.json of a sound model folder.

    Raises InputError, with file and reason, for a folder that is broken, claims what its weights do not hold, brings
    code of its own, or leads out of itself.
    """
    refuse_links_outside(folder)
    config = read_model_config(folder)
    if (folder / ADAPTER_CONFIG).is_file():
        raise InputError(
            f"{folder} holds both a model ({CONFIG}) and an adapter ({ADAPTER_CONFIG}), and libraries differ in which "
            "they load: give each a folder of its own"
        )
    check_sizes(folder / CONFIG, config, read_headers(folder))
    inspect_tokenizer(folder)
    if (path := folder / GENERATION).is_file():
        check_ids(path, read_object(path))
    return config


def read_model_config(folder: Path) -> dict[str, Any]:
    """Return config.json of a folder, whose weights are not looked at; raises InputError as `inspect_model` does."""
    path = folder / CONFIG
    if not path.is_file():
        if (folder / ADAPTER_CONFIG).is_file():
            raise InputError(
                f"{folder} is an adapter, not a whole model ({ADAPTER_CONFIG} and no {CONFIG}): merge it into its "
                f"base{_base_of(folder)} first, as a recipe does whose input `model` names it, or with peft's "
                "merge_and_unload()"
            )
        others = sorted(file.name for file in folder.glob("*") if file.suffix in PICKLED)
        instead = f", and its weights are pickled ({others[0]}), which are refused" if others else ""
        raise InputError(f"{folder} is not a model folder: it has no {CONFIG}{instead}")
    config = read_object(path)
    refuse_code(path, config)
    check_ids(path, config)
    check_counts(path, config)
    return config


def inspect_tokenizer(folder: Path) -> None:
    """Raise InputError for tokenizer files that are no JSON objects, are larger than any, or bring code."""
    if (folder / CONFIG).is_file():
        read_model_config(folder)  # a library asks it for the tokenizer's class
    for name in (TOKENIZER, "vocab.json", "added_tokens.json", "special_tokens_map.json"):
        if (path := folder / name).is_file():
            read_object(path, MOST_TOKENIZER_BYTES)
    if (path := folder / TOKENIZER_CONFIG).is_file():
        refuse_code(path, read_object(path))
    path = folder / "tokenizer.model"
    if path.is_file() and path.stat().st_size > MOST_TOKENIZER_BYTES:
        raise InputError(f"{path} has {path.stat().st_size:,} bytes; a tokenizer has at most {MOST_TOKENIZER_BYTES:,}")


def refuse_links_outside(folder: Path) -> None:
    """Raise InputError for a link out of the folder, whose target an import would copy.

    The hub's cache links into its own `blobs`, which is right; weights may be anywhere, since they are no text.
    """
    home = folder.resolve()
    allowed = [home]
    if home.parent.name == "snapshots":
        allowed.append(home.parent.parent / HUB_BLOBS)
    for path in folder.glob("*"):
        if path.suffix == ".safetensors":
            continue
        if path.is_symlink() and not any(path.resolve().is_relative_to(root) for root in allowed):
            raise InputError(f"{path} is a link out of the model folder: put a copy of the file in its place")


def _base_of(folder: Path) -> str:
    """Return the base that an adapter names, for a message."""
    name = read_object(folder / ADAPTER_CONFIG).get("base_model_name_or_path")
    return f" ({ascii(name)[:100]})" if isinstance(name, str) and name else ""
