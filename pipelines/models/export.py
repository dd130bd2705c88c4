"""A model as a Hugging Face folder: its files, the ends of its turns, a card. Whole or not at all."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from components.contract.artifacts import ArtifactType, describe_folder
from components.contract.errors import InputError
from pipelines.models.card import model_card
from pipelines.models.evaluations import measurements
from pipelines.models.gguf import GgufFile, GgufType, find_converter, write_gguf
from pipelines.models.origin import origin_of
from pipelines.provenance.exports import note_export
from pipelines.provenance.terms import README

if TYPE_CHECKING:
    from components.modeling.loading.exported import ExportCheck
    from components.runtime.store import Store
    from pipelines.models.find import FoundModel


@dataclass(frozen=True)
class Exported:
    """What an export wrote."""

    files: list[Path]
    check: ExportCheck | None
    """How it was compared with the trained model; None for an adapter, and where no check was wanted."""
    gguf: GgufFile | None = None


def export_model(
    store: Store,
    model: FoundModel,
    target: Path,
    *,
    adapter: bool = False,
    check: bool = True,
    gguf: GgufType | None = None,
) -> Exported:
    """Write a model to `target`; `adapter` writes only its LoRA adapter, for peft; `gguf` adds a file for llama.cpp.

    With `check` the folder is loaded by transformers and compared with the trained model, which needs the memory of
    both. Raises InputError if the folder exists and is not empty, for an adapter that the model does not have, and
    for a folder that transformers reads otherwise: nothing is left then.
    """
    _check(target)
    if adapter and gguf:
        raise InputError("--gguf converts whole models: leave out --adapter, or run llama.cpp's converter for LoRA")
    converter = find_converter() if gguf else []  # before any work
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
                _write(model.folder, folder)
            found = _checked(folder, model.folder) if check and not adapter else None
            made = write_gguf(converter, folder, folder / f"model-{gguf}.gguf", gguf) if gguf else None
            card = model_card(name, origin, measured, digest=model.digest, adapter=adapter)
            (folder / README).write_text(card, encoding="utf-8")
            manifest = describe_folder(folder, ArtifactType.MODEL)
            folder.rename(target)  # over an empty folder, too
    except OSError as error:
        raise InputError(f"{target}: {error.strerror or error}") from error
    if model.digest is not None:
        note_export(store, model.digest, target, manifest, adapter=adapter)
    return Exported(sorted(path for path in target.rglob("*") if path.is_file()), found, made)


def _write(source: Path, folder: Path) -> None:
    from components.modeling.loading.exporting import write_exported

    write_exported(source, folder)


def _checked(folder: Path, source: Path) -> ExportCheck:
    from components.modeling.loading.exported import check_exported

    return check_exported(folder, source)


def _check(target: Path) -> None:
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise InputError(f"{target} is no folder; name a new or an empty one")
    if target.is_dir() and any(target.iterdir()):
        raise InputError(f"{target} is not empty; name a new or an empty folder: nothing is overwritten")
