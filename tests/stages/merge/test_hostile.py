"""Hostile model folders: each gets one line, and none of them work without end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from components.contract.errors import InputError
from components.contract.model_folders.headers import read_headers
from tests.stages.merge.folders import SHAPES, folder_of, merge

EDIT = {"name": "weight_edit", "direction": "random", "tensors": "*[dp]*"}
"""Edits embedding and layer, and would edit `void`."""


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        (
            "tokenizer.json",
            {"model": {"vocab": [[1, 0], ["a", 0]]}},
            "the tokenizers of .* differ: 1 is not there and 0",
        ),
        ("tokenizer.json", {"model": {"vocab": [[[], 0]]}}, "tokenizer.json cannot be read"),
        ("config.json", {"a": "DEEP"}, "cannot be read|differ in config.json"),
        ("model.safetensors.index.json", {"weight_map": {"x": "\ud800"}}, r"has no '\\ud800'"),
        (
            "model.safetensors.index.json",
            {"weight_map": {"x": "DEEP"}},
            "is no index of weights|has no |deep in each other",
        ),
    ],
)
def test_hostile_json_gets_one_line(tmp_path: Path, file: str, content: Any, message: str) -> None:
    models = [folder_of(tmp_path, "a", 1), folder_of(tmp_path, "b", 2)]
    for depth in (1, *range(700, 1_000, 20), 100_000):
        deep = '{"a":' * depth + "1" + "}" * depth
        (models[1] / file).write_text(json.dumps(content).replace('"DEEP"', deep))
        with pytest.raises(InputError, match=message) as caught:
            merge(tmp_path / f"merge-{depth}", models, merger="linear")
        assert "\n" not in str(caught.value) and str(caught.value).isprintable()


@pytest.mark.parametrize("merger", ["linear", "slerp", "ties", "dare", "low_rank", "task_arithmetic", EDIT])
def test_a_tensor_without_numbers_has_no_rows_to_go_through(tmp_path: Path, merger: Any) -> None:
    """However many a header claims."""
    models = [folder_of(tmp_path, name, seed) for name, seed in (("a", 1), ("b", 2), ("base", 3))]
    for model in models:
        path = model / "model.safetensors"
        raw = path.read_bytes()
        length = int.from_bytes(raw[:8], "little")
        header = json.loads(raw[8 : 8 + length])
        header["void"] = {"dtype": "F32", "shape": [10**15, 0], "data_offsets": [0, 0]}
        text = json.dumps(header).encode()
        path.write_bytes(len(text).to_bytes(8, "little") + text + raw[8 + length :])
    merged = models[:1] if merger is EDIT else models[:2]
    found = merge(tmp_path / "merge", merged, models[2], merger=merger).outputs["model"]
    assert read_headers(found)["void"].shape == (10**15, 0)
    assert set(read_headers(found)) == {*SHAPES, "void"}
