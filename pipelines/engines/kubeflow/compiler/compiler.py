"""A recipe as a pipeline of Kubeflow: a task that begins the run, one for each stage, one that ends it.

Tasks pass pointers: stage outputs are in the store, and the first task writes the jobs there.
Kubeflow's own cache is off. It knows the pipeline's text, not the code behind it; the fingerprint of the store's action
cache has parameters, inputs, seed and code, and a stage that it knows ends in seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from components.contract.errors import InputError
from pipelines.engines.kubeflow.compiler.bundle import Bundle
from pipelines.engines.kubeflow.compiler.checks import check
from pipelines.engines.kubeflow.compiler.drawing import Drawing
from pipelines.engines.kubeflow.compiler.form import REQUIRED, Form, form_of
from pipelines.engines.kubeflow.compiler.ir import compile_pipeline
from pipelines.engines.kubeflow.compiler.lifetime import Lifetime
from pipelines.engines.kubeflow.compiler.parts import CANNOT, StageTooLarge, split
from pipelines.engines.kubeflow.compiler.settings import Settings, refuse
from pipelines.engines.kubeflow.compiler.size import LIMIT_BYTES, ROOM_BYTES, fits
from pipelines.engines.kubeflow.names import RUN_ID, STORE
from pipelines.engines.shared.container import IMAGES
from pipelines.recipe.recipe import Recipe
from pipelines.recipe.stage import Stage

MAY_FIT = 400
"""Stages that may fit one pipeline: a task takes more than 2.3 KB, and kfp's time grows with the square of them."""
CERTAINLY_FIT = 5_000
"""Stages that fit for sure, in parts: a smaller recipe is not compiled to be weighed."""
STAND_IN = f"registry.example/image@sha256:{'0' * 64}"
"""As long as an image's name, where only the size counts."""
PART_FORM: Form = {STORE: (str, REQUIRED), RUN_ID: (str, REQUIRED)}


def compile_recipe(recipe: Recipe, settings: Settings, *, store: str | None = None) -> str:
    """Return the pipeline of a whole recipe as YAML; the same recipe gives the same bytes.

    `store` is the default of the pipeline's parameter; without it, every run names one. Raises InputError with
    everything that prevents the recipe from being a pipeline.
    """
    check(recipe)
    refuse(recipe, settings)
    text, size = _compiled(recipe, settings, store)
    if not fits(size):
        raise InputError(f"{CANNOT}{too_large(recipe, size)}")
    return text


def size_refusal(recipe: Recipe, settings: Settings) -> str | None:
    """Return why a recipe's pipeline is too large for a cluster, completing "engine kubeflow cannot ..."; or None."""
    if len(recipe.stages) <= CERTAINLY_FIT:
        return None
    named = {kind: settings.images.get(kind) or STAND_IN for kind in IMAGES}
    try:
        _, size = _compiled(recipe, replace(settings, images=named), None)
    except StageTooLarge as error:
        return str(error).removeprefix(CANNOT)
    return None if fits(size) else too_large(recipe, size)


def too_large(recipe: Recipe, size: int) -> str:
    """Return that a workflow of `size` bytes is too large, and what to do."""
    return (
        f"take {len(recipe.stages)} stages in one run: its workflow would have some {size:,} bytes, and a cluster "
        f"takes {LIMIT_BYTES - ROOM_BYTES:,} beside what happens in a run; use fewer cells or rounds in one recipe, or "
        "another engine"
    )


def _compiled(recipe: Recipe, settings: Settings, store: str | None) -> tuple[str, int]:
    """Return the pipeline of a run, in parts if it is too large in one, and the bytes of its workflow."""
    form, name = form_of(recipe, store), recipe.name.replace("_", "-")
    bundle, lifetime = Bundle.of(recipe).dump(), Lifetime.of(recipe)

    def pipeline(body: Callable[..., None], parameters: Form = form, ending: str = "") -> tuple[str, int]:
        return compile_pipeline(name + ending, recipe.summary, parameters, body, lifetime)

    def part(stages: Sequence[Stage]) -> tuple[str, int]:
        return pipeline(partial(Drawing(recipe, settings, form, bundle).part, stages), PART_FORM, "-part")

    if len(recipe.stages) <= MAY_FIT:
        text, size = pipeline(Drawing(recipe, settings, form, bundle).whole)
        if fits(size):
            return text, size
    parts = split(recipe.stages, part)
    return pipeline(partial(Drawing(recipe, settings, form, bundle).run_of_parts, parts))
