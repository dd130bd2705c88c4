"""posttrain.plan and posttrain.validate: what a run would do now, and what is wrong with a recipe."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.contract.errors import InputError
from pipelines.client.errors import told_plainly
from pipelines.client.tables import frame
from pipelines.runs.default_store import chosen_store

if TYPE_CHECKING:
    import pandas as pd

    from pipelines.recipe.recipe import Recipe

SHOWN = ("component", "pool", "outlook", "reason", "seconds", "after")
OUTLOOKS = ("run", "cached", "skip")


class Plan:
    """What a run would do now. A notebook shows its stages."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        self._content = content

    @property
    def stages(self) -> pd.DataFrame:
        """Return a row per stage, in the order of the recipe: what would happen to it and why, on which pool, and the
        seconds that it took before (NaN if it never ran)."""
        rows = [{"stage": row["name"]} | {name: row[name] for name in SHOWN} for row in self._content["stages"]]
        return frame(rows, ["stage", *SHOWN]).set_index("stage")

    @property
    def notes(self) -> list[str]:
        """Return advice on the recipe."""
        return list(self._content["notes"])

    def to_json(self) -> dict[str, Any]:
        """Return all that `posttrain plan --json` prints."""
        return dict(self._content)

    def __repr__(self) -> str:
        counts = [f"{sum(row['outlook'] == word for row in self._content['stages'])} {word}" for word in OUTLOOKS]
        return f"<Plan of {self._content['recipe']}: {', '.join(counts)}>"

    def _repr_html_(self) -> str:
        from markupsafe import Markup

        from pipelines.client.pages import page

        table = Markup(self.stages.to_html(border=0, escape=True))
        return page("plan.html", plan=self._content, table=table)


@told_plainly
def plan(
    recipe: str | Path,
    *,
    set: Mapping[str, Any] | None = None,
    seed: int | None = None,
    store: str | Path | None = None,
    engine: str | None = None,
) -> Plan:
    """Return what a run would do now: which stages are cached, why the others are not, on which pools.

    Nothing is run or written. Arguments are those of `run`; with `engine` what it cannot do raises InputError.
    """
    from pipelines.engines.start import plan_run
    from pipelines.plan.shown import plan_json

    opened = chosen_store(None if store is None else str(store))
    planned, stages, _ = plan_run(read_recipe(recipe, set, seed), opened, engine=engine)
    return Plan(plan_json(planned, stages))


@told_plainly
def validate(recipe: str | Path, *, set: Mapping[str, Any] | None = None, seed: int | None = None) -> None:
    """Raise RecipeErrors with every mistake of a recipe, with file and line; its local data and models count, too."""
    from pipelines.plan.known import need_sound

    need_sound(read_recipe(recipe, set, seed))


def read_recipe(recipe: str | Path, changes: Mapping[str, Any] | None, seed: int | None) -> Recipe:
    """Return a recipe by name or path, with `changes` applied as by --set."""
    from pipelines.recipe.recipe import load_recipe

    return load_recipe(str(recipe), override_texts(changes), seed=seed)


def override_texts(changes: Mapping[str, Any] | None) -> list[str]:
    """Return changes of a recipe as --set takes them; raise InputError for a value that it cannot take."""
    from pipelines.recipe.layers import override_text

    overrides = []
    for key, value in (changes or {}).items():
        try:
            overrides.append(override_text(key, value))
        except (TypeError, ValueError) as error:
            raise InputError(f"set {key!r}: {error}; expected a number, a text, a list or a mapping") from None
    return overrides
