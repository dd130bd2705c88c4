"""Shared by ALP-GMM and its successors: the mixture over task and progress, and the tests of a learner."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import Field

from components.rl.configs import SlotConfig
from components.rl.curricula.learning_progress import Try, absolute_progress, own_tries
from components.rl.curricula.task_space import TaskSpace
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from components.rl.curricula.gaussian_mixture import Mixture


class ALPGMMConfig(SlotConfig):
    """The task space and the teacher's constants."""

    fields: tuple[str, ...] = Field(default=("metadata.num_terms",), min_length=1)
    """Dotted paths of numbers in the prompts' data: the coordinates of a task."""
    fit_every: int = Field(default=250, ge=2)
    """Tasks between fits; each fit uses this many of the latest. Before the first fit, tasks are drawn uniformly."""
    explore: float = Field(default=0.2, ge=0, le=1)
    """rho: share of tasks drawn uniformly from the space."""
    max_components: int = Field(default=10, ge=2)
    """Mixtures of 2 to this many components are tried; the lowest AIC wins."""
    test_tasks: int = Field(default=0, ge=0)
    """Prompts, spread over the space, on which the learner is tested for comparison by later ones; 0 for no tests."""
    test_samples: int = Field(default=8, ge=1)
    """Responses to each of them."""
    test_after: int = Field(default=500, ge=0)
    """Tasks before the first test; the second and last test is at the last step."""


def update_mixture(space: TaskSpace, context: SlotContext, config: ALPGMMConfig) -> Mixture | None:
    """Add the tasks of finished steps, refit after every `fit_every` tasks, and return the latest mixture.

    `context.memory` holds "progress" (of every task so far), "fitted" (tasks at the last fit) and "mixture".
    """
    from components.rl.curricula.gaussian_mixture import Mixture

    tries = own_tries(context, space)
    progress = context.memory.setdefault("progress", [])
    progress += absolute_progress(tries, since=len(progress))
    due = len(tries) - len(tries) % config.fit_every
    if due > context.memory.get("fitted", 0):
        context.memory["fitted"] = due
        context.memory["mixture"] = fit_progress(tries, progress, due, config, context.seed).to_json()
    saved = context.memory.get("mixture")
    return Mixture.from_json(saved) if saved else None


def fit_progress(tries: Sequence[Try], progress: Sequence[float], end: int, config: ALPGMMConfig, seed: int) -> Mixture:
    """Return the mixture over (task, progress) of the `fit_every` tasks before the `end`-th."""
    import torch

    from components.rl.curricula.gaussian_mixture import best_mixture

    recent = range(end - config.fit_every, end)
    points = torch.tensor([[*tries[index].point, progress[index]] for index in recent], dtype=torch.float64)
    return best_mixture(points, range(2, config.max_components + 1), random.Random(f"{seed}/mixture/{end}"))


def component_weights(mixture: Mixture | None) -> list[float]:
    """Return the weights of components in draws: their mean progress, the last coordinate; equal if all are 0."""
    if mixture is None:
        return []
    progress = [max(0.0, mean) for mean in mixture.means[:, -1].tolist()]
    return progress if sum(progress) > 0 else [1.0] * len(progress)


def test_if_due(space: TaskSpace, context: SlotContext, config: ALPGMMConfig) -> list[float] | None:
    """Test the learner on the landmarks once after `test_after` tasks and again at the last step.

    Return the pass rates of the first test at the call that ran it, else None. Later learners find both tests in the
    ledger, as visits of the landmarks.
    """
    first = "tested" not in context.memory and len(context.memory["progress"]) >= config.test_after
    last = context.step == context.num_steps - 1 and context.memory.get("tested") not in (None, context.step)
    if not config.test_tasks or not (first or last):
        return None
    context.memory["tested"] = context.step
    prompts = [context.pool[index] for index in space.landmarks(config.test_tasks)]
    rates = context.collector.probe(prompts, config.test_samples).nan_to_num(0.0).tolist()
    return rates if first else None


def sampler_rng(context: SlotContext, name: str) -> random.Random:
    """Return the generator of the sampler's next call; calls of a run are counted in `context.memory`."""
    draws = context.memory["draws"] = context.memory.get("draws", -1) + 1
    return random.Random(f"{context.seed}/{name}/{draws}")
