"""How distinct texts are from one another: by their content, and by the expressions that they hold.

Shapes: C texts, D width.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

# One operand is a number or a single letter. It begins where no word or number goes on, and never gives back what it
# has read (++): a long text, which a model may have written, takes time in proportion to its length.
_OPERAND = r"(?:\d++(?:\.\d++)?+|[^\W\d_](?!\w))"
_EXPRESSION = re.compile(rf"(?<![\w.]){_OPERAND}(?:\s*+[-+*/^=<>×÷]\s*+{_OPERAND})++")


def expressions(text: str) -> frozenset[str]:
    """Return the expressions in a text, such as "3+4=7", without spaces."""
    return frozenset("".join(match.group().split()) for match in _EXPRESSION.finditer(text))


def count_cosines(rows: Sequence[Sequence[Hashable]], n: int = 1) -> Tensor:
    """Return cosines [C, C] float64 of how often each row holds each run of n items; rows without any have 0."""
    import torch

    counts = [Counter(tuple(row[i : i + n]) for i in range(len(row) - n + 1)) for row in rows]
    sizes = [math.sqrt(math.fsum(value * value for value in count.values())) for count in counts]
    found = torch.eye(len(rows), dtype=torch.float64)
    for i, first in enumerate(counts):
        for j in range(i):
            shared = sum(value * counts[j][gram] for gram, value in first.items() if gram in counts[j])
            found[i, j] = found[j, i] = shared / (sizes[i] * sizes[j]) if shared else 0.0
    return found


def cosines(vectors: Tensor) -> Tensor:
    """Return cosines [C, C] float64 of vectors [C, D]."""
    import torch

    unit = torch.nn.functional.normalize(vectors.double(), dim=1)
    return unit @ unit.T


def distinctness(similar: Tensor, held: Sequence[frozenset[str]], share: float) -> Tensor:
    """Return [C] float64 in [0, 1]: how distinct each of C >= 2 texts is from the others.

    (1 - share) times 1 - the mean cosine to the others, `similar` [C, C], plus `share` times the part of its own
    expressions `held` that no other text holds (0 for a text without any). If no text holds one, the first alone.
    Source: Wan et al. 2026, DSDR (arXiv:2602.19895): a semantic and a formula part, bounded. RECONSTRUCTED: both
    formulas and their combination.
    """
    import torch

    count = len(held)
    semantic = 1 - (similar.sum(1) - similar.diagonal()) / (count - 1)
    if any(held):
        used = Counter(expression for own in held for expression in own)
        unique = [sum(used[each] == 1 for each in own) / len(own) if own else 0.0 for own in held]
        semantic = (1 - share) * semantic + share * torch.tensor(unique, dtype=torch.float64)
    return semantic.clamp(0, 1)
