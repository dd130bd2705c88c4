"""The layout of a node's GPUs chooses the way of weights: an engine with GPUs apart gets them by broadcast."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from components.contract.job import Resources
from components.modeling.generation import choose
from components.modeling.generation.engine.engine_sampler import EngineSampler
from components.modeling.generation.engine.transfer import bucket, handover
from components.modeling.generation.engine.transfer.carrier import Carrier
from components.modeling.generation.engine.transfer.nccl import Nccl
from components.modeling.loading.load import load_policy
from components.modeling.models.policy import Policy
from tests.modeling import decoder_models as models
from tests.modeling.generation.engines import HERE, engine_sampler
from tests.modeling.generation.transfer.gloo_group import GlooNccl


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    models.save("llama-gqa", tmp_path / "model")
    return load_policy(tmp_path / "model")


def test_weights_go_by_broadcast_to_gpus_that_the_trainer_has_not(
    policy: Policy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The choice and NCCL's carrier are the real ones, on a group of gloo: four transfers of several buckets."""
    GlooNccl.take_over(monkeypatch)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(handover, "gpu_uuid", lambda device: f"GPU-{device.index}")
    monkeypatch.setattr(bucket.buckets, "__defaults__", (6000,))
    chosen = handover.ways

    def ways(device: torch.device, gpus: Sequence[str]) -> Iterator[Carrier]:
        for carrier in chosen(torch.device("cuda", 0), gpus):
            if isinstance(carrier, Nccl):
                carrier._device = device  # where gloo finds the weights
            yield carrier

    monkeypatch.setattr(handover, "ways", ways)
    name, told = f"{HERE}.transfer.gloo_group:GroupEngine", tmp_path / "told"
    with engine_sampler(policy, name, told=str(told)) as sampler:
        for update in range(4):
            with torch.no_grad():
                policy.module.norm.fill_(update)  # type: ignore[union-attr]
            sampler.load_weights()
            wanted = {name: tensor.double().sum().item() for name, tensor in policy.named_weights()}
            found = json.loads(told.read_text())
            assert found["sums"] == wanted and len(found["buckets"]) > 3
        assert sampler.timings()["weight_syncs_by_nccl"] == 4.0
    assert "weights go to the engine by NCCL: " in capfd.readouterr().err


@pytest.mark.parametrize(
    ("gpus", "visible", "options"),
    [
        (2, None, {"gpus": 2, "gpu_memory_share": 0.5, "sleeps": True}),  # the model splits over two
        (3, "1,2", {"gpus": 2, "gpu_memory_share": 0.9, "sleeps": False}),
        (1, None, {"gpus": 1, "gpu_memory_share": 0.5, "sleeps": True}),
    ],
)
def test_an_engine_starts_on_the_gpus_to_spare(
    policy: Policy, monkeypatch: pytest.MonkeyPatch, gpus: int, visible: str | None, options: dict[str, Any]
) -> None:
    """One process trains on the first GPU."""
    for variable in ("CUDA_VISIBLE_DEVICES", "POSTTRAIN_VLLM_GPU_MEMORY", "LOCAL_RANK"):
        monkeypatch.delenv(variable, raising=False)
    started: list[dict[str, Any]] = []
    monkeypatch.setattr(choose, "EngineProcess", lambda name, **about: started.append(about))
    sampler = choose.open_sampler(policy, Resources(sampler="vllm", gpus=gpus, gpu_memory_gib=80))
    assert isinstance(sampler, EngineSampler)
    sampler._start()
    assert started[0]["environment"].get("CUDA_VISIBLE_DEVICES") == visible
    assert options.items() <= sampler._options.items()
