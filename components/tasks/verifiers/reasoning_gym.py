"""reasoning-gym: the scorer that belongs to the item's own task."""

from __future__ import annotations

import inspect
import json
import re
from functools import cache
from typing import Any

from pydantic import Field

from components.contract.component import Params
from components.tasks.answers import extract_answer
from components.tasks.isolation import inside_worker, verify_isolated
from components.tasks.item import Item
from components.tasks.verify import RIGHT, BrokenItem, Verdict, wrong

VERSIONED_PACKAGES = ("reasoning-gym", "sympy")
"""Its scorers judge: see components.contract.operators."""
EVALUATES = re.compile(r"\b(eval|exec|parse_expr|sympify|literal_eval|subprocess)\b")
"""Names by which a scorer would run, or parse with Python's machinery, what a model wrote."""


class ReasoningGymConfig(Params):
    """When a score is right, and how long scoring may take."""

    full_score: float = Field(default=1.0, gt=0, le=1)
    """Score from which a response is right; below it reasoning-gym gives partial credit for nearness."""
    timeout_seconds: float = Field(default=10.0, gt=0)
    """Deadline of scorers that evaluate the response; those run in a process of their own."""


def reasoning_gym(item: Item, response: str, *, config: ReasoningGymConfig) -> Verdict:
    """Judge by the task's score_answer: full score is RIGHT.

    A response that is not right is compared with the reference answer: when the scorer does not give that one full
    score either, the item or the scorer is broken (FAILED). A scorer that raises on a response but accepts the
    reference could not parse it (WRONG).
    """
    task = _text(item, "task")
    settings = _mapping(item, "config")
    if evaluates_answers(task) and not inside_worker():
        return verify_isolated(item, response, seconds=config.timeout_seconds)
    dataset = load_dataset(task, json.dumps(settings, sort_keys=True))
    entry = _entry(item, dataset)
    answer = extract_answer(response)
    try:
        score = float(dataset.score_answer(answer, entry))
    except MemoryError:
        raise
    except Exception as error:  # scorers raise whatever their parsing raises; the reference tells whose fault it is
        if not item.answer:
            raise
        detail = f"the scorer cannot read it ({type(error).__name__})"
    else:
        if score >= config.full_score:
            return RIGHT
        detail = f"score {score:.3g}"
    if item.answer and float(dataset.score_answer(item.answer, entry)) < config.full_score:
        raise BrokenItem("the scorer does not accept the reference answer")
    return wrong(f"{detail}: answered {answer[:80]!r}")


@cache
def load_dataset(task: str, config_json: str) -> Any:
    """Return reasoning-gym's dataset object of a task; raise BrokenItem for an unknown task or a refused config.

    Its seed and size do not matter for scoring, so that all items of one task and config share an object.
    """
    from reasoning_gym.factory import DATASETS, create_dataset

    if task not in DATASETS:
        raise BrokenItem(f"reasoning-gym has no task {task!r}")
    try:
        return create_dataset(task, **{"seed": 0, **json.loads(config_json)})
    except (TypeError, ValueError, AssertionError) as error:
        raise BrokenItem(f"reasoning-gym refuses the config of task {task!r}: {error}") from error


@cache
def evaluates_answers(task: str) -> bool:
    """Return whether the task's module has means to evaluate answers, which then happens out of process."""
    from reasoning_gym.factory import DATASETS

    if task not in DATASETS:
        raise BrokenItem(f"reasoning-gym has no task {task!r}")
    return EVALUATES.search(inspect.getsource(inspect.getmodule(DATASETS[task][0]))) is not None


def _entry(item: Item, dataset: Any) -> dict[str, Any]:
    """Return the task's own entry: from the stored metadata, or made again where JSON could not hold it."""
    if "metadata" in item.data:
        return {"question": item.prompt, "answer": item.answer, "metadata": _mapping(item, "metadata")}
    seed, index = item.data.get("seed"), item.data.get("index")
    if not (isinstance(seed, int) and isinstance(index, int)):
        raise BrokenItem("data has neither metadata nor the seed and index to make it again")
    entry = _generate(type(dataset), item.data["task"], json.dumps(item.data["config"], sort_keys=True), seed, index)
    if entry["question"] != item.prompt:
        raise BrokenItem("seed and index give another question: this reasoning-gym is another version")
    return entry


@cache
def _generate(dataset_type: type, task: str, config_json: str, seed: int, index: int) -> dict[str, Any]:
    from reasoning_gym.factory import create_dataset

    return create_dataset(task, **{**json.loads(config_json), "seed": seed, "size": index + 1})[index]


def _text(item: Item, key: str) -> str:
    value = item.data.get(key)
    if not isinstance(value, str):
        raise BrokenItem(f"data.{key} is missing")
    return value


def _mapping(item: Item, key: str) -> dict[str, Any]:
    value = item.data.get(key)
    if not isinstance(value, dict):
        raise BrokenItem(f"data.{key} is missing")
    return value
