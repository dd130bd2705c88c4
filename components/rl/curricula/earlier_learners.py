"""Earlier learners recorded in the ledger, and the curriculum of the best similar one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from components.rl.curricula.learning_progress import Try, absolute_progress, tries_of
from components.rl.curricula.progress_mixture import ALPGMMConfig, fit_progress
from components.rl.curricula.task_space import TaskSpace

if TYPE_CHECKING:
    from components.rl.curricula.gaussian_mixture import Mixture
    from components.rl.step.context import SlotContext
    from components.rl.step.ledger import Visit


@dataclass(frozen=True)
class Learner:
    """One learner of an earlier stage."""

    policy: str
    tries: list[Try]
    knowledge: list[float]
    """Pass rate on each landmark at its first test."""
    result: float
    """Mean pass rate on the landmarks at its last test."""


@dataclass(frozen=True)
class Lesson:
    """One mixture of an expert's sequence, without its components of little progress."""

    means: list[list[float]]
    covariances: list[list[list[float]]]
    reward: float
    """Mean reward of the expert on these components before its next mixture."""

    def to_json(self) -> dict[str, Any]:
        """Return plain lists."""
        return dict(vars(self))


def earlier_learners(context: SlotContext, space: TaskSpace, landmarks: Sequence[int]) -> list[Learner]:
    """Return the ledger's other policies that were tested on all landmarks, in the order of their first visit."""
    by_policy: dict[str, list[Visit]] = {}
    for visit in context.ledger.visits():
        if visit.policy != context.ledger.policy:
            by_policy.setdefault(visit.policy, []).append(visit)
    ids = [space.ids[index] for index in landmarks]
    found = []
    for policy, visits in by_policy.items():
        tests = _tests(visits, ids)
        if tests:
            found.append(Learner(policy, tries_of(visits, space), tests[0], sum(tests[-1]) / len(ids)))
    return found


def choose_expert(learners: Sequence[Learner], knowledge: Sequence[float], k: int) -> Learner:
    """Return the one with the best final result among the k whose knowledge is nearest."""
    near = sorted(learners, key=lambda learner: math.dist(learner.knowledge, knowledge))[:k]
    return max(near, key=lambda learner: learner.result)


def lessons_of(tries: Sequence[Try], config: ALPGMMConfig, *, threshold: float, window: int, seed: int) -> list[Lesson]:
    """Return the expert's mixtures in order, refitted from its tries.

    Components with a mean progress of at most `threshold` are removed, and so are mixtures left without components. A
    lesson's reward is the mean over the last `window` tries on its components before the next fit.
    """
    progress = absolute_progress(tries)
    lessons = []
    for end in range(config.fit_every, len(tries) + 1, config.fit_every):
        mixture = fit_progress(tries, progress, end, config, seed)
        kept = [index for index, mean in enumerate(mixture.means[:, -1].tolist()) if mean > threshold]
        after = range(end, min(end + config.fit_every, len(tries)))
        owners = _owners(mixture, [[*tries[index].point, progress[index]] for index in after])
        rewards = [tries[index].reward for index, owner in zip(after, owners, strict=True) if owner in kept][-window:]
        if kept and rewards:
            lessons.append(
                Lesson(mixture.means[kept].tolist(), mixture.covariances[kept].tolist(), sum(rewards) / len(rewards))
            )
    return lessons


def _owners(mixture: Mixture, points: list[list[float]]) -> list[int]:
    """Return the most probable component of each point."""
    import torch

    if not points:
        return []
    return [int(index) for index in mixture.log_joint(torch.tensor(points, dtype=torch.float64)).argmax(1)]


def _tests(visits: Sequence[Visit], ids: Sequence[str]) -> list[list[float]]:
    """Return the pass rates on all of `ids` at each step that visited them all, oldest first."""
    by_step: dict[int, dict[str, float]] = {}
    for visit in visits:
        if visit.pass_rate is not None:
            by_step.setdefault(visit.step, {})[visit.prompt_id] = visit.pass_rate
    return [[by_step[step][name] for name in ids] for step in sorted(by_step) if set(ids) <= set(by_step[step])]
