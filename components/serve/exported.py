"""The model as the folder that is served: exported, compared with the trained one, and found again by the cluster."""

from __future__ import annotations

import filecmp
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.contract.artifacts import ArtifactType, describe_folder
from components.contract.context import Input, StageContext
from components.contract.errors import InputError
from components.measure.measure_params import MeasureParams
from components.modeling.loading.exported import ExportCheck, check_exported
from components.modeling.loading.exporting import write_exported
from components.modeling.models.folder import load_tokenizer, read_config, read_generation_config
from components.modeling.text.turn_ends import find_turn_ends
from components.modeling.text.turns import scripts
from components.tasks.item import Item

PORT = "model"
KIND = {"kind": "exported"}


@dataclass(frozen=True)
class Exported:
    """The folder, and what of it requests depend on."""

    folder: Path
    check: ExportCheck | None
    digest: str
    """Of the artifact with these files: the input, or the output if the export completed it."""
    api: str
    max_model_len: int
    """Longest request with its answer, in tokens."""


def export(ctx: StageContext[Any], items: list[Item], *, api: str, check: bool) -> Exported:
    """Export input `model` into the scratch folder; what the export added to it becomes output `model`.

    Raises InputError for a model that transformers reads otherwise, one without a tokenizer, and prompts that it
    cannot be asked.
    """
    given, folder = ctx.input(PORT), ctx.scratch / "served"
    folder.mkdir()
    write_exported(given.path, folder)
    found = check_exported(folder, given.path) if check else None
    tokenizer = load_tokenizer(folder)
    if tokenizer is None:
        raise InputError("the model has no tokenizer, so no server can be asked in text")
    chosen = api if api != "auto" else "chat" if tokenizer.chat_template else "completions"
    if chosen == "completions" and any(item.messages for item in items):
        raise InputError("api completions: the dataset has conversations, which chat completions alone take")
    config = read_config(folder)
    ends = find_turn_ends(tokenizer, config, read_generation_config(folder))
    asked = scripts(tokenizer, [item.task for item in items], ends, names=[item.id for item in items])
    params: MeasureParams = ctx.params
    longest = max(script.num_tokens(params.max_new_tokens) for script in asked)
    most = config.get("max_position_embeddings") or longest
    return Exported(folder, found, _digest(ctx, given, folder), chosen, min(longest, most))


def _digest(ctx: StageContext[Any], given: Input, folder: Path) -> str:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    pairs = [(path, given.path / path.relative_to(folder)) for path in files]
    if all(theirs.is_file() and filecmp.cmp(ours, theirs, shallow=False) for ours, theirs in pairs):
        return given.digest
    shutil.copytree(folder, ctx.output(PORT), dirs_exist_ok=True)
    ctx.describe(PORT, **KIND)
    return describe_folder(ctx.output(PORT), ArtifactType.MODEL, dict(KIND)).digest
