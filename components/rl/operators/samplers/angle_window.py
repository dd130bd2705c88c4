"""GAIN-RL's sampler: a window that moves from prompts with concentrated hidden states to the others."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import Field

from components.rl.configs import SlotConfig
from components.rl.curricula.angles import angle_concentration, question_span
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from components.rl.batch.batch import Prompt


class AngleWindowConfig(SlotConfig):
    """The metric, the window and how it moves; the paper's widths and steps belong to 7,000 to 8,000 prompts."""

    inter_weight: float = Field(default=8.0, ge=0)
    """Weight of the cosines to the tokens before the question."""
    sigma: float = Field(default=1000.0, gt=0)
    """Width of the window, in ranks."""
    prompts_per_epoch: int = Field(default=256, ge=1)
    """n: prompts drawn, none twice, before the window moves."""
    accuracy_step: float = Field(default=500.0, ge=0)
    """Maximum ranks by which accuracy moves the centre, up or down."""
    angle_step: float = Field(default=500.0, ge=0)
    """Maximum ranks by which concentration moves the centre."""
    max_step: float = Field(default=1000.0, ge=0)
    """Maximum ranks in one move; the centre never moves back."""
    target_accuracy: float = Field(default=0.5, ge=0, le=1)
    """Accuracy that leaves the centre in place."""
    gain: float = Field(default=2.0, gt=0)
    """Factor inside both hyperbolic tangents."""
    lag: int = Field(default=1, ge=0, le=1)
    """Epochs before a new centre is used: 1 in the released script."""
    concentrated_first: bool = True
    """Whether ranks go from the highest to the lowest concentration; false reverses them."""


def angle_window(pool: Sequence[Prompt], count: int, context: SlotContext, *, config: AngleWindowConfig) -> list[int]:
    """Return the next `count` indices of epochs, each drawn around a centre of ranks that moves between them.

    Concentration is the starting policy's. Source: Wang et al. 2025, Angles Don't Lie (arXiv:2506.02281), and its
    released scripts.
    """
    memory = context.memory
    if "order" not in memory:
        metrics = prompt_concentrations(pool, context, config)
        sign = -1 if config.concentrated_first else 1
        order = sorted(range(len(pool)), key=lambda index: sign * metrics[index])
        memory.update(order=order, metrics=metrics, centres=[0.0], queue=[], trained=[], began=0)
    picked: list[int] = []
    while len(picked) < count:
        if not memory["queue"]:
            _begin_epoch(pool, context, config)
        taken = memory["queue"][: count - len(picked)]
        memory["queue"] = memory["queue"][len(taken) :]
        picked += taken
    return picked


def next_centre(centre: float, accuracy: float, angle: float, config: AngleWindowConfig) -> float:
    """Return centre + clamp(a tanh(g (accuracy - target)) + b tanh(g angle), 0, max_step)."""
    move = config.accuracy_step * math.tanh(config.gain * (accuracy - config.target_accuracy))
    move += config.angle_step * math.tanh(config.gain * angle)
    return centre + min(config.max_step, max(0.0, move))


def draw_window(size: int, count: int, centre: float, sigma: float, rng: random.Random) -> list[int]:
    """Draw ranks without replacement, each with probability proportional to exp(-((rank - centre) / sigma)^2 / 2).

    Takes the highest log-weights plus Gumbel noise: the same distribution, without underflow far from the centre.
    """

    def key(rank: int) -> float:
        return -0.5 * ((rank - centre) / sigma) ** 2 - math.log(-math.log(rng.random() or 5e-324))

    keys = {rank: key(rank) for rank in range(size)}
    return sorted(sorted(keys, key=keys.__getitem__, reverse=True)[:count])


def prompt_concentrations(pool: Sequence[Prompt], context: SlotContext, config: AngleWindowConfig) -> list[float]:
    """Return the metric of every prompt; the common prefix of all prompts counts as the tokens before the question."""
    from components.rl.step.scoring import prompt_hidden

    start, end = question_span([prompt.tokens for prompt in pool])
    hidden = prompt_hidden(context.policies.start, pool, layer="mlp_in", max_tokens=context.collector.max_tokens)
    return [
        angle_concentration(states, start, len(states) - end, inter_weight=config.inter_weight) for states in hidden
    ]


def _begin_epoch(pool: Sequence[Prompt], context: SlotContext, config: AngleWindowConfig) -> None:
    """Move the centre by the results of the last epoch, and draw the next epoch.

    `context.memory["centres"]` holds the centre of every epoch and, with a lag, the pending one.
    """
    memory = context.memory
    centres: list[float] = memory["centres"]
    epoch = memory["epoch"] = memory.get("epoch", -1) + 1
    if epoch:
        angle = sum(memory["metrics"][index] for index in memory["trained"]) / len(memory["trained"])
        accuracy = _accuracy({pool[index].item.id for index in memory["trained"]}, context)
        centres.append(next_centre(centres[-1], accuracy, angle, config))
    centre = context.metrics["window_centre"] = centres[max(0, epoch - config.lag)]
    rng = random.Random(f"{context.seed}/angle_window/{epoch}")
    ranks = draw_window(len(pool), config.prompts_per_epoch, centre, config.sigma, rng)
    memory["trained"] = [memory["order"][rank] for rank in ranks]
    memory["queue"], memory["began"] = list(memory["trained"]), context.step


def _accuracy(prompt_ids: set[str], context: SlotContext) -> float:
    """Return the mean over the epoch's prompts of their pass rates since it began."""
    rates = [
        visit.pass_rate
        for visit in context.ledger.visits(since_step=context.memory["began"])
        if visit.prompt_id in prompt_ids and visit.pass_rate is not None
    ]
    return sum(rates) / len(rates) if rates else 0.0
