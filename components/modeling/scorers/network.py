"""The network of a reward model: a policy's, with a linear head at chosen tokens.

Shapes: M places in all, K outputs, D model width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from components.contract.heads import Head
from components.modeling.models.policy import Policy
from components.modeling.packing.logprobs import at_least_float32
from components.modeling.packing.packed import Packed
from components.modeling.scorers.folder import write_scorer
from components.modeling.scorers.layout import Layout

SCORE = "score"
"""Name of the head, as in transformers' classes."""
OUTPUT = ("head", "lm_head.weight", "base_model.model.lm_head.weight")
"""Names of an output matrix that is no embedding: nothing reads it here."""
DEVIATION = 0.02
"""Standard deviation of a new head's weights, transformers' `initializer_range`."""


@dataclass(frozen=True)
class Reading:
    """One text, and at which of its tokens the head is read."""

    tokens: Sequence[int]
    places: Sequence[int]
    """Indices of tokens, ascending, each of which has been read when the head is."""
    start: int = 0
    """Where the response begins; what is before may be cut."""


class RewardNetwork:
    """A policy and a head that scores what it has read; saved as a classifier of transformers."""

    def __init__(self, policy: Policy, layout: Layout, *, seed: int = 0) -> None:
        """Add a new head to `policy`, which must not be sharded yet, and have it saved as a classifier."""
        self.policy, self.layout = policy, layout
        weight = next((p for _, p in policy.trainable()), None)
        if weight is None:  # frozen, to be asked
            weight = next(policy.module.parameters())
        device = "cpu" if weight.is_meta else weight.device
        bias = layout.head == Head.STEPS  # as transformers has it
        self.head = nn.Linear(policy.width, layout.outputs, bias=bias, device=device, dtype=weight.dtype)
        drawn = torch.empty(layout.outputs, policy.width).normal_(
            0.0, DEVIATION, generator=torch.Generator().manual_seed(seed)
        )
        with torch.no_grad():
            self.head.weight.copy_(drawn)
            if bias:
                self.head.bias.zero_()
        policy.module.add_module(SCORE, self.head)
        for name, parameter in policy.module.named_parameters():
            if name in OUTPUT:
                parameter.requires_grad_(False)
        policy.finishing = self._finish

    def outputs(self, packed: Packed) -> Tensor:
        """Return [M, K] float32 at the places of a pack, text after text; differentiable."""
        return at_least_float32(self.policy.at_targets(packed, self._read))

    def _read(self, hidden: Tensor) -> Tensor:
        found: Tensor = self.head(hidden.to(self.head.weight.dtype))
        return found

    def _finish(self, folder: Path) -> None:
        tensors = {f"{SCORE}.{name}": value.detach().cpu() for name, value in self.head.named_parameters()}
        write_scorer(folder, self.layout, tensors, pad_id=self.policy.pad_id)


def packed_readings(groups: Sequence[Sequence[Reading]], device: torch.device | str) -> Packed:
    """Pack texts for one pass that reads each at its places; the beginning that a group shares is computed once.

    Places are the predictors of what comes behind them, so that a pass computes nothing else, and a token that is never
    computed stands behind each text.
    """
    lengths = [_shared([reading.tokens for reading in group]) if len(group) > 1 else 0 for group in groups]
    if not any(lengths):
        texts = [reading for group in groups for reading in group]
        rows = [[*reading.tokens, 0] for reading in texts]
        return Packed.from_sequences(rows, device, masks=[_mask(reading, 0) for reading in texts])
    # Of a group without a beginning in common, each text has one of its own.
    parts = [
        (part, shared or 1)
        for group, shared in zip(groups, lengths, strict=True)
        for part in ([group] if shared else [[reading] for reading in group])
    ]
    return Packed.from_groups(
        [part[0].tokens[:shared] for part, shared in parts],
        [[[*reading.tokens[shared:], 0] for reading in part] for part, shared in parts],
        device,
        masks=[[_mask(reading, shared) for reading in part] for part, shared in parts],
    )


def _mask(reading: Reading, shared: int) -> list[bool]:
    mask = [False] * (len(reading.tokens) - shared + 1)
    for place in reading.places:
        mask[place + 1 - shared] = True
    return mask


def _shared(texts: Sequence[Sequence[int]]) -> int:
    """Return how many first tokens all texts share; at least one of each is left."""
    length = min(map(len, texts)) - 1
    first = texts[0]
    return next((at for at in range(length) if any(text[at] != first[at] for text in texts)), length)
