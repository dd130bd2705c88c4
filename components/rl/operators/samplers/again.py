"""AGAIN: the curriculum of the best similar earlier learner, mixed with the learner's own ALP-GMM."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import Field

from components.rl.curricula.learning_progress import own_tries
from components.rl.curricula.progress_mixture import (
    ALPGMMConfig,
    component_weights,
    sampler_rng,
    test_if_due,
    update_mixture,
)
from components.rl.curricula.task_space import TaskSpace, task_space
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from components.rl.batch.batch import Prompt
    from components.rl.curricula.gaussian_mixture import Mixture


class AgainConfig(ALPGMMConfig):
    """ALP-GMM's constants, and how an earlier learner is chosen and followed."""

    explore: float = Field(default=0.1, ge=0, le=1)
    """rho: share of uniform draws once an earlier learner is chosen."""
    explore_first: float = Field(default=0.35, ge=0, le=1)
    """Share of uniform draws before the first test."""
    test_tasks: int = Field(default=16, ge=1)
    """Prompts, spread over the space, whose pass rates are a learner's knowledge vector."""
    k_neighbours: int = Field(default=5, ge=1)
    """Number of earlier learners with the most similar knowledge; the best of them is followed."""
    progress_threshold: float = Field(default=0.2, ge=0)
    """Components of its mixtures with at most this mean progress are left out."""
    window: int = Field(default=50, ge=1)
    """Number of latest rewards on its components whose mean must reach the expert's before its next mixture."""


def again(pool: Sequence[Prompt], count: int, context: SlotContext, *, config: AgainConfig) -> list[int]:
    """Return `count` indices: ALP-GMM until the first test, then components of an earlier learner and of its own.

    Earlier learners come from input `ledger`; without a tested one this stays ALP-GMM. Source: Portelas
    et al. 2020, Meta Automatic Curriculum Learning (arXiv:2011.08463), and its released code (variant R).
    """
    space = task_space(pool, config.fields)
    mixture = update_mixture(space, context, config)
    knowledge = test_if_due(space, context, config)
    if knowledge is not None:
        context.memory["lessons"] = _expert_lessons(space, context, config, knowledge)
    lesson = _current_lesson(space, context, config)
    explore = config.explore if "lessons" in context.memory else config.explore_first
    rng = sampler_rng(context, "again")
    return [_pick(space, mixture, lesson, explore, rng, context) for _ in range(count)]


def _expert_lessons(
    space: TaskSpace, context: SlotContext, config: AgainConfig, knowledge: list[float]
) -> list[dict[str, Any]]:
    from components.rl.curricula.earlier_learners import choose_expert, earlier_learners, lessons_of

    learners = earlier_learners(context, space, space.landmarks(config.test_tasks))
    if not learners:
        return []
    expert = choose_expert(learners, knowledge, config.k_neighbours)
    context.memory["expert"] = expert.policy
    lessons = lessons_of(
        expert.tries, config, threshold=config.progress_threshold, window=config.window, seed=context.seed
    )
    return [lesson.to_json() for lesson in lessons]


def _current_lesson(space: TaskSpace, context: SlotContext, config: AgainConfig) -> dict[str, Any] | None:
    """Return the lesson to draw from: the next one once the learner does as well on this one as the expert did.

    `context.memory` holds "lesson" (its number), "drawn" ([step, prompt id] drawn from it, reward pending) and
    "rewards" (the latest received).
    """
    lessons: list[dict[str, Any]] = context.memory.get("lessons", [])
    if not lessons:
        return None
    memory = context.memory
    rewards, drawn = memory.setdefault("rewards", []), memory.setdefault("drawn", [])
    known = {(one.step, one.prompt_id): one.reward for one in own_tries(context, space)} if drawn else {}
    rewards += [known[step, name] for step, name in drawn if (step, name) in known]
    memory["drawn"] = [[step, name] for step, name in drawn if step >= context.step]
    memory["rewards"] = rewards = rewards[-config.window :]
    number = memory.setdefault("lesson", 0)
    reached = len(rewards) == config.window and sum(rewards) / config.window >= lessons[number]["reward"]
    if reached and number + 1 < len(lessons):
        memory.update(lesson=number + 1, rewards=[], drawn=[])
    lesson: dict[str, Any] = lessons[memory["lesson"]]
    return lesson


def _pick(
    space: TaskSpace,
    mixture: Mixture | None,
    lesson: dict[str, Any] | None,
    explore: float,
    rng: random.Random,
    context: SlotContext,
) -> int:
    """Draw one task: uniformly with probability `explore`, else from a component of either, drawn by mean progress."""
    inherited = [mean[-1] for mean in lesson["means"]] if lesson else []
    weights = [*inherited, *component_weights(mixture)]
    if not weights or rng.random() < explore:
        return space.anywhere(rng)
    component = rng.choices(range(len(weights)), weights=weights)[0]
    if lesson and component < len(inherited):
        chosen = space.nearest(_mixture_of(lesson).draw(component, rng)[:-1])
        context.memory["drawn"].append([context.step, space.ids[chosen]])
        return chosen
    assert mixture is not None
    return space.nearest(mixture.draw(component - len(inherited), rng)[:-1])


def _mixture_of(lesson: dict[str, Any]) -> Mixture:
    from components.rl.curricula.gaussian_mixture import Mixture

    even = [1 / len(lesson["means"])] * len(lesson["means"])
    return Mixture.from_json({"weights": even, "means": lesson["means"], "covariances": lesson["covariances"]})
