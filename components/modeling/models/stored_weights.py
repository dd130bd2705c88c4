"""The tensors of a model folder's safetensors files, each read when it is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from safetensors import safe_open
from torch import Tensor

from components.contract.model_folders.headers import EMBEDDING, HEAD, weight_files


class StoredWeights(Mapping[str, Tensor]):
    """Tensors on the CPU by their names in one file, or in the shards that an index names."""

    def __init__(self, folder: Path) -> None:
        """Raise InputError when a file is missing; the files stay open."""
        self._file_of: dict[str, tuple[str, Any]] = {}
        for name in weight_files(folder):
            file = safe_open(folder / name, framework="pt")
            self._file_of.update(dict.fromkeys(file.keys(), (name, file)))

    def __getitem__(self, name: str) -> Tensor:
        return self._file_of[name][1].get_tensor(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._file_of)

    def __len__(self) -> int:
        return len(self._file_of)

    def file_of(self, name: str) -> str:
        """Return the name of the file that holds a tensor."""
        return self._file_of[name][0]


def with_own_head(folder: Path, config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return config.json with `tie_word_embeddings` false where the folder has a head that differs from its embedding.

    transformers loads both then, whatever the flag says ("we will NOT tie them").
    """
    if not config.get("tie_word_embeddings", True):
        return config
    weights = StoredWeights(folder)
    if HEAD not in weights or EMBEDDING not in weights or weights[HEAD].equal(weights[EMBEDDING]):
        return config
    return {**config, "tie_word_embeddings": False}
