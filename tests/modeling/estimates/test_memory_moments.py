"""The memory estimate of a large model, moment by moment: worked by hand, and what is named to turn."""

from __future__ import annotations

import pytest

from components.contract.job import Resources
from components.contract.memory import GIB, SPARED, MemoryEstimate, MemoryKind, Moment
from components.evaluate.params import EvaluateParams
from components.modeling.estimates.sampling_memory import choosing_memory, sampling_memory
from components.modeling.estimates.supervised_memory import supervised_memory
from components.modeling.models.lora import LoraConfig
from components.modeling.models.model_sizes import ModelSizes
from components.rl.memory import rl_memory
from components.rl.params import RLParams
from components.sft.params import SftParams

BIG = Resources(pool="h100x8", gpus=8, memory_gib=1600, trainer="deepspeed", zero_stage=2)
SEVEN = ModelSizes(152064, 3584, 28, 28, 4, 128, 18944, tied=False)
"""Qwen2.5-7B."""
H100X8 = BIG.model_copy(update={"sampler": "vllm", "gpu_memory_gib": 80})
H100X1 = Resources(gpus=1, gpu_memory_gib=80, memory_gib=224, sampler="vllm")
WRITTEN = {"dtype": "bfloat16", "micro_batch_tokens": 8192, "optimizer": {"name": "adamw"}}
GSM8K = RLParams.model_validate({**WRITTEN, "prompts_per_step": 128, "max_new_tokens": 512})
USABLE = (1 - SPARED) * 80 * GIB


def rl(resources: Resources, **changes: object) -> MemoryEstimate:
    found = rl_memory(GSM8K.model_copy(update=changes), SEVEN, resources)
    assert found is not None
    return found


def test_seven_billion_weights_on_eight_gpus_by_hand() -> None:
    assert SEVEN.parameters == pytest.approx(7.6e9, rel=0.01)
    weights, start = 14.19, 14.19  # 2 bytes of each weight
    states, contexts = 85.13 / 8, 0.8 + 1.0  # 12 bytes of each weight; the trainer's and vLLM's that sleeps
    logits = 3 * 4 * 2**28 / GIB
    # a layer keeps 4 * 3584 + 2.25 * 36 * 128 + 2 * 3584 + 3 * 18944 numbers of each token
    gradients, bucket, activations = 28.38 / 8, 2 * 5e8 / GIB, 28 * 88_704 * 2 * 8192 / GIB
    resident = weights + start + states + contexts
    estimate = rl(H100X8)
    found = {moment: estimate.bytes_at(MemoryKind.GPU, moment) / GIB for moment in Moment}
    assert found[Moment.PASS] == pytest.approx(resident + gradients + bucket + activations + logits, rel=0.01)
    scoring = 88_704 * 2 * 16384 / GIB  # one layer of a pass without gradients
    assert found[Moment.BETWEEN] == pytest.approx(resident + 0.5 * 80 + scoring + logits, rel=0.01)
    assert (round(found[Moment.PASS]), round(found[Moment.BETWEEN])) == (86, 87)
    assert estimate.when(MemoryKind.GPU) == " between training passes"


def test_the_share_of_vllm_is_read_and_lowers_only_what_is_between_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    half = rl(H100X8)
    monkeypatch.setenv("POSTTRAIN_VLLM_GPU_MEMORY", "0.25")
    quarter = rl(H100X8)
    saved = {
        moment: half.bytes_at(MemoryKind.GPU, moment) - quarter.bytes_at(MemoryKind.GPU, moment) for moment in Moment
    }
    assert saved == {Moment.PASS: 0, Moment.BETWEEN: pytest.approx(20 * GIB)}
    monkeypatch.setenv("POSTTRAIN_VLLM_GPU_MEMORY", "0.1")  # less than its weights: it would not start
    assert {need.name: need.size for need in rl(H100X8).needs}[
        "vLLM's weights and a small cache"
    ] == 2 * SEVEN.parameters + GIB


def test_an_engine_that_draws_ahead_is_awake_in_training_passes() -> None:
    ahead = RLParams.model_validate({**WRITTEN, "rollout": {"name": "group_ahead"}})
    found = rl_memory(ahead, SEVEN, H100X8)
    assert found is not None
    assert (
        found.peak(MemoryKind.GPU) is Moment.PASS and found.parts(MemoryKind.GPU)["vLLM's share of the GPU"] == 40 * GIB
    )


def test_zero_three_gathers_the_weights_between_passes() -> None:
    two, three = rl(H100X8), rl(H100X8.model_copy(update={"zero_stage": 3}))
    assert three.bytes_at(MemoryKind.GPU, Moment.PASS) < two.bytes_at(MemoryKind.GPU, Moment.PASS)
    assert three.bytes_at(MemoryKind.GPU, Moment.BETWEEN) >= two.bytes_at(MemoryKind.GPU, Moment.BETWEEN)


