"""How many positions' logits are held at a time.

Shapes: M positions, V vocabulary.
"""

from __future__ import annotations

import torch

from components.modeling.ranks import ranks_along
from components.runtime.system.mesh import TENSOR

CHUNK_ELEMENTS = 1 << 25
"""Most logits of one chunk on a CPU; a GPU takes as many however little is free."""
MOST_ELEMENTS = 1 << 28
"""Most logits of one chunk on a GPU: 1,766 rows at a vocabulary of 152k, at which products run at full speed."""
BYTES = 12
"""Of memory for each logit: the product, float32, and the gradient."""
SHARE = 4
"""A chunk takes at most one part in so many of the memory that is free."""


def chunk_rows(vocab_size: int, device: torch.device) -> int:
    """Return how many positions go in one chunk.

    The free memory, which differs from run to run and from rank to rank, does not count in deterministic mode, nor
    where ranks have parts of a model: they exchange what they have of each chunk.
    """
    alike = torch.are_deterministic_algorithms_enabled() or ranks_along(TENSOR).count > 1
    if device.type != "cuda" or alike:
        elements = CHUNK_ELEMENTS
    else:
        elements = min(MOST_ELEMENTS, max(CHUNK_ELEMENTS, _free_bytes(device) // SHARE // BYTES))
    return max(1, elements // vocab_size)


def _free_bytes(device: torch.device) -> int:
    """Return what torch could still allocate, without waiting for the device."""
    held = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + held
