"""Backends: who generates and who trains, what fits together, and what of it is part of a result."""

from __future__ import annotations

import pytest

from components.contract.backends import Backends
from components.contract.job import Resources


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, None),
        ({"sampler": "vllm"}, None),
        ({"trainer": "deepspeed", "zero_stage": 3, "offload": "all"}, None),
        ({"trainer": "deepspeed", "zero_stage": 1, "offload": "optimizer"}, None),
        ({"zero_stage": 3}, "zero_stage: only for trainer deepspeed, and the trainer is torch"),
        ({"processes": 2}, "processes: only for trainers deepspeed and fsdp, and the trainer is torch"),
        ({"zero_stage": 3, "offload": "all"}, "zero_stage and offload: only for trainer deepspeed"),
        ({"trainer": "fsdp", "processes": 2}, None),
        ({"gather": "layer"}, "gather: only for trainer fsdp, and the trainer is torch"),
        ({"trainer": "fsdp", "gather": "layer"}, None),
        ({"trainer": "fsdp", "zero_stage": 3}, "zero_stage: only for trainer deepspeed, and the trainer is fsdp"),
        ({"trainer": "fsdp", "context_parallel": 2, "processes": 4}, None),
        (
            {"trainer": "fsdp", "context_parallel": 3, "processes": 4},
            "context_parallel 3: 4 processes beside tensor_parallel cannot",
        ),
        ({"trainer": "fsdp", "context_parallel": 2}, "1 process beside tensor_parallel cannot be divided by it"),
        ({"trainer": "deepspeed", "context_parallel": 2}, "context_parallel: only for trainer fsdp"),
        ({"tensor_parallel": 2}, "tensor_parallel: only for trainer fsdp, and the trainer is torch"),
        ({"trainer": "fsdp", "tensor_parallel": 2, "context_parallel": 2, "processes": 4}, None),
        ({"trainer": "fsdp", "tensor_parallel": 2, "processes": 4}, None),
        (
            {"trainer": "fsdp", "tensor_parallel": 4, "processes": 6},
            "tensor_parallel 4: 6 processes on each node cannot be divided by it; take one of 1, 2, 3, 6, or other "
            "backend.processes",
        ),
        ({"trainer": "fsdp", "tensor_parallel": 2}, "tensor_parallel 2: 1 process on each node"),
        ({"trainer": "deepspeed", "zero_stage": 0, "offload": "optimizer"}, "needs zero_stage 1, 2 or 3"),
        ({"trainer": "deepspeed", "offload": "all"}, "offload all: needs zero_stage 3, not 2"),
    ],
)
def test_what_fits_together(given: dict[str, object], message: str | None) -> None:
    refusal = Backends.model_validate(given).refusal()
    assert refusal is None if message is None else message in (refusal or "")


@pytest.mark.parametrize(
    ("processes", "fits"), [(16, False), (3, False), (None, True), (1, True), (4, True), (8, True)]
)
def test_gpus_are_shared_out_evenly(processes: int | None, fits: bool) -> None:
    backends = Backends(trainer="deepspeed", processes=processes)
    said = f"processes {processes}: 8 GPUs on each node are not shared out evenly; take one of 1, 2, 4, 8"
    assert backends.refusal(gpus=8) == (None if fits else said)
    assert backends.refusal(gpus=0) is None  # on a CPU any number of processes share the cores
    if not fits:
        with pytest.raises(ValueError, match="not shared out evenly"):
            Resources(gpus=8, trainer="deepspeed", processes=processes)


def test_zero_takes_no_optimizer_that_needs_whole_matrices() -> None:
    said = "muon needs whole matrices, which ZeRO 2 cuts up: take optimizer.name adamw, "
    said += "backend.zero_stage 0, or `backend: {trainer: fsdp}`"
    assert Backends(trainer="deepspeed").optimizer_refusal("muon") == said
    for backends in (Backends(), Backends(trainer="deepspeed", zero_stage=0), Backends(trainer="fsdp")):
        assert backends.optimizer_refusal("muon") is None
    assert Backends(trainer="deepspeed").optimizer_refusal("adamw") is None


