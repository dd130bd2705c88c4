"""A recipe's parameters as those of a pipeline: typed, with defaults; and back again when a run begins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from components.contract.errors import InputError, did_you_mean
from pipelines.engines.kubeflow.names import OWN, SEED, SET, STORE, TRIGGER, identifier
from pipelines.engines.shared.request import SET as CONF_SET
from pipelines.recipe.parameters import Parameter
from pipelines.recipe.recipe import Recipe

REQUIRED = object()
"""Placeholder for a parameter without a default."""
_DECLARED = {"int": int, "float": float, "bool": bool, "str": str, "list": list}

Form = dict[str, tuple[type, Any]]
"""Name of a pipeline's parameter -> (type, default)."""


def form_of(recipe: Recipe, store: str | None) -> Form:
    """Return the parameters of a recipe's pipeline, the recipe's own first; the store is required if None.

    One whose value holds null somewhere inside, which Kubeflow cannot write, has none: `posttrain_set` changes it.
    Raises InputError if two of them would have one name.
    """
    form: Form = {}
    for parameter in recipe.parameters:
        name = identifier(parameter.name)
        if _holds_null(parameter.value):
            continue
        if name in form or name in OWN:
            raise InputError(
                f"parameter {parameter.name!r} would be called {name!r} in Kubeflow, like another parameter"
            )
        form[name] = (_type(parameter), parameter.value)
    form[SEED] = (int, recipe.seed)
    form[SET] = (list, [])
    form[STORE] = (str, REQUIRED if store is None else store)
    if recipe.schedule and recipe.schedule.cron:
        form[TRIGGER] = (str, "")
    return form


def configuration(recipe: Recipe, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a run's configuration, by the recipe's names, from the values of a pipeline's parameters.

    Numbers come as JSON has them, so that 80.0 may stand for 80.
    """
    conf: dict[str, Any] = {}
    for parameter in recipe.parameters:
        if (name := identifier(parameter.name)) in values:
            conf[parameter.name] = _as_own(values[name], parameter.value)
    if SEED in values:
        conf[SEED] = _as_own(values[SEED], recipe.seed)
    if values.get(SET):
        conf[CONF_SET] = values[SET]
    return conf


def arguments_of(recipe: Recipe, conf: Mapping[str, Any], form: Form) -> dict[str, Any]:
    """Return the pipeline arguments equivalent to `conf`; raise InputError for what the pipeline does not take.

    A value of another type than the pipeline's parameter travels as text among the other changes.
    """
    names = {parameter.name: identifier(parameter.name) for parameter in recipe.parameters} | {SEED: SEED}
    arguments: dict[str, Any] = {}
    more = list(conf.get(CONF_SET, []))
    for key, value in conf.items():
        if key == CONF_SET:
            continue
        if key not in names:
            raise InputError(f"unknown parameter {key!r}{did_you_mean(key, names)}")
        kind = form[names[key]][0] if names[key] in form else None
        if kind and not _holds_null(value) and isinstance(value, kind) and (kind is bool) == isinstance(value, bool):
            arguments[names[key]] = value
        else:
            more.append((key, value))
    return _with_texts(arguments, more)


def _with_texts(arguments: dict[str, Any], more: list[Any]) -> dict[str, Any]:
    from pipelines.recipe.layers import override_text

    if more:
        arguments[SET] = [item if isinstance(item, str) else override_text(*item) for item in more]
    return arguments


def _type(parameter: Parameter) -> type:
    declared = _DECLARED.get(parameter.words.type)
    if declared is not None:
        return declared
    kind = type(parameter.value)
    return kind if kind in (bool, int, float, str, list, dict) else str


def _holds_null(value: Any) -> bool:
    inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    return any(one is None or _holds_null(one) for one in inner)


def _as_own(given: Any, own: Any) -> Any:
    whole = isinstance(given, float) and given.is_integer()
    return int(given) if whole and not isinstance(own, float) else given
