"""reasoning-gym: procedurally generated tasks, each with its own verifier."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any, ClassVar

from pydantic import Field, ValidationInfo, field_validator

from components.contract.errors import InputError, UnknownName
from components.tasks.grammars.reasoning_gym_configs import check_config
from components.tasks.grammars.reasoning_gym_tasks import TASK_NAMES
from components.tasks.seeds import derive_seed
from components.tasks.source import SourceConfig, SourceRequest, SourceRow, SourceRows

VERIFIER = "reasoning_gym"
VERSIONED_PACKAGES = ("reasoning-gym",)
"""It makes the items: see components.contract.operators."""
SEED_SPAN = 1 << 31
"""Some tasks hand their seed to NumPy, which takes 32 bits."""
MAX_ROWS = 1 << 26


class ReasoningGymSourceConfig(SourceConfig):
    """Which task, how hard, and from which stretch of its endless sequence."""

    endless: ClassVar[bool] = True
    task: str
    """Name of a reasoning-gym dataset, such as chain_sum."""
    config: dict[str, Any] = Field(default_factory=dict)
    """Config keys of the task that differ from its defaults, such as max_terms."""
    seed: int | None = None
    """Seed of the sequence; the stage's own when none is given. A held-out set names one, so that it never moves."""

    @field_validator("task")
    @classmethod
    def _known(cls, task: str) -> str:
        if task not in TASK_NAMES:
            raise UnknownName("reasoning-gym task", task, TASK_NAMES)
        return task

    @field_validator("config")
    @classmethod
    def _fits(cls, config: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        if "task" in info.data:  # else the task is unknown, which is said
            check_config(info.data["task"], config)
        return config

    def verifiers(self) -> tuple[str, ...]:
        """Return the verifier of all rows."""
        return (VERIFIER,)


def reasoning_gym(request: SourceRequest, *, config: ReasoningGymSourceConfig) -> SourceRows:
    """Generate items of a task, without end.

    Item i of a reasoning-gym dataset is made from seed + i, so two neighbouring seeds give nearly the same items. Here
    the seed is hashed first: different seeds are stretches that lie apart, and only chance repeats a prompt.
    """
    reserved = {"seed", "size"} & set(config.config)
    if reserved:
        raise InputError(f"source reasoning_gym: {', '.join(sorted(reserved))} cannot be set under `config`")
    seed = request.seed if config.seed is None else config.seed
    start = derive_seed(seed, "reasoning_gym", config.task) % (SEED_SPAN - MAX_ROWS)
    size = min(request.limit, MAX_ROWS)
    dataset = _create(config, start, size)
    origin = {
        "source": "reasoning_gym",
        "name": config.task,
        "config": config.config,
        "seed": seed,
        "version": version("reasoning-gym"),
    }
    return SourceRows(_rows(dataset, config, start, size), origin)


def _create(config: ReasoningGymSourceConfig, start: int, size: int) -> Any:
    from reasoning_gym.factory import create_dataset

    try:
        return create_dataset(config.task, **config.config, seed=start, size=size)
    except (TypeError, ValueError, AssertionError) as error:
        raise InputError(f"source reasoning_gym: task {config.task!r} refuses its config: {error}") from error


def _rows(dataset: Any, config: ReasoningGymSourceConfig, start: int, size: int) -> Iterator[SourceRow]:
    for index in range(size):
        entry = dataset[index]
        data = {"task": config.task, "config": config.config, "seed": start, "index": index}
        metadata = _as_json(entry, dataset)
        if metadata is not None:
            data["metadata"] = metadata
        yield SourceRow(
            f"{config.task}[{index}]",
            prompt=entry["question"],
            answer=entry["answer"] if isinstance(entry["answer"], str) else "",
            verifier=VERIFIER,
            data=data,
        )


def _as_json(entry: dict[str, Any], dataset: Any) -> dict[str, Any] | None:
    """Return the metadata as JSON, or None if the scorer needs what JSON loses (tuples, integer keys)."""
    try:
        kept = json.loads(json.dumps(entry["metadata"], allow_nan=False))
    except (TypeError, ValueError):
        return None
    if kept == entry["metadata"] or not isinstance(entry["answer"], str):
        return kept
    answer = entry["answer"]
    kept_score = dataset.score_answer(answer, {**entry, "metadata": kept})
    return kept if kept_score == dataset.score_answer(answer, entry) else None
