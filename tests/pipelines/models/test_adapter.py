"""The adapter that is taken from merged weights gives the merged model again when peft loads it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

from components.contract.artifacts import ArtifactType
from components.contract.errors import InputError
from components.modeling.loading.load import load_policy
from components.modeling.models.lora import LoraConfig
from components.runtime.lineage.graph.graph import ANCESTORS, Graph
from components.runtime.store import Store, open_store
from pipelines.models.adapter import write_adapter
from pipelines.models.find import FoundModel
from pipelines.models.maker import maker_of
from pipelines.models.origin import Origin
from tests.modeling.decoder_models import build

LORA = LoraConfig(rank=3, alpha=6.0, target_modules=("q_proj", "down_proj"))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "store"))


def trained(store: Store, folder: Path) -> tuple[str, FoundModel]:
    """Store a model, and the same after training with LoRA; return the first one's digest and the second."""
    base = folder / "base"
    build("llama-gqa").save_pretrained(base)
    policy = load_policy(base, lora=LORA)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for _, weight in policy.trainable():
            weight.add_(0.1 * torch.randn(weight.shape, generator=generator))
    policy.save(folder / "merged")
    digests = [store.commit(ArtifactType.MODEL, folder / name).digest for name in ("base", "merged")]
    return digests[0], FoundModel("merged", store.fetch(digests[1]), digests[1])


def origin(base: str, params: dict[str, Any]) -> Origin:
    return Origin(stages=({"params": params},), models=(base,), given=(base,))


def test_the_maker_is_behind_stages_that_hand_a_model_on(store: Store, tmp_path: Path) -> None:
    base, model = trained(store, tmp_path)
    shutil.copytree(model.folder, tmp_path / "all" / "step-2", copy_function=shutil.copyfile)
    shutil.copytree(store.fetch(base), tmp_path / "all" / "step-1", copy_function=shutil.copyfile)
    checkpoints = store.commit(ArtifactType.CHECKPOINTS, tmp_path / "all").digest
    adopted = f"{model.digest}@run/adopt"
    graph = Graph(adopted, ANCESTORS)
    for id, type in ((adopted, "Model"), (model.digest, "Model"), (checkpoints, "Checkpoints"), (base, "Model")):
        graph.add({"id": id, "kind": "artifact", "type": type, "digest": str(id).partition("@")[0]})
    for id in ("adopt", "select", "rl", "pretrain"):
        graph.add({"id": id, "kind": "stage"})
    graph.connect("adopt", adopted, "model")
    graph.connect(str(model.digest), "adopt", "model")
    graph.connect("select", str(model.digest), "model")
    graph.connect(checkpoints, "select", "checkpoints")
    graph.connect("rl", checkpoints, "checkpoints")
    graph.connect(base, "rl", "model")
    graph.connect("pretrain", base, "model")
    assert maker_of(store, graph, str(model.digest)) == "rl"
    assert maker_of(store, graph, base) == "pretrain"
    assert maker_of(store, graph, "0" * 64) is None
    (tmp_path / "all" / "step-2" / "config.json").write_text("{}")  # not that model any more
    other = store.commit(ArtifactType.CHECKPOINTS, tmp_path / "all").digest
    graph.nodes[checkpoints]["digest"] = other
    assert maker_of(store, graph, str(model.digest)) == "select"


def test_base_and_adapter_are_the_merged_model(store: Store, tmp_path: Path) -> None:
    base, model = trained(store, tmp_path)
    target = tmp_path / "adapter"
    target.mkdir()
    write_adapter(store, model, origin(base, {"lora": LORA.model_dump()}), target)
    assert {path.name for path in target.iterdir()} >= {"adapter_config.json", "adapter_model.safetensors"}
    assert str(tmp_path) not in (target / "adapter_config.json").read_text()
    joined = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(store.fetch(base)), target)
    merged = AutoModelForCausalLM.from_pretrained(model.folder)
    tokens = torch.tensor([[5, 6, 7, 8]])
    with torch.inference_mode():
        found, wanted, plain = joined(tokens).logits, merged(tokens).logits, joined.unload()(tokens).logits
    assert torch.allclose(found, wanted, atol=1e-4)
    assert not torch.allclose(plain, wanted, atol=1e-2)


def test_a_model_without_an_adapter_and_one_that_changed_elsewhere_are_refused(store: Store, tmp_path: Path) -> None:
    base, model = trained(store, tmp_path)
    with pytest.raises(InputError, match="was not trained with `lora`"):
        write_adapter(store, model, origin(base, {"lora": None}), tmp_path)
    narrow = LORA.model_copy(update={"target_modules": ("q_proj",)})
    with pytest.raises(InputError, match=r"down_proj.weight differs from the model before"):
        write_adapter(store, model, origin(base, {"lora": narrow.model_dump()}), tmp_path)
    low = LORA.model_copy(update={"rank": 1})
    with pytest.raises(InputError, match="changed by more than rank 1"):
        write_adapter(store, model, origin(base, {"lora": low.model_dump()}), tmp_path)
