"""Batches for tests, built from plain lists; and brute-force helpers that share no code with what they check."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from components.contract.operators import Bound, OperatorSpec
from components.modeling.packing.logprobs import TokenScores
from components.rl.batch.batch import RIGHT, WRONG, Batch, Prompt, new_batch
from components.rl.step.context import SlotContext
from components.rl.step.ledger import PassRates
from components.rl.step.settings import StepSettings
from components.rl.step.state import LoopState
from components.tasks.item import Item


def prompt(index: int = 0, *, tokens: Sequence[int] = (5, 6, 7)) -> Prompt:
    """Return a prompt whose verifier accepts its index as the answer."""
    item = Item(id=f"p{index}", domain="A", prompt=f"say {index}", answer=str(index), verifier="exact")
    return Prompt(item, tuple(tokens))


def batch_of(
    rewards: Sequence[Sequence[float]],
    lengths: Sequence[Sequence[int]] | None = None,
    *,
    seed: int = 0,
    vocabulary: int = 11,
) -> Batch:
    """Return a scored batch with one group per inner list; responses above 0 are right. Token contents are random."""
    lengths = lengths or [[2] * len(group) for group in rewards]
    generator = torch.Generator().manual_seed(seed)
    flat_lengths = torch.tensor([length for group in lengths for length in group])
    flat_rewards = torch.tensor([reward for group in rewards for reward in group])
    num_tokens = int(flat_lengths.sum())
    batch = new_batch(
        [prompt(index) for index in range(len(rewards))],
        [f"r{row}" for row in range(len(flat_rewards))],
        group=torch.tensor([index for index, group in enumerate(rewards) for _ in group]),
        lengths=flat_lengths,
        finished=torch.ones(len(flat_rewards), dtype=torch.bool),
        tokens=torch.randint(0, vocabulary, (num_tokens,), generator=generator),
        old_logprobs=-torch.rand(num_tokens, generator=generator) * 3,
        entropies=torch.rand(num_tokens, generator=generator),
    )
    outcomes = torch.where(flat_rewards > 0, RIGHT, WRONG)
    return replace(batch, rewards=flat_rewards.float(), outcomes=outcomes)


def state_again(state: LoopState, **record: int) -> LoopState:
    """Return a state as a resumed stage gets it, through JSON."""
    saved, rows = json.loads(json.dumps([state.to_json(), state.fresh_rows()]))
    return LoopState.from_json(saved, rows, given=PassRates(policy=state.ledger.policy), **record)


def context(step: int = 0, num_steps: int = 10, **changes: Any) -> SlotContext:
    """Return a context with an empty memory; settings keys and context fields may be given.

    `collector` and `policies` are None unless given.
    """
    settings = {"prompts_per_step": 4, "group_size": 2, "max_new_tokens": 20, "temperature": 1.0}
    settings |= {key: changes.pop(key) for key in list(changes) if key in settings}
    fields: dict[str, Any] = {"seed": 0, "memory": {}, "ledger": PassRates()}
    fields |= {"collector": None, "policies": None, "pool": ()} | changes
    return SlotContext(step=step, num_steps=num_steps, settings=StepSettings(**settings), **fields)


def operator(slot: str, name: str, **config: Any) -> Bound:
    """Return an operator as a recipe would name it."""
    return OperatorSpec.model_validate({"name": name, **config}).resolve(slot)


def noisy_scores(batch: Batch, *, spread: float = 0.4, seed: int = 3) -> TokenScores:
    """Return log-probabilities around the old ones, with a gradient."""
    noise = torch.randn(batch.num_tokens, generator=torch.Generator().manual_seed(seed)) * spread
    return TokenScores((batch.old_logprobs + noise).detach().requires_grad_(), None)


def gradient(scores: TokenScores, loss: Tensor) -> Tensor:
    """Return d sum(loss) / d logprobs, [N]."""
    (found,) = torch.autograd.grad(loss.sum(), scores.logprobs)
    return found


def rows_of(batch: Batch, values: Tensor) -> list[list[float]]:
    """Return values [N] as one list per response."""
    return [part.tolist() for part in values.split(batch.lengths.tolist())]


def padded(batch: Batch, values: Tensor) -> tuple[Tensor, Tensor]:
    """Return values [N] as [S, T] and its mask, the layout of other libraries."""
    width = int(batch.lengths.max())
    mask = torch.arange(width) < batch.lengths.unsqueeze(1)
    grid = torch.zeros(mask.shape, dtype=values.dtype)
    grid[mask] = values.detach()
    return grid, mask


def near(
    found: Mapping[Any, float] | Sequence[float] | Tensor, expected: Sequence[float], tolerance: float = 1e-6
) -> bool:
    """Return whether two number lists are equal to a tolerance."""
    return torch.allclose(torch.as_tensor(found).double(), torch.tensor(expected).double(), atol=tolerance, rtol=0)
