"""A stated confidence is scored by a proper rule: the calibration part of RLCR."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from components.measure.confidence import ConfidenceSettings
from components.rl.configs import RewardConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class BrierConfig(RewardConfig):
    """How a response states its confidence, and what it gets without one."""

    reads: ClassVar[frozenset[str]] = frozenset({"outcomes"})
    confidence: ConfidenceSettings = ConfidenceSettings()
    """Tag and scale of the stated confidence."""
    invalid: float = Field(default=-1.0, le=0)
    """Reward of a response without a confidence, or with one outside [0, 1]: by default that of the worst one."""


def brier(batch: Batch, context: SlotContext, *, config: BrierConfig) -> Tensor:
    """Return [S]: -(q - c)^2 with the stated confidence q and c = 1 for a right response, else 0.

    Beside reward `verifier` this is RLCR's c - (q - c)^2, which is largest in expectation at q = P(right).
    Metrics: `confidence`, the mean of those stated; `confidence_invalid`, the share of responses without one.

    Source: Damani et al. 2025, Beyond Binary Rewards (RLCR, arXiv:2507.16806), eq. 1. Reconstructed: `invalid`.
    """
    import torch

    from components.rl.batch.batch import RIGHT, UNSCORED
    from components.rl.batch.texts import verified_texts

    stated = [config.confidence.read(text).value for text in verified_texts(batch)]
    given = torch.tensor([torch.nan if value is None else value for value in stated], dtype=torch.float32)
    missing = given.isnan()
    if len(given):
        context.metrics["confidence_invalid"] = float(missing.float().mean())
    if not bool(missing.all()):
        context.metrics["confidence"] = float(given[~missing].double().mean())
    scored = -(given - (batch.outcomes == RIGHT).float()).square()
    return scored.masked_fill(missing, config.invalid).masked_fill(batch.outcomes == UNSCORED, torch.nan)
