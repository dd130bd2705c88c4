"""What is known before a run beside the recipe itself: the first rows of local data, and folders of models.

Nothing is run and nothing is loaded. What is not on this machine is not checked here; it may be where the stages run.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from components.contract.artifacts import ArtifactType
from components.contract.errors import InputError
from components.contract.job import UriRef, alternatives
from components.contract.model_folders.inspection import CONFIG, inspect_model, read_model_config
from components.contract.operator_files.operator import FileOperator
from components.contract.operators import OperatorSpec
from components.contract.terminal import visible_line
from components.runtime.inputs.adapters import base_of, is_adapter
from components.tasks.item import Item
from components.tasks.table_files import read_table
from components.tasks.tables import FileConfig
from pipelines.language.document import display_path
from pipelines.language.problems import Mark, Problem, RecipeErrors
from pipelines.recipe.operators import configs_with_paths
from pipelines.recipe.recipe import Recipe
from pipelines.recipe.stage import Stage

FIRST_ROWS = 100
"""Rows of each source that are read."""
GIVEN = frozenset({"response", "config", *Item.model_fields} - {"data"})
"""What a verifier's function can take beside the columns in `data`."""
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt")


def known_problems(recipe: Recipe) -> list[Problem]:
    """Return what is wrong with the local data and models of a recipe, each thing once, at its place in the recipe."""
    found = [problem for stage in recipe.stages for problem in (*_data(stage), *_models(stage))]
    return list(dict.fromkeys(found))


def need_sound(recipe: Recipe) -> None:
    """Raise RecipeErrors for local data or models with which a stage would fail."""
    if found := known_problems(recipe):
        raise RecipeErrors(found)


def _data(stage: Stage) -> Iterator[Problem]:
    for path, config in configs_with_paths(stage.config):
        if not isinstance(config, FileConfig):
            continue
        mark = stage.operator_marks.get(path, stage.mark)
        try:
            files = config.local_files()
        except InputError:  # not here: `plan` and `run` say so where it matters
            continue
        if files and (bad := _bad_row(files, config)):
            yield Problem(mark, visible_line(bad))
        elif lacking := _lacking(config, files):
            yield Problem(mark, lacking)


def _bad_row(files: list[Path], config: FileConfig) -> str | None:
    """Return what is wrong with the first bad row, beginning with its file and line."""
    for path in files:
        try:
            for _ in islice(config.opened(read_table(path), {}).rows, FIRST_ROWS):
                pass
        except InputError as error:
            named = str(path) if str(path) in str(error) else path.name  # the whole path, or a row's place: its name
            return str(error).replace(named, display_path(path), 1)
        except (OSError, EOFError, ValueError) as error:
            return f"{display_path(path)}: cannot be read: {error}"
    return None


def readings(recipe: Recipe) -> Iterator[tuple[str, str]]:
    """Yield a stage's name and a line for each of its sources whose files are recognised by their columns."""
    for stage in recipe.stages:
        for _, config in configs_with_paths(stage.config):
            if isinstance(config, FileConfig):
                try:
                    line = config.reading(config.local_files())
                except (InputError, OSError, EOFError):  # told as a problem, or not on this machine
                    continue
                if line:
                    yield stage.name, visible_line(line)


def _lacking(config: FileConfig, files: list[Path]) -> str | None:
    """Return which columns a function in a file needs and does not get."""
    verifier: OperatorSpec | None = config.verifier
    operator = verifier.resolve().function if verifier else None
    if not isinstance(operator, FileOperator) or not operator.is_plain:
        return None
    given = GIVEN | config.further(files)
    missing = sorted(operator.function.required - given)
    if not missing:
        return None
    listed = ", ".join((*config.columns.data, *missing))
    return f"{operator.where}: {operator.function.name} takes {', '.join(missing)}; say columns: {{data: [{listed}]}}"


def _models(stage: Stage) -> Iterator[Problem]:
    for name, references in stage.inputs.items():
        if stage.component.inputs[name].type != ArtifactType.MODEL:
            continue
        for reference in alternatives(references):
            folder = _local_folder(reference) if isinstance(reference, UriRef) else None
            if folder is not None and (bad := _bad_model(folder)):
                mark: Mark = stage.input_marks.get(name, stage.mark)
                yield Problem(
                    mark, f"input {name!r} of stage {stage.name!r}: {visible_line(display_path(folder))}: {bad}"
                )


def _local_folder(reference: UriRef) -> Path | None:
    scheme, _, rest = reference.uri.partition(":")
    path = Path(rest if scheme == "file" else reference.uri)
    try:
        return path if path.is_absolute() and path.exists() else None
    except (OSError, ValueError):
        return None


def _bad_model(folder: Path) -> str | None:
    """Return what a folder lacks of a model that transformers can load; None if it has all."""
    if not folder.is_dir():
        return "a model is a folder, with config.json, weights and tokenizer"
    if is_adapter(folder):
        try:
            base_of(folder)
        except InputError as error:
            return visible_line(str(error).replace(f"{folder}/", "").replace(f"{folder} ", ""))
        return None
    names = {path.name for path in folder.iterdir()}
    lacking = [] if CONFIG in names else [CONFIG]
    if not any(name.endswith(".safetensors") for name in names):
        others = sorted(name for name in names if name.endswith((".bin", ".pt", ".pth", ".gguf")))
        instead = f" (it has {others[0]}: weights are read from safetensors only)" if others else ""
        lacking.append(f"weights in .safetensors{instead}")
    if not names & set(TOKENIZERS):
        lacking.append(f"a tokenizer ({TOKENIZERS[0]})")
    try:
        if CONFIG in names:
            read_model_config(folder)
        if not lacking:
            inspect_model(folder)
    except InputError as error:
        return visible_line(str(error).replace(f"{folder}/", "").replace(f"{folder} ", ""))
    return f"no model: it lacks {' and '.join(lacking)}" if lacking else None
