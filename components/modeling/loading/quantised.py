"""Checkpoints whose files hold packed weights: what transformers unpacks as it reads them, tensor by tensor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def unpacking(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `from_pretrained` by which the weights of this config.json are unpacked; {} if they are.

    MXFP4 (gpt-oss): 4-bit floats in blocks of 32, each with a power of two (Open Compute Project, MX 1.0). Without this
    transformers keeps them packed where its kernels are installed, and they cannot be trained.
    """
    if (config.get("quantization_config") or {}).get("quant_method") != "mxfp4":
        return {}
    from transformers import Mxfp4Config

    return {"quantization_config": Mxfp4Config(dequantize=True)}


def save_unpacked(model: PreTrainedModel) -> None:
    """Make a model that was unpacked as it was read save its weights under the names of unpacked ones.

    transformers would give the unpacked matrices the names of packed ones (`gate_up_proj_blocks`).
    """
    model._weight_conversions = None  # as for a model that was never read: by its architecture alone
