"""The smallest file of weights that is one: a single number, for folders that only have to look like a model."""

from __future__ import annotations

import json
from pathlib import Path

HEADER = json.dumps({"weight": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()


def write_one_tensor(path: Path) -> None:
    """Write a safetensors file with one tensor, [1], of zeros."""
    path.write_bytes(len(HEADER).to_bytes(8, "little") + HEADER + bytes(4))
