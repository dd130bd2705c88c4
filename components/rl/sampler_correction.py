"""When and how the rl stage corrects for a sampler whose log-probabilities differ from the trainer's."""

from __future__ import annotations

from pydantic import Field

from components.contract.params import Params


class SamplerCorrection(Params):
    """Truncated importance weights for tokens that an engine, or decoding in bfloat16, drew."""

    above: float = Field(default=1e-3, ge=0)
    """Mean gap in nats a token above which a step is corrected; float32 stays below 1e-5, bfloat16 is near 3e-3."""
    cap: float = Field(default=2.0, gt=0)
    """Largest importance weight of a token."""
