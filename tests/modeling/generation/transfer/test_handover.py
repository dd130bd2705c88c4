"""The way to an engine: the fastest that works, said once and measured."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from components.modeling.generation.engine.engine_process import EngineProcess
from components.modeling.generation.engine.transfer import bucket, handover
from components.modeling.generation.engine.transfer.carrier import DOING, Carrier
from components.modeling.generation.engine.transfer.handover import Given, Handover, timings, ways
from components.modeling.generation.engine.transfer.shared_memory import SharedMemory
from components.modeling.loading.load import load_policy
from components.modeling.models.policy import Policy
from tests.modeling import decoder_models as models
from tests.modeling.generation.engines import HERE, engine_process, engine_sampler

TELLING = f"{HERE}.transfer.telling_engine:TellingEngine"


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    models.save("llama-gqa", tmp_path / "model")
    return load_policy(tmp_path / "model")


def test_weights_arrive_in_bounded_buckets(
    policy: Policy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The engine writes down what it got: bytes, and names that came together."""
    monkeypatch.setattr(bucket.buckets, "__defaults__", (6000,))
    wanted = {name: tensor.double().sum().item() for name, tensor in policy.named_weights()}
    size = sum(tensor.nbytes for _, tensor in policy.named_weights())
    with engine_sampler(policy, TELLING, told=str(tmp_path / "told")) as sampler:
        for number in range(2):
            with torch.no_grad():
                policy.module.norm.fill_(number)  # type: ignore[union-attr]
            sampler.load_weights()
            told = json.loads((tmp_path / "told").read_text())
            assert told["sums"].pop("model.norm.weight") == number * policy.width
            assert told["sums"] == {name: total for name, total in wanted.items() if name != "model.norm.weight"}
            assert len(told["buckets"]) > 3 and sum(map(len, told["buckets"])) == len(wanted)
            assert max(told["bytes"]) <= 6000
        found = sampler.timings()
    assert found.pop("weight_sync_seconds") > 0 and found == {"weight_syncs_by_shared_memory": 2.0}
    said = capfd.readouterr().err
    assert said.count("weights go to the engine by shared memory: ") == 1 and f"{size / 1e9:.3g} GB" in said


class Refused(Carrier):
    """A way that the engine does not know."""

    way, says = "nccl", "NCCL"

    def connect(self, engine: EngineProcess) -> None:
        engine.call("connect", DOING, way=self.way)

    def carry(self, engine: EngineProcess, weights: Iterable[tuple[str, Tensor]]) -> int:
        raise AssertionError("nobody is connected")


def test_a_way_that_fails_is_named_and_the_next_one_taken(
    policy: Policy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(handover, "ways", lambda *_: iter([Refused(), SharedMemory()]))
    with engine_sampler(policy, TELLING, told=str(tmp_path / "told")) as sampler:
        sampler.load_weights()
        assert sampler.timings()["weight_syncs_by_shared_memory"] == 1.0
    said = capfd.readouterr().err
    assert "weights cannot go to the engine by NCCL: the engine could not go on while it took over weights: " in said
    assert "no nccl here" in said and "they go by shared memory" in said


def test_collective_gathers_go_on_to_the_end_when_an_engine_fails(policy: Policy) -> None:
    """Other ranks take part in each gather, so a rank that stopped in the middle would make them wait for ever."""
    way, engine, asked = Handover(), engine_process(f"{HERE}.transfer.telling_engine:FullEngine"), []

    class Counted(type(policy)):  # type: ignore[misc]
        def named_weights(self, gather: object = None) -> Iterable[tuple[str, Tensor]]:
            for name, tensor in super().named_weights():
                asked.append(name)
                yield name, tensor

    policy.__class__ = Counted
    way.connect(engine, torch.device("cpu"), [])
    with pytest.raises(Exception, match="no room for weights"):
        way.give(engine, policy, gather=lambda modules: (_ for _ in ()).throw(AssertionError))  # type: ignore[misc]
    assert len(asked) == len(list(type(policy).__mro__[1].named_weights(policy)))
    engine.close()


def test_the_way_follows_from_who_has_which_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The trainer is on the second of three GPUs that it sees."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(handover, "gpu_uuid", lambda device: f"GPU-{device.index}")
    trainer = torch.device("cuda", 1)

    def names(device: torch.device, *gpus: str) -> list[str]:
        return [carrier.way for carrier in ways(device, gpus)]

    assert names(torch.device("cpu")) == ["shared_memory"]
    assert names(torch.device("cpu"), "GPU-0") == ["shared_memory"]
    assert names(trainer) == ["shared_memory"]
    assert names(trainer, "GPU-1") == ["cuda_ipc", "shared_memory"]
    assert names(trainer, "GPU-0", "GPU-1", "GPU-2") == ["cuda_ipc", "shared_memory"]
    assert names(trainer, "GPU-2", "GPU-7") == ["nccl", "shared_memory"]
    assert names(trainer, "GPU-1", "GPU-7") == ["shared_memory"]  # its own GPU rules NCCL out, the other one IPC


def test_timings_by_hand() -> None:
    given = [Given("nccl", 1.0, 5), Given("nccl", 2.0, 5), Given("shared_memory", 6.0, 5)]
    assert timings([]) == {}
    assert timings(given) == {
        "weight_sync_seconds": 3.0,
        "weight_syncs_by_nccl": 2.0,
        "weight_syncs_by_shared_memory": 1.0,
    }
