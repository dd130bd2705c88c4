"""Cosines between gradients of rows and of a target set, one row's gradient in memory at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from components.contract.errors import InputError
from components.curate.selection.model_rows import learned_row, open_policy, with_response
from components.curation.candidate import Candidate
from components.modeling.models.policy import Policy
from components.modeling.packing.packed import Packed
from components.modeling.supervised.examples import Example, examples_from_rows

if TYPE_CHECKING:
    from components.curate.selection.context import SelectionContext

LOG = "influence"
FIRST_CHECKPOINT = 1_000_000
"""Checkpoints of the gradients come after those of the difficulty."""


@dataclass(frozen=True)
class GradientSettings:
    """How gradients are taken."""

    by_domain: bool
    """Whether the targets of each domain have a mean gradient of their own."""
    max_tokens: int
    """Longest row in tokens; longer ones are cut."""
    chunk: int
    """Rows between two checkpoints."""


def cosines(rows: Sequence[Candidate], context: SelectionContext, config: GradientSettings) -> list[float]:
    """Return for each row the cosine of its gradient to the targets' mean gradient, or the largest of the domains'.

    Every chunk is a checkpoint. Raises InputError where there are no targets.
    """
    done: list[float] = [value for chunk in context.stage.appended(LOG) for value in chunk]
    num_chunks = -(-len(done) // config.chunk)
    if len(done) >= len(rows):
        return done[: len(rows)]
    policy = open_policy(context)
    targets = _target_gradients(policy, context, config)
    while len(done) < len(rows):
        part = [learned_row(row) for row in rows[len(done) : len(done) + config.chunk]]
        found = [_cosine(row_gradient(policy, example), targets) for example in _examples(policy, part, config)]
        done += found
        num_chunks += 1
        context.stage.append(LOG, [found])
        context.stage.checkpoint(FIRST_CHECKPOINT + num_chunks, lambda folder: None)  # the log is all there is
    return done


def row_gradient(policy: Policy, example: Example) -> list[Tensor]:
    """Return the gradient of a row's mean loss over its targets, one tensor for each trainable weight."""
    policy.module.zero_grad(set_to_none=True)
    packed = Packed.from_sequences([example.tokens], policy.device, masks=[example.loss_mask])
    (-policy.target_logprobs(packed).logprobs.mean()).backward()
    return [
        torch.zeros_like(weight, dtype=torch.float32) if weight.grad is None else weight.grad.detach().float()
        for _, weight in policy.trainable()
    ]


def _target_gradients(policy: Policy, context: SelectionContext, config: GradientSettings) -> list[list[Tensor]]:
    """Return the mean gradient of all targets, or one for each domain, each of length 1."""
    rows = [with_response(row, f"targets: row {number}") for number, row in enumerate(context.targets, start=1)]
    if not rows:
        raise InputError("influence: the datasets at input 'targets' have no rows")
    sums: dict[str, list[Tensor]] = {}
    for example in _examples(policy, rows, config):
        domain = example.domain if config.by_domain else ""
        gradient = row_gradient(policy, example)
        if domain in sums:
            for total, part in zip(sums[domain], gradient, strict=True):
                total += part
        else:
            sums[domain] = [part.clone() for part in gradient]
    return [[part / _length(total) for part in total] for _, total in sorted(sums.items())]


def _examples(policy: Policy, rows: Sequence[dict[str, object]], config: GradientSettings) -> list[Example]:
    examples = examples_from_rows(policy.tokenizer, rows, ends=policy.ends)
    return [
        Example(example.tokens[: config.max_tokens], example.loss_mask[: config.max_tokens], example.domain)
        if any(example.loss_mask[1 : config.max_tokens])
        else Example(example.tokens[-config.max_tokens :], example.loss_mask[-config.max_tokens :], example.domain)
        for example in examples
    ]


def _cosine(gradient: Sequence[Tensor], targets: Sequence[Sequence[Tensor]]) -> float:
    return max(_dot(gradient, target) for target in targets) / _length(gradient)


def _length(gradient: Sequence[Tensor]) -> float:
    return max(_dot(gradient, gradient) ** 0.5, 1e-30)


def _dot(first: Sequence[Tensor], second: Sequence[Tensor]) -> float:
    return sum(float((a * b).sum(dtype=torch.float64)) for a, b in zip(first, second, strict=True))
