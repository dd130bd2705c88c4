"""How far a teacher's distributions are from the policy's at the tokens of a batch.

Shapes as in components/rl/batch/batch.py; C the teacher's width, V and U the logits of policy and teacher.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from components.contract.errors import InputError
from components.modeling.models.policy import Policy
from components.modeling.packing.chunks import chunk_rows
from components.modeling.packing.divergences import Kind, generalised_divergence
from components.modeling.packing.logprobs import LogitsOf, TokenScores, at_temperature
from components.modeling.serving.further import FurtherModel
from components.modeling.serving.local import LocalModel
from components.rl.batch.batch import Batch
from components.rl.step.scoring import pack


def teachers_divergence(
    teachers: Sequence[FurtherModel],
    scores: TokenScores,
    batch: Batch,
    *,
    kind: Kind,
    beta: float,
    top_k: int | None,
    at: float,
    temperature: float,
) -> Tensor:
    """Return [N]: the divergence from each teacher, averaged; differentiable in the policy.

    `at` is the temperature of the logits in `scores`; both are compared at `temperature`. Of each teacher, and of the
    policy, logits are held one chunk at a time; several chunks compute theirs again in the backward pass.
    """
    found = []
    for model in teachers:
        teacher = policy_of(model)
        hidden = _taught(teacher, model.name, batch)  # [N, C]
        logits_of = at_temperature(teacher.logits, temperature)

        def part(rows: Tensor, shown: Tensor, logits_of: LogitsOf = logits_of) -> Tensor:
            with torch.no_grad():
                expected = logits_of(shown)
            own = scores.logits_at(rows)
            own = own if temperature == at else own * (at / temperature)
            return generalised_divergence(own, expected, kind=kind, beta=beta, top_k=top_k)

        found.append(_in_chunks(part, hidden, teacher.vocab_size))
    return found[0] if len(found) == 1 else torch.stack(found).mean(0)


def policy_of(model: FurtherModel) -> Policy:
    """Return the frozen weights of a further model; raise InputError for an endpoint, which has none here."""
    if not isinstance(model, LocalModel):
        raise InputError(
            f"rl: the logits of {model.name} are to be compared, and an endpoint gives none; name a model of the run"
        )
    return model.policy


def _taught(teacher: Policy, name: str, batch: Batch) -> Tensor:
    """Return [N, C]: the teacher's hidden states that predict the batch's tokens, behind the same contexts.

    Raises InputError for tokens that it cannot read.
    """
    packed = pack(teacher, batch)
    longest, last = (int(values.max()) for values in (packed.hosted.positions + 1, packed.hosted.tokens))
    if longest > teacher.max_positions:
        raise InputError(
            f"rl: {longest} tokens are to be compared with teacher {name}, which has {teacher.max_positions} "
            "positions; lower max_new_tokens, or take a teacher that reads as far"
        )
    if last >= teacher.vocab_size:
        raise InputError(
            f"rl: the policy drew token {last}, which its tokenizer does not have, and teacher {name} knows "
            f"{teacher.vocab_size}; train the policy first, or take a teacher whose matrices are as wide"
        )
    with torch.no_grad():
        return teacher.target_hidden(packed)


def _in_chunks(part: Callable[[Tensor, Tensor], Tensor], hidden: Tensor, vocab_size: int) -> Tensor:
    """Return [N] of `part`, from numbers of tokens and the teacher's hidden states there, one chunk after another."""
    rows, size = torch.arange(len(hidden), device=hidden.device), chunk_rows(vocab_size, hidden.device)
    if len(rows) <= size:
        return part(rows, hidden)
    pairs = zip(rows.split(size), hidden.split(size), strict=True)
    return torch.cat([checkpoint(part, *pair, use_reentrant=False) for pair in pairs])
