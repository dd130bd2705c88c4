"""What the rl stage draws ahead by default: an engine on GPUs draws while the trainer trains. Does not import torch."""

from __future__ import annotations

from components.contract.job import Resources
from components.contract.operators import OperatorSpec
from components.rl.params import RLParams
from components.rl.presets import load_preset
from components.rl.slots import CORRECTION, ROLLOUT

AHEAD = "group_ahead"


def on_pool(params: RLParams, resources: Resources) -> RLParams:
    """Return the parameters with one step of drawing ahead and its correction, where the pool has an engine on GPUs.

    Only where nobody chose a rollout: neither the recipe, for the stage or a phase, nor a method that has its own.
    Without GPUs, and for the native sampler, which would draw at once anyway, nothing changes. Source: Noukhovitch
    et al. 2024 (arXiv:2410.18252), one step off-policy; Yao et al. 2025, truncated importance sampling.
    """
    if not resources.gpus or resources.sampler != "vllm" or params.num_steps == 1 or not _is_open(params):
        return params
    changes: dict[str, object] = {"rollout": OperatorSpec(name=AHEAD)}
    slots = params.slots()
    if all(spec.name != CORRECTION for spec in slots.advantages):
        changes["advantages"] = (*slots.advantages, OperatorSpec(name=CORRECTION))
    try:
        settled: RLParams = type(params).model_validate({**params.model_dump(exclude_unset=True), **changes})
    except ValueError:  # a phase of its own advantages, or operators behind which no correction fits
        return params
    return settled


def _is_open(params: RLParams) -> bool:
    """Whether neither the recipe nor the method chose how responses are drawn, or what follows on advantages."""
    chosen = vars(params)["rollout"] is not None
    by_phase = any(phase.slots.keys() & {"rollout", "advantages"} for phase in params.phases)
    return not chosen and not by_phase and load_preset(params.method).slots.rollout.name == ROLLOUT.default
