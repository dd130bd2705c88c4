"""Where passes are divided over the ranks of a context group, and what each rank then gets of all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

from components.modeling.context.divided_rows import DividedRows
from components.modeling.context.part import PackPart
from components.modeling.packing.logprobs import TokenScores
from components.modeling.ranks import Ranks, ranks_along
from components.runtime.system.mesh import CONTEXT

_group: ContextVar[Ranks | None] = ContextVar("_group", default=None)


@contextmanager
def context_passes() -> Iterator[None]:
    """Divide the passes of policies inside over the ranks of this one's context group, which all make the same ones."""
    token = _group.set(ranks_along(CONTEXT))
    try:
        yield
    finally:
        _group.reset(token)


def dividing_ranks() -> Ranks:
    """Return the ranks over which passes are divided now; one if they are not."""
    return _group.get() or Ranks()


class JoinedScores(TokenScores):
    """Scores of all ranks' targets. `hidden` are this rank's, and `logits_of` takes the numbers of targets."""

    __slots__ = ()

    def logits_at(self, rows: Tensor) -> Tensor:
        """Return logits [M', V] of the positions `rows` [M'], of which each rank computes its own."""
        assert self.logits_of is not None
        return self.logits_of(rows)


def joined_scores(own: TokenScores, part: PackPart) -> JoinedScores:
    """Return the scores of all ranks' targets [M], from this rank's.

    Every rank computes the same loss of them, and its own part of the gradient.
    """
    columns = [own.logprobs] if own.entropies is None else [own.logprobs, own.entropies]
    logprobs, *entropies = part.answers.joined(torch.stack(columns, dim=1)).unbind(1)
    return JoinedScores(logprobs, entropies[0] if entropies else None, own.hidden, _logits_of(own, part.answers))


def _logits_of(own: TokenScores, answers: DividedRows) -> Callable[[Tensor], Tensor]:
    def logits_of(rows: Tensor) -> Tensor:
        places = answers.places[rows].cpu()
        owner, place = places // answers.most, places % answers.most
        parts = [(owner == rank).nonzero().squeeze(1) for rank in range(answers.ranks.count)]
        divided = DividedRows.of(parts, answers.ranks).to(rows.device)
        mine = place[parts[answers.ranks.index]].to(rows.device)
        chosen = mine if len(mine) else mine.new_zeros(1)
        return divided.joined(own.logits_at(chosen))

    return logits_of
