"""A gpt-oss checkpoint as it is published: its experts in MXFP4, quantised by the format's definition alone."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file

MAGNITUDES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""E2M1 (OCP Microscaling Formats 1.0, table 5): codes 0 to 7; 8 to 15 are their negatives."""
GROUP = 32
UNPACKED = ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]


def quantise(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return blocks, scales and the values that they stand for, of rows [..., K], K a multiple of 32.

    blocks [..., K / 32, 16]: two codes a byte, the first in the low half; scales [..., K / 32]: 127 + exponent.
    """
    groups = rows.reshape(*rows.shape[:-1], -1, GROUP).astype(np.float64)
    exponents = np.ceil(np.log2(np.abs(groups).max(-1) / MAGNITUDES[-1]))
    unit = groups / 2.0 ** exponents[..., None]
    nearest = np.abs(np.abs(unit)[..., None] - np.array(MAGNITUDES)).argmin(-1)
    codes = (nearest + 8 * (unit < 0)).astype(np.uint8)
    values = np.sign(unit) * np.array(MAGNITUDES)[nearest] * 2.0 ** exponents[..., None]
    return codes[..., ::2] | codes[..., 1::2] << 4, (exponents + 127).astype(np.uint8), values.reshape(rows.shape)


def pack_experts(plain: Path, packed: Path) -> dict[str, torch.Tensor]:
    """Write the gpt-oss checkpoint at `plain` to `packed` as it is published; return all its weights unpacked."""
    packed.mkdir()
    stored, unpacked = {}, {}
    for name, tensor in load_file(plain / "model.safetensors").items():
        if not name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            stored[name] = unpacked[name] = tensor
            continue
        blocks, scales, values = quantise(tensor.transpose(1, 2).numpy())  # rows of a block are inputs
        parts = {"blocks": blocks, "scales": scales}
        stored |= {f"{name}_{part}": torch.tensor(array).contiguous() for part, array in parts.items()}
        unpacked[name] = torch.from_numpy(values).transpose(1, 2).to(tensor.dtype).contiguous()
    save_file(stored, packed / "model.safetensors", {"format": "pt"})
    config = json.loads((plain / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": UNPACKED}
    (packed / "config.json").write_text(json.dumps(config))
    return unpacked
