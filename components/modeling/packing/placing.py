"""Index tensors are built on the host and sent to the device without a wait."""

from __future__ import annotations

import torch
from torch import Tensor


def placed(tensor: Tensor, device: torch.device | str) -> Tensor:
    """Return a tensor on a device; from the host to a GPU through pinned memory, so that nothing waits for it."""
    if tensor.device.type == "cpu" and torch.device(device).type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)
