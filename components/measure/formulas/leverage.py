"""How much a vector adds to the directions that others span: elliptical bonuses, and a projection before them.

Shapes: R vectors, D width.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import Tensor


def sparse_projection(width: int, dimensions: int, generator: torch.Generator) -> Tensor:
    """Return a random matrix [D, d] that keeps distances in expectation, mostly zeros.

    Entries are 0, or with probability 1 / sqrt(D) plus or minus sqrt(sqrt(D) / d). Source: Li, Hastie and Church 2006,
    Very Sparse Random Projections; scikit-learn's SparseRandomProjection with density "auto".
    """
    import torch

    density = 1 / math.sqrt(width)
    drawn = torch.rand(width, dimensions, generator=generator, dtype=torch.float64)
    signs = (drawn < density / 2).double() - (drawn > 1 - density / 2).double()
    return signs * math.sqrt(1 / (density * dimensions))


def leverages(vectors: Tensor, ridge: float) -> Tensor:
    """Return [R] float64: h' (ridge I + sum of all h h')^-1 h, of vectors [R, D]; between 0 and 1.

    Source: Tuyls et al. 2025, Representation-Based Exploration (arXiv:2510.11686), the elliptical bonus.
    """
    import torch

    vectors = vectors.double()
    gram = vectors @ vectors.T  # H (ridge I + H'H)^-1 H' = G (ridge I + G)^-1: R x R in the place of D x D
    scaled = gram + ridge * torch.eye(len(gram), dtype=gram.dtype)
    return torch.linalg.solve(scaled, gram).diagonal().clamp(min=0)
