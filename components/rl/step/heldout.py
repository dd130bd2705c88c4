"""The held-out probe: the pass rate on prompts that are not trained on, measured on the policy of some steps.

It draws from random streams of its own and enters neither the ledger nor the record, so that a stage trains the same
with it and without.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from components.contract.errors import InputError
from components.contract.samples import spread
from components.measure.formulas.majority import maj_at_k
from components.rl.batch.batch import FAILED, RIGHT, Batch, Prompt
from components.rl.params import HeldoutConfig
from components.rl.step.collector import Collector
from components.tasks.answers import extract_answer
from components.tasks.seeds import derive_seed


@dataclass(frozen=True)
class HeldoutProbe:
    """A fixed set of held-out prompts, and how often they are tried."""

    prompts: Sequence[Prompt]
    config: HeldoutConfig
    seed: int

    def metrics(self, collector: Collector, step: int) -> dict[str, float]:
        """Return what the policy reaches at the beginning of `step`, from 0; empty if no verification succeeds.

        `heldout_pass_rate`, and `heldout_majority_rate`: the chance that the most frequent answer of a prompt's samples
        is right, mean over prompts; a policy that learns from its own votes cannot get far above it.
        """
        generator = torch.Generator().manual_seed(derive_seed(self.seed, "heldout", step))
        batch = collector.draw(self.prompts, self.config.samples, generator=generator, to_learn=False)
        outcomes = batch.of_traces(collector.outcomes(batch))
        verified = int((outcomes != FAILED).sum())
        if not verified:
            return {}
        found = {"heldout_pass_rate": int((outcomes == RIGHT).sum()) / verified}
        return found | {"heldout_majority_rate": _majority_rate(batch, outcomes)}


def _majority_rate(batch: Batch, outcomes_t: Tensor) -> float:
    """Return the mean over prompts of maj@n, n being the verified samples of the prompt."""
    answers: list[list[str | None]] = [[] for _ in batch.prompts]
    right: list[list[bool]] = [[] for _ in batch.prompts]
    groups = batch.group.tolist()
    for row, outcome in zip(batch.last_rows.tolist(), outcomes_t.tolist(), strict=True):
        if outcome != FAILED:
            answers[groups[row]].append(extract_answer(batch.texts[row]) or None)
            right[groups[row]].append(outcome == RIGHT)
    rates = [maj_at_k(given, marks, len(given)) for given, marks in zip(answers, right, strict=True) if given]
    return math.fsum(rates) / len(rates)


def heldout_probe(
    held: Sequence[Prompt], trained: Sequence[Prompt], config: HeldoutConfig, *, seed: int
) -> HeldoutProbe | None:
    """Return the probe on evenly spaced prompts of `held`; None without any.

    Raises InputError for prompts without a verifier, and for prompts that are trained on: their pass rate would rise
    with a reward that is gamed.
    """
    if bare := [prompt.item.id for prompt in held if prompt.item.is_unlabelled]:
        raise InputError(f"rl: {len(bare)} of {len(held)} prompts of input `heldout` are unlabelled, such as {bare[0]}")
    if both := {prompt.item.id for prompt in held} & {prompt.item.id for prompt in trained}:
        raise InputError(
            f"rl: {len(both)} of the {len(held)} prompts of input `heldout` are in `dataset`, such as {min(both)}; "
            "connect another part of the data"
        )
    return HeldoutProbe(spread(held, config.prompts), config, seed) if held else None
