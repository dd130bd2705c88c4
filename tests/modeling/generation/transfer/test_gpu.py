"""On one GPU: weights reach another process by CUDA IPC, and the stage keeps none of the memory that carried them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from components.modeling.generation.engine.transfer import bucket
from components.modeling.loading.load import load_policy
from tests.modeling import decoder_models as models
from tests.modeling.generation.engines import HERE, engine_sampler

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")]


def test_weights_go_by_cuda_ipc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket.buckets, "__defaults__", (6000,))
    models.save("llama-gqa", tmp_path / "model")
    policy = load_policy(tmp_path / "model", device="cuda", dtype="bfloat16")
    name, told = f"{HERE}.transfer.ipc_engine:IpcEngine", tmp_path / "told"
    with engine_sampler(policy, name, told=str(told)) as sampler:
        kept = []
        for update in range(4):
            with torch.no_grad():
                policy.module.norm.fill_(update)  # type: ignore[union-attr]
            sampler.load_weights()
            wanted = {name: tensor.double().sum().item() for name, tensor in policy.named_weights()}
            found = json.loads(told.read_text())
            assert found["sums"] == pytest.approx(wanted) and len(found["buckets"]) > 3
            torch.cuda.ipc_collect()
            kept.append(torch.cuda.memory_allocated())
        assert sampler.timings()["weight_syncs_by_cuda_ipc"] == 4.0
    assert kept[-1] <= kept[0]  # each transfer's buffer is given back
