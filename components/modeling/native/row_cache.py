"""Keys and values during generation: stored once for each prompt, and for each row its own tokens'.

Shapes: P prompts, R rows, H query heads, G key-value heads, C head width, N prompt tokens in the pack.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor


class RowCache(ABC):
    """The keys and values of all layers; rows are in order of their prompts."""

    @abstractmethod
    def add_prompts(self, projections: Sequence[Tensor]) -> None:
        """Take every layer's rotated queries, keys and values [N, (H + 2G) * C] of the packed prompts."""

    @abstractmethod
    def advance(self) -> None:
        """Make room for one more token of every row; `attend` of each layer then stores it."""

    @abstractmethod
    def attend(self, layer: int, qkv: Tensor) -> Tensor:
        """Store the new keys and values of qkv [R, (H + 2G) * C]; return the heads' outputs [R, H * C]."""

    @abstractmethod
    def keep(self, rows: Tensor) -> None:
        """Keep only the given rows, indices [R'] in rising order."""


def prompt_tokens(lengths: Tensor, width: int) -> Tensor:
    """Return [P, width] the pack index of each prompt's tokens; its last token repeats as padding."""
    starts = lengths.cumsum(0) - lengths
    return starts.unsqueeze(1) + torch.arange(width, device=lengths.device).minimum(lengths.unsqueeze(1) - 1)


def window_bias(window: int, ages: Tensor, lengths: Tensor, longest: int) -> tuple[Tensor, Tensor]:
    """Return -inf at the keys that a window hides from each row's newest token, 0 elsewhere.

    `ages` [T] says how many tokens before the newest each own one is; `lengths` [R] are those of the rows' prompts, of
    which the widest has `longest` tokens. For own keys [R, T] and the prompt's [R, longest].
    """
    prompt_ages = ages.shape[0] - 1 + lengths.unsqueeze(1) - torch.arange(longest, device=lengths.device)
    gone = (ages.expand(lengths.shape[0], -1) >= window, prompt_ages >= window)
    own, prompt = (torch.zeros(h.shape, device=h.device).masked_fill_(h, float("-inf")) for h in gone)
    return own, prompt


def biting(windows: Sequence[int | None], tokens: int) -> set[int]:
    """Return the windows that hide something from a row of this many tokens."""
    return {window for window in windows if window is not None and window < tokens}
