"""Adapter folders as input models, against peft on the same folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from components.contract.artifacts import ArtifactType
from components.contract.errors import InputError
from components.modeling.loading.load import load_policy
from components.runtime.inputs.inputs import import_uri
from components.runtime.store import open_store
from tests.modeling.chat_models import LAYOUTS, save_model


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model with tied embeddings."""
    folder = tmp_path_factory.mktemp("base") / "model"
    save_model(LAYOUTS["qwen3-base"], folder)
    return folder


@pytest.mark.parametrize(
    "settings",
    [
        {"target_modules": ["q_proj", "v_proj"]},
        {"target_modules": ["q_proj", "down_proj"], "use_rslora": True, "rank_pattern": {"q_proj": 2}},
        {"target_modules": ["q_proj"], "use_dora": True, "alpha_pattern": {"q_proj": 3}},
        {"target_modules": ["q_proj"], "modules_to_save": ["lm_head"]},
    ],
)
def test_an_adapter_is_the_model_that_peft_makes_of_it(base: Path, settings: dict[str, Any], tmp_path: Path) -> None:
    import peft
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    model = peft.get_peft_model(
        AutoModelForCausalLM.from_pretrained(base), peft.LoraConfig(r=4, init_lora_weights=False, **settings)
    )
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "modules_to_save" in name:
                weight.data = weight + torch.randn_like(weight)
    model.save_pretrained(tmp_path / "adapter")
    rows = torch.tensor([[5, 20, 30, 40]])
    loaded = peft.PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base), tmp_path / "adapter")
    expected = loaded.eval()(rows).logits
    store = open_store(str(tmp_path / "store"))
    found = store.fetch(import_uri(store, str(tmp_path / "adapter"), ArtifactType.MODEL))
    got = AutoModelForCausalLM.from_pretrained(found)(rows).logits
    torch.testing.assert_close(got, expected, atol=1e-4, rtol=1e-4)
    assert load_policy(found).backend == "native"


def test_a_base_that_is_not_there_is_named(base: Path, tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text(
        json.dumps({"peft_type": "LORA", "base_model_name_or_path": "some/base"})
    )
    (tmp_path / "adapter_model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    with pytest.raises(InputError, match="the adapter's base 'some/base' is no folder of this machine; download it"):
        import_uri(open_store(str(tmp_path / "store")), str(tmp_path), ArtifactType.MODEL)
