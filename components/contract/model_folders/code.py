"""Code that a model folder brings, which never runs: classes of its own, and kernels that settings name."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from components.contract.errors import InputError

AUTO_MAP = "auto_map"
KERNELS = ("attn_implementation", "_attn_implementation", "_attn_implementation_internal", "experts_implementation")
"""Settings by which transformers fetches code of a repository on the hub, where they hold a slash."""
GENERAL = ("PreTrainedTokenizer", "TokenizersBackend", "PythonBackend", "SentencePieceBackend")
"""Beginnings of tokenizer classes that belong to no model type."""
SHOWN = 80


def refuse_code(path: Path, content: Mapping[str, Any]) -> None:
    """Raise InputError where config.json or tokenizer_config.json needs code of the folder.

    A folder whose model type transformers knows runs with transformers' own classes, whatever it brings.
    """
    for key in KERNELS:
        if isinstance(value := content.get(key), str) and "/" in value:
            raise InputError(f"{path}: {key} names code on the hub ({value[:SHOWN]!a}), which posttrain never runs")
    named = content.get(AUTO_MAP)
    if not named:
        return
    # Of a tokenizer, its class; of a model, its type.
    if "model_type" in content and _is_known(content["model_type"]):
        return
    if "model_type" not in content and _is_known_tokenizer(content.get("tokenizer_class")):
        return
    raise InputError(
        f"{path}: the folder brings code of its own (auto_map: {_shown(named)}), which posttrain never runs: take a "
        "model whose classes are transformers' own, or convert it to one"
    )


def _is_known(kind: Any) -> bool:
    """Return whether transformers has a model type, by its files: it is not imported."""
    if not isinstance(kind, str) or not kind.replace("-", "_").isidentifier():
        return False
    found = find_spec("transformers")
    if found is None or not found.submodule_search_locations:
        return True  # the loader refuses it where transformers is
    models = Path(found.submodule_search_locations[0]) / "models"
    name = kind.replace("-", "_")
    return any((models / one).is_dir() for one in (name, name.removesuffix("_text")))


def _is_known_tokenizer(name: Any) -> bool:
    if not isinstance(name, str) or not name.isidentifier():
        return False
    return find_spec("transformers") is None or name.startswith(GENERAL) or _has_class(name)


def _has_class(name: str) -> bool:
    """Return whether transformers has a tokenizer class: LlamaTokenizerFast lies in models/llama/tokenization_llama."""
    found = find_spec("transformers")
    assert found is not None and found.submodule_search_locations
    models = Path(found.submodule_search_locations[0]) / "models"
    stem = name.removesuffix("Fast").removesuffix("Tokenizer").lower()
    if not stem or not name.removesuffix("Fast").endswith("Tokenizer"):
        return False
    return any(folder.name.replace("_", "") == stem for folder in models.iterdir())


def _shown(named: Any) -> str:
    values = list(named.values()) if isinstance(named, Mapping) else [named]
    text = ", ".join(str(value) for value in values)
    return ascii(text[:SHOWN])[1:-1]
