"""What a policy holds of whole responses: a feature of each, and the probability of a reserved token behind it.

Shapes as in components/rl/batch/batch.py; M tokens of one pass, D model width, V vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor

from components.modeling.models.policy import Policy, Pool
from components.modeling.packing.logprobs import TokenScores, token_logprobs
from components.rl.batch.batch import Batch
from components.rl.slots import AFTER
from components.rl.step.scoring import frozen_rows, pack


def response_features(policy: Policy, batch: Batch, *, max_tokens: int, layer: int = -1, pool: Pool = "mean") -> Tensor:
    """Return [S, D] float32: one vector for each trajectory, copied to its rows, on the CPU, without gradients.

    mean: over the hidden states at its learned tokens. last: the state after its last token. See Policy.features.
    """
    whole = batch.of_learned()
    batch, places = _distinct(whole)

    def pooled(part: Batch) -> list[Tensor]:
        return list(policy.features(pack(policy, part, keep_last=True), layer=layer, pool=pool).cpu())

    rows = frozen_rows(batch, pooled, max_tokens=max_tokens)
    found = (torch.stack(rows) if rows else torch.zeros(0, policy.width))[places]
    if whole.one_row_each:
        return found
    if pool == "last":
        return found[whole.last_rows][whole.trace]
    sums = found.new_zeros(whole.num_traces, found.shape[1])
    sums.index_add_(0, whole.trace, found * whole.lengths.unsqueeze(1))
    return sums[whole.trace] / whole.response_lengths.unsqueeze(1)


def _distinct(batch: Batch) -> tuple[Batch, Tensor]:
    """Return the batch without responses that its group has already, and [S] the place of each among those left.

    Late in a run most responses of a group are equal. Conversations are left as they are.
    """
    if batch.around is not None or not batch.one_row_each:
        return batch, torch.arange(batch.num_responses)
    rows = [tuple(row.tolist()) for row in batch.tokens.split(batch.lengths.tolist())]
    keys = list(zip(batch.group.tolist(), batch.contexts, rows, strict=True))
    place = {key: index for index, key in enumerate(dict.fromkeys(keys))}
    first: dict[int, int] = {}
    places = [place[key] for key in keys]
    for row, at in enumerate(places):
        first.setdefault(at, row)
    return batch.select(torch.tensor(list(first.values()), dtype=torch.long)), torch.tensor(places, dtype=torch.long)


def reserved_logprobs(policy: Policy, batch: Batch, token: int, *, max_tokens: int) -> Tensor:
    """Return [S]: log p(token | prompt, response) behind each trajectory's last token, at temperature 1.

    Copied to its rows, on the CPU, without gradients.
    """
    whole = batch.of_learned()
    batch, places = _distinct(whole)
    batch = batch.with_extras(**{AFTER: torch.full((batch.num_responses,), token)})

    def behind(part: Batch) -> list[Tensor]:
        return list(policy.target_logprobs(pack(policy, part, after="alone")).logprobs.cpu())

    rows = frozen_rows(batch, behind, max_tokens=max_tokens)
    found = (torch.stack(rows) if rows else torch.zeros(0))[places]
    return found if whole.one_row_each else found[whole.last_rows][whole.trace]


class ScoresWithAfter(TokenScores):
    """Scores of a batch's tokens, and `after`. `logits_of` takes the numbers of tokens."""

    __slots__ = ()

    def logits_at(self, rows: Tensor) -> Tensor:
        """Return logits [M', V] of the tokens `rows` [M']."""
        assert self.logits_of is not None
        return self.logits_of(rows)


def score_with_after(policy: Policy, batch: Batch, *, temperature: float, entropy: bool = False) -> ScoresWithAfter:
    """Return what `score_tokens` does and, from the same pass, `after`: the score of mark `after_token_s`.

    `after` [S] is the log-probability of that token behind each row, at temperature 1 whatever the step's is.
    """
    scores = policy.target_logprobs(pack(policy, batch, after="too"), temperature=temperature, entropy=entropy)
    ends = (batch.lengths + 1).cumsum(0) - 1
    inside = torch.ones(len(scores.logprobs), dtype=torch.bool, device=ends.device)
    inside[ends] = False
    own = inside.nonzero().squeeze(1)
    after = scores.logprobs[ends]
    if temperature != 1.0:
        after = token_logprobs(scores.logits_at(ends) * temperature, batch.extras[AFTER])
    entropies = None if scores.entropies is None else scores.entropies[own]
    return ScoresWithAfter(
        scores.logprobs[own], entropies, logits_of=lambda rows: scores.logits_at(own[rows]), after=after
    )
