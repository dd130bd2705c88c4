"""The mergers that mergekit has too, against it, on folders of a Llama's tensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.stages.merge.folders import merge, read_model, tensors, write_model

WIDTH, INNER, VOCABULARY, LAYERS = 8, 12, 16, 2
CONFIG = {
    "hidden_size": WIDTH,
    "intermediate_size": INNER,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "vocab_size": VOCABULARY,
    "torch_dtype": "float32",
}
LAYER: dict[str, tuple[int, ...]] = {
    "self_attn.q_proj": (WIDTH, WIDTH),
    "self_attn.k_proj": (WIDTH // 2, WIDTH),
    "self_attn.v_proj": (WIDTH // 2, WIDTH),
    "self_attn.o_proj": (WIDTH, WIDTH),
    "mlp.gate_proj": (INNER, WIDTH),
    "mlp.up_proj": (INNER, WIDTH),
    "mlp.down_proj": (WIDTH, INNER),
    "input_layernorm": (WIDTH,),
    "post_attention_layernorm": (WIDTH,),
}
SHAPES: dict[str, tuple[int, ...]] = {
    "model.embed_tokens.weight": (VOCABULARY, WIDTH),
    "model.norm.weight": (WIDTH,),
    "lm_head.weight": (VOCABULARY, WIDTH),
    **{f"model.layers.{layer}.{name}.weight": shape for layer in range(LAYERS) for name, shape in LAYER.items()},
}

KEEP = 0.5
"""Share of entries; whole numbers of every tensor here."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A base, and two models near it."""
    root = tmp_path_factory.mktemp("models")
    base = tensors(0, **SHAPES)
    moved = {
        f"models-{number}": {name: base[name] + one for name, one in tensors(number, 0.3, **SHAPES).items()}
        for number in (1, 2)
    }
    weights: dict[str, dict[str, Tensor]] = {"base": base, **moved}
    return {name: write_model(root / name, one, config=CONFIG) for name, one in weights.items()}


def by_mergekit(folders: dict[str, Path], out: Path, method: str, shared: Any, own: Any) -> dict[str, Tensor]:
    """Return what mergekit makes: `shared` parameters, and `own` ones for each model."""
    from mergekit.config import MergeConfiguration
    from mergekit.merge import MergeOptions, run_merge

    models = []
    for number in (0, 1):
        parameters = {name: values[number] for name, values in own.items()}
        models.append({"model": str(folders[f"models-{number + 1}"]), "parameters": parameters})
    base = {"slerp": "models-1", "linear": None}.get(method, "base")
    config = {"merge_method": method, "models": models, "parameters": shared, "dtype": "float32"}
    if base is not None:
        config["base_model"] = str(folders[base])
    asked = MergeConfiguration.model_validate(config)
    run_merge(asked, str(out), MergeOptions(copy_tokenizer=False, write_model_card=False, quiet=True))
    return read_model(out)


CASES: list[Any] = [
    pytest.param("linear", {"weights": [3.0, 1.0]}, {"normalize": True}, {"weight": [3.0, 1.0]}, id="linear"),
    pytest.param(
        "linear",
        {"weights": [0.5, 0.75], "normalise": False},
        {"normalize": False},
        {"weight": [0.5, 0.75]},
        id="linear-not-normalised",
    ),
    pytest.param("slerp", {"t": 0.3}, {"t": 0.3}, {}, id="slerp"),
    pytest.param(
        "task_arithmetic",
        {"weights": [0.75, -0.5], "scale": 1.5},
        {"lambda": 1.5},
        {"weight": [0.75, -0.5]},
        id="task-arithmetic",
    ),
    pytest.param(
        "ties",
        {"weights": [1.0, 0.5], "scale": 0.75, "keep": KEEP, "among": "tensor"},
        {"lambda": 0.75, "normalize": True},
        {"weight": [1.0, 0.5], "density": [KEEP, KEEP]},
        id="ties",
    ),
    pytest.param(
        "ties",
        {"weights": [1.0, 1.0], "keep": 1.0, "among": "model"},
        {"normalize": True},
        {"weight": [1.0, 1.0], "density": [1.0, 1.0]},
        id="ties-untrimmed",
    ),
]


@pytest.mark.parametrize(("name", "ours", "shared", "own"), CASES)
def test_merged_weights_equal_mergekits(
    folders: dict[str, Path], tmp_path: Path, name: str, ours: dict[str, Any], shared: dict[str, Any], own: Any
) -> None:
    models = [folders["models-1"], folders["models-2"]]
    base = None if name in ("linear", "slerp") else folders["base"]
    found = read_model(merge(tmp_path / "ours", models, base, merger={"name": name, **ours}).outputs["model"])
    wanted = by_mergekit(folders, tmp_path / "theirs", name, shared, own)
    assert found.keys() == wanted.keys() == SHAPES.keys()
    for tensor, one in found.items():
        torch.testing.assert_close(one, wanted[tensor], rtol=1e-5, atol=1e-6)
