"""Local data that a recipe names: for engines whose stages do not see this machine's files, it goes to the store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from components.contract.artifacts import ArtifactType
from components.contract.errors import InputError
from components.contract.job import FirstOf, InputRef, StageRef, UriRef, alternatives
from components.contract.terminal import visible_line
from components.contract.uploaded import Upload
from components.runtime.inputs.uploads import LocalData, local_files, local_input
from components.tasks.sources.published import PublishedConfig
from components.tasks.tables import FileConfig
from pipelines.language.problems import Mark, Problem, RecipeErrors
from pipelines.recipe.operators import configs_with_paths
from pipelines.recipe.recipe import Recipe
from pipelines.recipe.stage import Stage


def local_data(recipe: Recipe) -> list[LocalData]:
    """Return the local files and folders that a recipe's stages read, each once, hashed.

    Raises RecipeErrors, with file and line, for what is missing, cannot be read or is never uploaded.
    """
    found: dict[tuple[str, ArtifactType], LocalData] = {}
    problems: dict[Problem, None] = {}
    for stage in recipe.stages:
        for path, kind, mark in _named(stage):
            if (path, kind) in found:
                continue
            try:
                found[path, kind] = local_input(path, kind)
            except InputError as error:
                problems[Problem(mark, f"stage {stage.name!r}: {visible_line(str(error))}")] = None
        for config, mark in _configs(stage):
            try:
                path = config.path or ""
                if path and (path, ArtifactType.FILES) not in found and (files := config.local_files()):
                    found[path, ArtifactType.FILES] = local_files(path, files)
            except InputError as error:
                problems[Problem(mark, f"stage {stage.name!r}: {visible_line(str(error))}")] = None
    if problems:
        raise RecipeErrors(list(problems))
    return list(found.values())


def sent_inputs(stage: Stage, uploads: Sequence[Upload]) -> dict[str, list[InputRef]]:
    """Return a stage's inputs with local paths replaced by the artifacts that hold their content."""
    if not uploads:
        return stage.inputs
    known = {(one.path, one.kind): UriRef(uri=f"artifact:{one.digest}") for one in uploads}

    def sent(reference: StageRef | UriRef, kind: ArtifactType) -> StageRef | UriRef:
        return known.get((local_path(reference.uri), kind), reference) if isinstance(reference, UriRef) else reference

    return {
        port: [
            reference.model_copy(update={"first_of": [sent(one, kind) for one in reference.first_of]})
            if isinstance(reference, FirstOf)
            else sent(reference, kind)
            for reference in references
        ]
        for port, references in stage.inputs.items()
        for kind in (stage.component.inputs[port].type,)
    }


def sent_paths(stage: Stage, uploads: Iterable[Upload]) -> dict[str, str]:
    """Return the local paths that a stage's operators read -> digest of their content in the store."""
    known = {one.path: one.digest for one in uploads if one.kind == ArtifactType.FILES}
    if not known:
        return {}
    return {config.path: known[config.path] for config, _ in _configs(stage) if config.path and config.path in known}


def local_path(uri: str) -> str:
    """Return the path that a URI of an input names on this machine; empty for any other URI."""
    return uri.removeprefix("file:") if uri.startswith(("/", "file:")) else ""


def _named(stage: Stage) -> Iterator[tuple[str, ArtifactType, Mark]]:
    for port, references in stage.inputs.items():
        for one in alternatives(references):
            if isinstance(one, UriRef) and (path := local_path(one.uri)):
                yield path, stage.component.inputs[port].type, stage.input_marks.get(port, stage.mark)


def _configs(stage: Stage) -> Iterator[tuple[FileConfig | PublishedConfig, Mark]]:
    for path, config in configs_with_paths(stage.config):
        if isinstance(config, FileConfig | PublishedConfig):
            yield config, stage.operator_marks.get(path, stage.mark)
