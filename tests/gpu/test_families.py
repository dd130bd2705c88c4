"""sft, rl and evaluate on the device: Gemma, Phi with QLoRA, LoRA, and small mixtures of experts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from components.evaluate.component import COMPONENT as EVALUATE
from components.modeling.loading.load import load_policy
from tests.gpu.device import DEVICE
from tests.modeling import decoder_models
from tests.stages.rl_stage import item
from tests.stages.test_model_families import LORA, STAGES, base
from tests.support.stage_context import Finished, run_stage, write_jsonl

pytestmark = pytest.mark.gpu

FAMILIES: list[tuple[str, str, dict[str, Any] | None]] = [
    ("gemma2", "native", None),
    ("gemma3", "native", None),
    ("llama3", "native", {"rank": 4}),
    ("phi3", "native", LORA),
    ("qwen3-moe", "transformers", None),
    ("mixtral", "transformers", None),
    ("gpt-oss", "transformers", {"rank": 4}),
]


@pytest.fixture(autouse=True)
def widths_that_kernels_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch multiplies by several experts at once where each row of a matrix takes a multiple of 16 bytes."""
    monkeypatch.setitem(decoder_models._SIZES, "intermediate_size", 48)
    config = decoder_models.Qwen3MoeConfig
    monkeypatch.setattr(
        decoder_models, "Qwen3MoeConfig", lambda **sizes: config(**{**sizes, "moe_intermediate_size": 16})
    )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("kind", "backend", "lora"), FAMILIES)
def test_a_family_goes_through_the_stages(
    kind: str, backend: str, lora: dict[str, Any] | None, dtype: str, tmp_path: Path
) -> None:
    model = base(kind, tmp_path / "base")
    assert load_policy(model).backend == backend
    data = write_jsonl(tmp_path / "data", [{**item(index), "response": "x"} for index in range(8)])
    found: dict[str, Finished] = {}
    for component, params in STAGES:
        given = {**params, "dtype": dtype}
        if component is not EVALUATE and lora is not None:
            given["lora"] = lora
        inputs = {"model": model, "dataset": data if component.name == "sft" else [data]}
        folder = tmp_path / component.name
        found[component.name] = run_stage(component, folder, params=given, inputs=inputs, device=DEVICE)
        model = found[component.name].outputs.get("model", model)
    losses = [row["loss"] for row in found["sft"].history]
    assert losses[-1] < (0.5 if lora is None else 0.85) * losses[0]
    assert found["evaluate"].metrics["num_failed"] == 0
    assert found["evaluate"].metrics["pass_at_1"] > (0.25 if lora is None else 0.005)
