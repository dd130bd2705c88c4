"""A model as a Hugging Face folder: its files, the ends of its turns, a card. Whole or not at all."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from components.contract.errors import InputError
from pipelines.models.card import model_card
from pipelines.models.evaluations import measurements
from pipelines.models.origin import README, origin_of

if TYPE_CHECKING:
    from components.modeling.loading.exported import ExportCheck
    from components.runtime.store import Store
    from pipelines.models.find import FoundModel

GENERATION = "generation_config.json"
UNSAFE = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".py")
"""Weights that unpickle, and code: not exported."""


@dataclass(frozen=True)
class Exported:
    """What an export wrote."""

    files: list[Path]
    check: ExportCheck | None
    """How it was compared with the trained model; None for an adapter, and where no check was wanted."""


def export_model(
    store: Store, model: FoundModel, target: Path, *, adapter: bool = False, check: bool = True
) -> Exported:
    """Write a model to `target`; `adapter` writes only its LoRA adapter, for peft.

    With `check` the folder is loaded by transformers and compared with the trained model, which needs the memory of
    both. Raises InputError if the folder exists and is not empty, for an adapter that the model does not have, and
    for a folder that transformers reads otherwise: nothing is left then.
    """
    _check(target)
    origin = origin_of(store, model)
    name = model.registered or "-".join(filter(None, [origin.run.get("recipe"), model.stage])) or target.name
    measured = measurements(store, origin.run_id, model.digest)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as scratch:
            folder = Path(scratch) / "model"
            folder.mkdir()
            if adapter:
                from pipelines.models.adapter import write_adapter

                write_adapter(store, model, origin, folder)
            else:
                _copy(model.folder, folder)
                _complete_ends(folder)
            found = _checked(folder, model.folder) if check and not adapter else None
            card = model_card(name, origin, measured, digest=model.digest, adapter=adapter)
            (folder / README).write_text(card, encoding="utf-8")
            folder.rename(target)  # over an empty folder, too
    except OSError as error:
        raise InputError(f"{target}: {error.strerror or error}") from error
    return Exported(sorted(path for path in target.rglob("*") if path.is_file()), found)


def _checked(folder: Path, source: Path) -> ExportCheck:
    from components.modeling.loading.exported import check_exported

    return check_exported(folder, source)


def _check(target: Path) -> None:
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise InputError(f"{target} is no folder; name a new or an empty one")
    if target.is_dir() and any(target.iterdir()):
        raise InputError(f"{target} is not empty; name a new or an empty folder: nothing is overwritten")


def _copy(source: Path, folder: Path) -> None:
    """Copy a model's files with the access of new ones: a store's are read-only."""
    for path in sorted(source.rglob("*")):
        if path.is_file() and path.suffix not in UNSAFE and path.name != README:
            place = folder / path.relative_to(source)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, place)


def _complete_ends(folder: Path) -> None:
    """Make generation_config.json list every token that ends a turn; those of base models often lack the template's."""
    from components.modeling.models.folder import (
        generation_config,
        load_tokenizer,
        padding_id,
        read_config,
        read_generation_config,
        write_json,
    )
    from components.modeling.text.turn_ends import find_turn_ends

    config, stored, tokenizer = read_config(folder), read_generation_config(folder), load_tokenizer(folder)
    ends = find_turn_ends(tokenizer, config, stored)
    wanted = generation_config(stored, ends.ids, padding_id(config, tokenizer))
    if wanted != stored:
        write_json(folder / GENERATION, wanted)
