"""Task vectors of low rank: of each matrix only its largest singular directions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pydantic import Field

from components.merge.config import TaskVectorConfig

if TYPE_CHECKING:
    from torch import Tensor

    from components.merge.stack import Block, Stack


class LowRankConfig(TaskVectorConfig):
    """How many directions are kept."""

    rank: int = Field(default=16, ge=1)
    """Singular directions of each matrix's task vector that are kept; vectors, such as norms, are added whole."""


def low_rank(stack: Stack, *, config: LowRankConfig) -> Callable[[Block], Tensor]:
    """Return B + scale sum_m w_m T_m, where T_m is the best approximation of W_m - B, [R, K], of rank `rank`.

    Source: Eckart and Young 1936. Twin-Merging (Lu et al. 2024, arXiv:2406.15479) adds such parts to a shared one;
    LoRE-Merging (Liu et al. 2025, arXiv:2502.10749) estimates them without a base, which is not done here.
    """
    weights = config.weights_at(stack.name, stack.count)
    is_cut = len(stack.shape) == 2 and config.rank < min(stack.shape)
    cut = [_truncated(stack, model, config.rank) for model in range(stack.count)] if is_cut else []

    def merge(block: Block) -> Tensor:
        merged = block.base.clone()
        for model, delta in enumerate(block.deltas()):
            merged.add_(cut[model](block, delta) if is_cut else delta, alpha=config.scale * weights[model])
        return merged

    return merge


def _truncated(stack: Stack, model: int, rank: int) -> Callable[[Block, Tensor], Tensor]:
    """Return what gives the rows of a block in the truncated singular value decomposition of D = W_m - B, [R, K].

    Of tall D it is D V V', where the columns of V, [K, rank], are the eigenvectors of D'D with the largest values; D'D
    is summed over blocks, so that D, such as an embedding's, is never whole in memory. Of wide D it is U U'D.
    """
    import torch

    rows, columns = stack.shape
    if rows >= columns:
        products = torch.zeros(columns, columns, dtype=torch.float64)
        for delta in stack.deltas(model):
            products += _product(delta.T)
        right = torch.linalg.eigh(products).eigenvectors[:, -rank:].float()
        return lambda block, delta: (delta @ right) @ right.T
    whole = torch.cat(list(stack.deltas(model)))
    left = torch.linalg.eigh(_product(whole)).eigenvectors[:, -rank:].float()
    inside = left.T @ whole
    return lambda block, delta: left[block.first : block.first + len(delta)] @ inside


def _product(rows: Tensor) -> Tensor:
    """Return A A' in float64, of which A, [R, K], is held once."""
    wide = rows.double()
    return wide @ wide.T