def test_copies_of_the_policy_and_a_critic_are_counted() -> None:
    plain, ppo = rl(H100X8).parts(MemoryKind.GPU), rl(H100X8, method="ppo").parts(MemoryKind.GPU)
    assert "critic" not in plain
    assert ppo["critic"] == 14 * SEVEN.parameters  # weights, and an AdamW of its own that is not shared out


def test_a_sharded_critic_by_hand() -> None:
    sharded = H100X8.model_copy(update={"trainer": "fsdp", "zero_stage": 2})
    whole, lora = (
        rl(sharded, method="ppo", **more).parts(MemoryKind.GPU) for more in ({}, {"lora": LoraConfig(rank=8)})
    )
    # float32 weights, and an AdamW of two averages, of which each of eight ranks has its part
    assert whole["critic's weights"] + whole["critic's optimiser states"] == 12 * SEVEN.parameters / 8
    assert "critic" not in whole
    adapters = SEVEN.adapters(LoraConfig(rank=8))
    assert lora["critic's weights"] == (2 * SEVEN.parameters + 4 * adapters) / 8
    assert lora["critic's optimiser states"] == 8 * adapters / 8


def test_only_knobs_that_help_where_memory_is_short_are_named() -> None:
    advice = rl(H100X8).advice(MemoryKind.GPU, USABLE)
    assert advice == (
        "turn backend: {offload: optimizer}; lora: {rank: 8}; POSTTRAIN_VLLM_GPU_MEMORY=0.25; "
        "micro_batch_tokens: 4096, or take a larger pool"
    )
    host = rl(H100X8.model_copy(update={"offload": "optimizer"})).advice(MemoryKind.HOST)
    assert host == "turn backend: {offload: none}; lora: {rank: 8}, or take a larger pool"


def test_on_one_gpu_nothing_is_shared_out() -> None:
    advice = rl(H100X1).advice(MemoryKind.GPU, USABLE)
    assert advice.startswith("turn lora: {rank: 8}; backend: {trainer: deepspeed, offload: optimizer};")
    assert "zero_stage" not in advice
    several = rl(H100X1.model_copy(update={"gpus": 8})).advice(MemoryKind.GPU, USABLE)
    assert "backend: {trainer: deepspeed}" in several
    muon = GSM8K.optimizer.model_copy(update={"name": "muon"})
    assert "deepspeed" not in rl(H100X1, optimizer=muon).advice(MemoryKind.GPU, USABLE)


def test_what_is_turned_can_be_written_and_needs_less() -> None:
    for resources in (H100X1, H100X8, Resources(sampler="vllm"), BIG):
        for knob in rl(resources).knobs:
            before, after = rl(resources), MemoryEstimate(tuple(knob.turned()), 1)
            assert (
                after.bytes(MemoryKind.GPU) <= before.bytes(MemoryKind.GPU) * 1.02
                or knob.words == "backend: {offload: none}"
            )


def test_a_pass_of_one_sequence_gets_smaller_by_shorter_ones() -> None:
    recompute = Resources(recompute=True, gpus=1, gpu_memory_gib=80)
    for tokens, said in ((4096, "max_tokens: 4096"), (8192, "max_tokens: 4096, micro_batch_tokens: 4096")):
        given = {**WRITTEN, "max_tokens": 8192, "micro_batch_tokens": tokens, "steps": 1}
        found = supervised_memory(SftParams.model_validate(given), SEVEN, recompute)
        assert found is not None
        words = found.advice(MemoryKind.GPU, limit=0, count=9)
        assert f"; {said}, or" in words and "recompute" not in words and "; micro_batch" not in words


def test_bfloat16_is_named_where_float32_is_the_default() -> None:
    found = sampling_memory(EvaluateParams(), SEVEN, H100X1)
    assert found is not None and found.advice(MemoryKind.GPU).startswith("turn dtype: bfloat16; ")


def test_a_stage_that_draws_only_by_hand() -> None:
    params = EvaluateParams(dtype="bfloat16")
    found = sampling_memory(params, SEVEN, H100X1)
    assert found is not None
    weights, scoring, logits, contexts = 14.19, 88_704 * 2 * 16384 / GIB, 3 * 4 * 2**28 / GIB, 1.8
    assert found.bytes(MemoryKind.GPU) / GIB == pytest.approx(weights + 40 + scoring + logits + contexts, rel=0.01)
    assert found.when(MemoryKind.GPU) == ""
    one_process = sampling_memory(params, SEVEN, H100X8)
    assert one_process is not None and one_process.processes == 1
    choosing = choosing_memory(params, SEVEN, H100X1)
    assert choosing is not None and choosing.parts(MemoryKind.GPU)["weights"] == 4 * SEVEN.parameters
    assert sampling_memory(params, None, H100X1) is None
