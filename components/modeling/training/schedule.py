"""Learning rate as a pure function of the step, so that a resumed run needs no scheduler state."""

from __future__ import annotations

import math

from components.modeling.training.training_config import ScheduleConfig


def learning_rate(config: ScheduleConfig, step: int, total_steps: int) -> float:
    """Return the learning rate of optimiser step `step`, counted from 0, out of `total_steps`.

    Step s of a warm-up of w steps gets peak * (s + 1) / w, so that no step is wasted at zero. A falling
    schedule goes from the peak at the first step after the warm-up to its floor just after the last step.
    """
    peak = config.peak_learning_rate
    if step < config.warmup_steps:
        return peak * (step + 1) / config.warmup_steps
    if config.schedule == "constant":
        return peak
    floor = peak * config.floor_ratio
    done = min(1.0, (step - config.warmup_steps) / max(1, total_steps - config.warmup_steps))
    left = 1.0 - done if config.schedule == "linear" else 0.5 * (1.0 + math.cos(math.pi * done))
    return floor + (peak - floor) * left
