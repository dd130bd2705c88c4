"""The recipe of an earlier run, to be run once more: as it was, or from one of its checkpoints on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from components.contract.errors import InputError

if TYPE_CHECKING:
    from components.runtime.store import Store
    from pipelines.recipe.recipe import Recipe


def forked_recipe(
    store: Store, run_id: str, overrides: Sequence[str], words: Mapping[str, str | None], where: str | None = None
) -> Recipe:
    """Return the recipe of a run with its overrides, then these, forked as the `words` of its section say.

    `where` is the name or file of the recipe, if that is not where it was. Raises InputError if it is not there,
    RecipeErrors for mistakes in the overrides.
    """
    from components.runtime.ledger.ledger import load_run
    from pipelines.recipe.fork import FORK
    from pipelines.recipe.recipe import load_recipe

    entry = load_run(store, run_id).entry
    own = [text for text in entry.get("overrides") or () if text.partition("=")[0].strip().partition(".")[0] != FORK]
    asked = [f"{FORK}.{key}={value}" for key, value in {"run": run_id, **words}.items() if value is not None]
    return load_recipe(where or recipe_path("fork", run_id, entry), [*own, *overrides, *asked])


def recipe_path(command: str, run_id: str, entry: Mapping[str, Any]) -> str:
    """Return where the recipe of a run is; raise InputError if it is there no longer."""
    from pipelines.language.find import find_recipe

    path = str(entry.get("recipe_path") or "")
    try:
        find_recipe(path)
    except InputError as error:
        raise InputError(
            f"{command}: the recipe of run {run_id} is not where it was: {error}; name it with --recipe"
        ) from None
    return path
