"""Which parameters of an rl stage may differ from a checkpoint on. Does not import torch.

A checkpoint holds weights, the optimiser's averages, random generators, the pass-rate ledger, queued draws, a value
model if there is one, and each operator's memory under its slot and name: an operator that comes new begins with an
empty memory, as at step 0. So all that a step does may differ: objective, rewards, advantages, sampling, learning rate.
"""

from __future__ import annotations

from collections.abc import Iterator

from components.contract.forking import Held, changed
from components.modeling.supervised.forking import optimizer_misfits
from components.rl.configs import CriticConfig
from components.rl.params import RLParams
from components.rl.presets import bind

SHAPES = ("lora", "dtype")
DRAWS = ("group_size", "max_new_tokens", "prompts_per_step", "temperature", "rollout", "sampler", "schedule")
"""What queued draws were drawn with."""
CRITIC, AHEAD = "critic-", "tensors-ahead"
"""What the names of files begin with that hold the value model, and queued draws."""


def misfits(before: RLParams, now: RLParams, held: Held) -> Iterator[str]:
    """Yield why a checkpoint made with `before` cannot go on with `now`, one line each."""
    yield from optimizer_misfits(before.optimizer.name, now.optimizer.name)
    names = changed(before, now)
    for name in names:
        if name.partition(".")[0] in SHAPES:
            yield f"{name} changes the model's shape, and its weights fit no more"
    if now.num_steps <= held.step:
        yield f"steps {now.num_steps} end before it; give more than {held.step}"
    if isinstance(bind(now.slots()).critic.config, CriticConfig) and not held.has(CRITIC):
        yield "the critic needs a value model, and the checkpoint holds none: it would have been fitted from step 1 on"
    drawn = [name for name in names if name.partition(".")[0] in DRAWS]
    if drawn and held.has(AHEAD):
        yield f"{drawn[0]}: the checkpoint holds responses that were drawn ahead with the former value"
    yield from _phases(before, now, held)


def _phases(before: RLParams, now: RLParams, held: Held) -> Iterator[str]:
    """Yield the first phase that had begun at the checkpoint and is another one now; one that goes on may change."""
    start = 0
    for index, phase in enumerate(before.phases):
        if start >= held.step:
            return
        ends = start + phase.steps
        mine = now.phases[index] if index < len(now.phases) else None
        if mine is None or (ends <= held.step and mine != phase) or mine.name != phase.name:
            yield f"phases.{index}: phase {phase.name!r} lies before the fork, and is another one now"
            return
        start = ends
    if now.phases and not before.phases and now.phases[0].steps <= held.step:
        yield f"phases: the first ends at step {now.phases[0].steps}, and steps before the fork had no phases"