def test_processes_follow_the_gpus() -> None:
    assert Resources(gpus=8, nodes=2).world_size == 1  # plain torch is one process
    both = Resources(gpus=8, nodes=2, trainer="deepspeed")
    assert (both.ranks_per_node, both.world_size) == (8, 16)
    assert Resources(trainer="deepspeed").world_size == 1
    sharded = Resources(gpus=8, nodes=2, trainer="fsdp")
    assert (sharded.ranks_per_node, sharded.world_size, sharded.sharded) == (8, 16, True)
    assert not Resources(trainer="fsdp").sharded and not both.sharded
    assert sharded.backend_parts(["trainer"]) == {"trainer": "fsdp", "processes": 16}
    layers = sharded.model_copy(update={"gather": "layer"})
    assert layers.backend_parts(["trainer"]) == {"trainer": "fsdp", "processes": 16, "gather": "layer"}
    assert Resources(gpus=8, trainer="deepspeed", processes=4).ranks_per_node == 4


def test_a_job_of_the_defaults_is_written_as_before_there_was_a_choice() -> None:
    before = {"pool": "a", "cpus": 2, "threads": 1, "memory_gib": 4.0, "gpus": 0, "nodes": 1}
    assert Resources.model_validate(before).model_dump(mode="json") == before
    chosen = Resources(pool="a", cpus=2, sampler="vllm", trainer="deepspeed", processes=2)
    written = chosen.model_dump(mode="json")
    assert written == {**before, "sampler": "vllm", "trainer": "deepspeed", "processes": 2}
    assert Resources.model_validate(written) == chosen


def test_what_of_it_is_part_of_a_result() -> None:
    assert Resources(gpus=8, nodes=2).backend_parts({"sampler", "trainer"}) == {}
    both = Resources(gpus=8, sampler="vllm", trainer="deepspeed", zero_stage=3, offload="all")
    trainer = {"trainer": "deepspeed", "zero_stage": 3, "processes": 8, "offload": "all"}
    assert both.backend_parts({"sampler", "trainer"}) == {"sampler": "vllm", **trainer}
    assert both.backend_parts({"sampler"}) == {"sampler": "vllm"}
    assert both.backend_parts(set()) == {}
    assert Resources(recompute=True).backend_parts({"sampler", "trainer"}) == {}


def test_a_whole_copy_is_drawn_with_where_it_takes_a_quarter_of_a_gpu() -> None:
    auto = Backends(trainer="fsdp")
    assert [auto.gathers_layers(size, 80.0) for size in (20.0, 20.1)] == [False, True]
    assert not auto.gathers_layers(99.0, None)  # without GPUs
    assert auto.model_copy(update={"sampler": "vllm"}).gathers_layers(1.0, 80.0)
    assert auto.model_copy(update={"gather": "layer"}).gathers_layers(1.0, None)
    assert not auto.model_copy(update={"gather": "model"}).gathers_layers(99.0, 80.0)


def test_a_tensor_group_is_one_data_rank_and_stays_on_a_node() -> None:
    parted = Resources(gpus=8, nodes=2, trainer="fsdp", tensor_parallel=4)
    assert (parted.world_size, parted.data_ranks) == (16, 4)
    assert parted.backend_parts(["trainer"]) == {"trainer": "fsdp", "processes": 16, "tensor_parallel": 4}
    said = "tensor_parallel 16: 8 processes on each node cannot be divided by it; take one of 1, 2, 4, 8"
    assert Backends(trainer="fsdp", tensor_parallel=16).refusal(gpus=8, nodes=2) == said
    with pytest.raises(ValueError, match="tensor_parallel 3: 8 processes on each node"):
        Resources(gpus=8, trainer="fsdp", tensor_parallel=3)


def test_muon_is_refused_where_matrices_are_cut() -> None:
    said = "muon needs whole matrices, which tensor_parallel cuts up: take optimizer.name adamw, or leave "
    said += "backend.tensor_parallel out"
    parted = Backends(trainer="fsdp", tensor_parallel=2)
    assert parted.optimizer_refusal("muon") == said and parted.optimizer_refusal("adamw") is None
