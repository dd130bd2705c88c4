"""Requests of a run on another orchestrator: its configuration becomes overrides, checked against the recipe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from components.contract.errors import InputError, did_you_mean
from components.contract.uploaded import Upload
from pipelines.recipe.carried import Carried, sender_folders
from pipelines.recipe.layers import override_text
from pipelines.recipe.recipe import Recipe, load_recipe
from pipelines.recipe.stage import Stage

SEED = "seed"
SET = "--set"
DATA = "--data"
"""Keys of a run's configuration beside the recipe's parameters; no parameter can be called so."""


def requested_recipe(name_or_path: str, conf: Mapping[str, Any] | None, *, pods_move: bool = False) -> Recipe:
    """Return the recipe with a run's configuration applied; raise InputError or RecipeErrors for mistakes in it.

    Airflow accepts undeclared keys, and its form silently clamps numbers: everything is checked again here.
    """
    conf = dict(conf or {})
    sent = _sent(conf.pop(DATA, None))
    recipe = load_recipe(name_or_path, carried=sent)
    overrides = overrides_of(recipe, conf)
    asked = load_recipe(name_or_path, overrides, carried=sent) if overrides else recipe
    refuse_other_graph(load_recipe(name_or_path, whole=True, carried=sent), asked, pods_move=pods_move)
    return asked


def data_conf(recipe: Recipe) -> dict[str, Any]:
    """Return the part of a configuration that says where the store has the sender's local data; empty without any."""
    if not recipe.uploads:
        return {}
    uploads = [one.model_dump(mode="json") for one in recipe.uploads]
    return {DATA: {"uploads": uploads, "folders": sender_folders(recipe.documents)}}


def _sent(data: Any) -> Carried | None:
    if data is None:
        return None
    try:
        folders = [str(folder) for folder in data["folders"]]
        uploads = [Upload.model_validate(one) for one in data["uploads"]]
        return Carried(uploads=uploads, folders=folders[:-1], working=folders[-1])
    except (TypeError, KeyError, IndexError, ValueError):
        raise InputError(f"{DATA}: not what posttrain run writes; start the run with it, or leave it out") from None


def conf_of(recipe: Recipe) -> dict[str, Any]:
    """Return the configuration of a DAG run equivalent to a recipe's overrides."""
    conf: dict[str, Any] = {}
    for override in recipe.overrides:
        key = override.partition("=")[0].strip()
        name = key.removeprefix("params.")
        if name in recipe.params:
            conf[name] = recipe.params[name]
        elif key == SEED:
            conf[SEED] = recipe.seed
        else:
            conf.setdefault(SET, []).append(override)
    return conf


def overrides_of(recipe: Recipe, conf: Mapping[str, Any]) -> list[str]:
    """Return the "key=value" overrides of a configuration, without values equal to the recipe's own."""
    known = {**recipe.params, SEED: recipe.seed}
    unknown = [key for key in conf if key not in known and key != SET]
    if unknown:
        lines = [f"unknown parameter {key!r}{did_you_mean(key, [*known, SET])}" for key in unknown]
        raise InputError("\n".join(lines))
    found = [override_text(key, conf[key]) for key in known if key in conf and not _same(conf[key], known[key])]
    more = conf.get(SET) or []
    if not isinstance(more, list) or not all(isinstance(text, str) for text in more):
        raise InputError(f"{SET}: got {more!r}, expected a list of texts such as stages.rl.with.group_size=16")
    return [*found, *more]


def refuse_other_graph(drawn: Recipe, asked: Recipe, *, pods_move: bool = False) -> None:
    """Raise InputError if a run would need a DAG other than the one drawn from the unmodified recipe.

    `when` may leave stages out. With `pods_move` a pod may run in another pool of pods, and may have other retries: its
    driver makes them. Nothing else that orders the run may differ.
    """
    known = {stage.name: stage for stage in drawn.stages}
    problems = [f"stage {stage.name!r} is not in the DAG" for stage in asked.stages if stage.name not in known]
    gone = known.keys() - {stage.name for stage in asked.stages} - {left.name for left in asked.left_out}
    problems += [f"stage {name!r} of the DAG is not in the run" for name in sorted(gone)]
    for stage in asked.stages:
        if stage.name in known:
            before = known[stage.name]
            pools = drawn.pools[before.pool], asked.pools[stage.pool]
            pods = pods_move and all(pool.runs_on == "pod" for pool in pools)
            moved = replace(before, pool=stage.pool, retry=stage.retry) if pods else before
            problems += [f"stage {stage.name!r}: {text}" for text in _differences(moved, stage)]
    if problems:
        raise InputError(
            f"recipe {asked.name!r}: these parameters would change the graph, which is drawn from the recipe file: "
            f"{'; '.join(problems)}. Write a recipe that extends this one with those values, or use another engine"
        )


def _differences(drawn: Stage, asked: Stage) -> list[str]:
    pairs = {
        "component": (drawn.component.name, asked.component.name),
        "pool": (drawn.pool, asked.pool),
        "retries": (drawn.retry, asked.retry),
        "on_failure": (drawn.on_failure, asked.on_failure),
        "timeout": (drawn.timeout_seconds, asked.timeout_seconds),
        "approve": (drawn.approve, asked.approve),
        "register": (_registration(drawn), _registration(asked)),
    }
    found = [f"another {word}" for word, (before, now) in pairs.items() if before != now]
    return found + [f"it would wait for {name!r}" for name in asked.after if name not in drawn.after]


def _registration(stage: Stage) -> tuple[str, ...] | None:
    return (stage.register_as, *stage.register_aliases) if stage.register_as else None


def _same(given: Any, own: Any) -> bool:
    """Return whether two JSON values are equal; true is not 1."""
    return given == own and isinstance(given, bool) == isinstance(own, bool)
