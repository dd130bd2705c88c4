"""The trigger form: a recipe's parameters as Airflow's typed ones, with titles, bounds and a section for the rest.

Imports no Airflow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pipelines.engines.shared.request import SEED, SET
from pipelines.recipe.choices import Choices, parameter_choices
from pipelines.recipe.grammar import MAX_SEED
from pipelines.recipe.parameters import Parameter, ParameterWords
from pipelines.recipe.pools import Pool
from pipelines.recipe.recipe import Recipe

MORE = "More"
"""Title of the form's folded section, for parameters that most runs leave unchanged."""
_TYPES = {"int": "integer", "float": "number", "bool": "boolean", "str": "string", "list": "array"}


def fields_of(recipe: Recipe) -> dict[str, dict[str, Any]]:
    """Return name -> the arguments of Airflow's Param, the recipe's own parameters first."""
    choices = {
        name: _offered(found, recipe.params[name], recipe.pools) for name, found in parameter_choices(recipe).items()
    }
    fields = {parameter.name: _field(parameter, choices.get(parameter.name)) for parameter in recipe.parameters}
    fields[SEED] = {
        "default": recipe.seed,
        "type": "integer",
        "minimum": 0,
        "maximum": MAX_SEED,
        "title": "Seed",
        "description": "Of every stage that sets none of its own.",
        "section": MORE,
    }
    fields[SET] = {
        "default": [],
        "type": ["null", "array"],
        "items": {"type": "string", "pattern": "="},
        "title": "Other changes",
        "description": "One per line, as for posttrain run --set: stages.rl.with.group_size=16",
        "section": MORE,
    }
    return fields


def _offered(choices: Choices, drawn: Any, pools: Mapping[str, Pool]) -> Choices:
    """Return the choices that a run of the DAG can make: a pod moves between pools of pods, a process stays."""
    if not choices.pool:
        return choices
    pods = tuple(name for name in choices.values if pools[name].runs_on == "pod")
    return replace(choices, values=pods if drawn in pods else (drawn,))


def _field(parameter: Parameter, choices: Choices | None) -> dict[str, Any]:
    words, value = parameter.words, parameter.value
    schema: dict[str, Any] = {
        "title": words.title or parameter.name,
        "description": _hint(words),
        "minimum": words.min,
        "maximum": words.max,
    }
    schema = {name: item for name, item in schema.items() if item is not None}
    if choices is not None and value in choices.values:
        # a list to choose from, or proposals beside free text where other values are fine, too
        schema["enum" if choices.closed else "examples"] = list(choices.values)
    kind = _TYPES.get(words.type) or _type_of(value)
    texts = all(isinstance(item, str) for item in schema.get("enum", ()))
    if kind is not None and (texts or "enum" not in schema):
        schema["type"] = kind  # without one, Airflow takes a list's field for optional
    return {"default": value, **schema}


def _hint(words: ParameterWords) -> str | None:
    """Return the form's text below a field: the recipe's own line, and the bounds, which the form does not show."""
    bounds = {
        (False, False): None,
        (True, False): f"at least {words.min}",
        (False, True): f"at most {words.max}",
        (True, True): f"{words.min} to {words.max}",
    }
    known = bounds[words.min is not None, words.max is not None]
    return "; ".join(filter(None, [words.doc, known])) or None


def _type_of(value: Any) -> str | list[str] | None:
    """Return the JSON type of values like this one; a whole number may also become a fraction."""
    if value is None:
        return ["null", "string"]
    kinds = {bool: "boolean", int: "number", float: "number", str: "string", list: "array", dict: "object"}
    return kinds.get(type(value))
