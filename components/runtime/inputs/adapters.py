"""Adapter folders of peft as input models: merged into their base when they are imported, so that stages get models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from components.contract.errors import InputError
from components.contract.model_folders.headers import read_header
from components.contract.model_folders.inspection import ADAPTER_CONFIG, CONFIG, inspect_model
from components.contract.model_folders.json_files import read_object

WEIGHTS = "adapter_model.safetensors"
REFUSED = ("megatron_config", "layer_replication", "trainable_token_indices")
"""Settings of peft that import a library by name, or that a merge does not keep."""


def is_adapter(folder: Path) -> bool:
    """Return whether a folder is an adapter, and no model of its own."""
    return (folder / ADAPTER_CONFIG).is_file() and not (folder / CONFIG).is_file()


def base_of(folder: Path) -> Path:
    """Return the inspected base of a sound adapter folder; raise InputError where there is none."""
    path = folder / ADAPTER_CONFIG
    config = read_object(path)
    if config.get("peft_type") != "LORA":
        raise InputError(f"{path}: peft_type is {_shown(config.get('peft_type'))}; LORA alone is merged")
    if refused := [key for key in REFUSED if config.get(key)]:
        raise InputError(f"{path}: {refused[0]} is not supported; merge the adapter with peft, and give that model")
    if not (folder / WEIGHTS).is_file():
        raise InputError(f"{folder} has no {WEIGHTS}; weights must be safetensors (pickled weights are refused)")
    read_header(folder / WEIGHTS)
    name = config.get("base_model_name_or_path")
    base = Path(name).expanduser() if isinstance(name, str) and name and name.isprintable() else None
    if base is None or not base.is_absolute() or not base.is_dir():
        raise InputError(
            f"{path}: the adapter's base {_shown(name)} is no folder of this machine; download it, and write its "
            "absolute path as base_model_name_or_path"
        )
    inspect_model(base)
    return base


def merge_adapter(folder: Path, target: Path) -> None:
    """Write the whole model of an adapter folder, merged by peft in the base's own type, into an empty folder."""
    base = base_of(folder)
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        model = AutoModelForCausalLM.from_pretrained(
            base, dtype="auto", use_safetensors=True, trust_remote_code=False, local_files_only=True
        )
        merged: Any = PeftModel.from_pretrained(model, str(folder)).merge_and_unload(safe_merge=True)
        holder = folder if (folder / "tokenizer.json").is_file() else base
        AutoTokenizer.from_pretrained(holder, trust_remote_code=False, local_files_only=True).save_pretrained(target)
        if merged.config.tie_word_embeddings and _is_untied(merged):
            merged.config.tie_word_embeddings = False  # or the head that the adapter made is lost
        merged.save_pretrained(target)
    except Exception as error:  # whatever the libraries raise of a folder
        line = " ".join(str(error).split())[:300]
        raise InputError(f"{folder}: the adapter cannot be merged into {base}: {line}") from error


def _is_untied(model: Any) -> bool:
    head, embedding = model.get_output_embeddings().weight, model.get_input_embeddings().weight
    return bool(
        head.data_ptr() != embedding.data_ptr() and not (head.shape == embedding.shape and (head == embedding).all())
    )


def _shown(value: Any) -> str:
    return ascii(value)[:100]
