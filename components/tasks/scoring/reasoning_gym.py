"""reasoning-gym's own scorers on answers to one entry."""

from __future__ import annotations

import copy
import json
import math
from functools import cache
from typing import Any

WRITE_INTO_ENTRIES = frozenset({"knight_swap"})
"""Tasks whose scorers modify the entry; the next answer needs a fresh one. A test finds others."""


def scores(argument: dict[str, Any]) -> dict[str, Any]:
    """Return {"scores": [...]} of `answers`, or {"broken": why} if the entry cannot be made.

    A score is a number, or the text of the scorer's exception: it could not read the answer. `entry` is the task's
    own (question, answer, metadata), or `seed` and `index` regenerate it and its `question` is the check.
    """
    try:
        dataset = load_dataset(argument["task"], _key(argument["config"]))
        entry = argument["entry"] if "entry" in argument else _made_again(argument)
    except Broken as error:
        return {"broken": str(error)}
    if argument["task"] in WRITE_INTO_ENTRIES:
        return {"scores": [_score(dataset, answer, copy.deepcopy(entry)) for answer in argument["answers"]]}
    return {"scores": [_score(dataset, answer, entry) for answer in argument["answers"]]}


class Broken(Exception):
    """Raised for an unknown task, a config that the task refuses, or a regenerated entry that differs."""


@cache
def load_dataset(task: str, config_json: str) -> Any:
    """Return reasoning-gym's dataset object of a task; raise Broken for an unknown task or a refused config.

    Its seed and size do not affect scoring, so all items of one task and config share an object.
    """
    from reasoning_gym.factory import DATASETS, create_dataset

    if task not in DATASETS:
        raise Broken(f"reasoning-gym has no task {task!r}")
    try:
        return create_dataset(task, **{"seed": 0, **json.loads(config_json)})
    except (TypeError, ValueError, AssertionError, AttributeError) as error:
        raise Broken(f"reasoning-gym refuses the config of task {task!r}: {error}") from error


def _score(dataset: Any, answer: str, entry: dict[str, Any]) -> float | str:
    try:
        score = float(dataset.score_answer(answer, entry))
    except MemoryError:
        raise
    except Exception as error:  # scorers raise whatever their parsing raises
        return type(error).__name__
    return score if math.isfinite(score) else 0.0


def _made_again(argument: dict[str, Any]) -> dict[str, Any]:
    entry = _generate(argument["task"], _key(argument["config"]), argument["seed"], argument["index"])
    if entry["question"] != argument["question"]:
        raise Broken("seed and index give another question: this reasoning-gym is another version")
    return entry


@cache
def _generate(task: str, config_json: str, seed: int, index: int) -> dict[str, Any]:
    from reasoning_gym.factory import create_dataset

    return create_dataset(task, **{**json.loads(config_json), "seed": seed, "size": index + 1})[index]


def _key(config: dict[str, Any]) -> str:
    return json.dumps(config, sort_keys=True)
