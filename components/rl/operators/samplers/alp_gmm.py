"""ALP-GMM: tasks are drawn where the learner's rewards change most, by a mixture over task and progress."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from components.rl.curricula.progress_mixture import (
    ALPGMMConfig,
    component_weights,
    sampler_rng,
    test_if_due,
    update_mixture,
)
from components.rl.curricula.task_space import task_space
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from components.rl.batch.batch import Prompt


def alp_gmm(pool: Sequence[Prompt], count: int, context: SlotContext, *, config: ALPGMMConfig) -> list[int]:
    """Return `count` indices: a uniform draw with probability rho, else a task of a component drawn by mean progress.

    Source: Portelas et al. 2019, Teacher algorithms for curriculum learning of Deep RL in continuously parameterized
    environments (arXiv:1910.07224), algorithm 2. A task is the point of a prompt of the pool (see task_space).
    """
    space = task_space(pool, config.fields)
    mixture = update_mixture(space, context, config)
    test_if_due(space, context, config)
    rng = sampler_rng(context, "alp_gmm")
    weights = component_weights(mixture)
    picked = []
    for _ in range(count):
        if mixture is None or rng.random() < config.explore:
            picked.append(space.anywhere(rng))
        else:
            component = rng.choices(range(len(weights)), weights=weights)[0]
            picked.append(space.nearest(mixture.draw(component, rng)[:-1]))
    return picked
