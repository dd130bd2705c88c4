"""The memory estimate of FSDP: shares worked by hand, and a 32B model on two nodes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from components.contract.job import Resources
from components.contract.memory import GIB, MemoryEstimate, MemoryKind
from components.modeling.estimates.fsdp_memory import frozen_share, layer_parameters, table_parameters
from components.modeling.estimates.memory_needs import training_needs
from components.modeling.models.lora import LoraConfig
from components.modeling.models.model_sizes import ModelSizes

SMALL = ModelSizes(vocab=10, width=4, layers=2, heads=2, kv_heads=1, head_width=3, mlp_width=5, tied=False)
LAYER, TABLES = 48 + 24 + 60 + 8, 2 * 10 * 4 + 4
"""qkv (2 + 2) * 3 x 4, out 4 x 6, three 4 x 5, two norms; two tables of 10 x 4 and a norm."""
QWEN_32B = ModelSizes(
    vocab=152064, width=5120, layers=64, heads=40, kv_heads=8, head_width=128, mlp_width=27648, tied=False
)
QWEN_72B = ModelSizes(
    vocab=152064, width=8192, layers=80, heads=64, kv_heads=8, head_width=128, mlp_width=29568, tied=False
)
TWELVES = {"mlp_width": 12, "heads": 12, "vocab": 12}
SHARDED = Resources(gpus=8, memory_gib=1600, nodes=2, trainer="fsdp")


def named(resources: Resources, **changes: object) -> dict[str, float]:
    given = {"dtype": "bfloat16", "optimizer": "adamw", "lora": None, "pass_tokens": 8, "longest": 300, **changes}
    return {need.name: need.size for need in training_needs(SMALL, resources, **given)}  # type: ignore[arg-type]


def test_shares_by_hand() -> None:
    n = 2 * LAYER + TABLES
    assert (layer_parameters(SMALL), table_parameters(SMALL), SMALL.parameters) == (LAYER, TABLES, n)
    found = named(SHARDED)
    # 16 ranks; float32 weights, gradients and two averages; passes gather two layers and the tables in bfloat16
    assert (found["weights"], found["gradients"], found["optimiser states"]) == (4 * n / 16, 4 * n / 16, 8 * n / 16)
    assert found["gathered weights"] == 2 * (2 * LAYER + TABLES)
    assert found["gathered gradients"] == (2 + 4) * LAYER
    assert found["model being saved"] == 2 * 2 * n / 8


def test_adapters_by_hand() -> None:
    lora = LoraConfig(rank=2)
    trained, found = SMALL.adapters(lora), named(SHARDED, lora=lora)
    assert found["weights"] == (2 * SMALL.parameters + 4 * trained) / 16
    assert (found["gradients"], found["optimiser states"]) == (4 * trained / 16, 8 * trained / 16)
    assert "gathered gradients" not in found


def test_weights_in_four_bits_are_sharded_and_gathered_so_by_hand() -> None:
    lora = LoraConfig(rank=2, bits=4)
    trained, found, packed = SMALL.adapters(lora), named(SHARDED, lora=lora), 4.126953125 / 8
    # of a layer's 140 weights the 132 of its matrices; one layer's are unpacked while it computes
    kept = 2 * (SMALL.parameters - 264) + packed * 264 + 4 * trained
    assert found["weights"] == pytest.approx(kept / 16)
    assert found["gathered weights"] == pytest.approx(2 * (2 * 8 + TABLES) + 2 * 132 * packed + 2 * 132)


def test_parts_of_a_tensor_group_by_hand() -> None:
    """Two ranks have 5 tokens, a head, 3 of 5 features each, and both the one key head."""
    layer, tables = (1 + 2) * 3 * 4 + 4 * 3 + 3 * 4 * 3 + 8, 2 * 5 * 4 + 4
    n = 2 * layer + tables
    found = named(SHARDED.model_copy(update={"tensor_parallel": 2}))
    assert (found["weights"], found["optimiser states"]) == (4 * n / 8, 8 * n / 8)  # over eight pairs
    assert found["gathered weights"] == 2 * (2 * layer + tables)
    assert found["gathered gradients"] == (2 + 4) * layer
    assert found["model being saved"] == 2 * 2 * SMALL.parameters / 8
    assert found["logits"] == 3 * 4 * 8 * 5


@pytest.mark.parametrize(
    ("sizes", "tensor", "said"),
    [
        ({}, 2, "the model's 5 MLP features are not parted evenly; take one of 1"),
        ({"mlp_width": 8}, 2, None),
        ({**TWELVES, "kv_heads": 3}, 6, None),
        ({**TWELVES, "kv_heads": 3}, 4, "the model's 3 key heads are not parted evenly; take one of 1, 3"),
        (
            {**TWELVES, "vocab": 10},
            4,
            "the model's 10 tokens of the vocabulary are not parted evenly; take one of 1, 2",
        ),
        ({"experts": 4}, 2, "a model with experts is not parted; leave tensor_parallel out"),
        ({"experts": 4}, 1, None),
    ],
)
def test_which_models_are_parted(sizes: dict[str, int], tensor: int, said: str | None) -> None:
    assert replace(SMALL, **sizes).why_not_parted(tensor) == (said and f"tensor_parallel {tensor}: {said}")


@pytest.mark.parametrize(
    ("model", "lora", "alone", "parted"), [(QWEN_32B, None, 76, 59), (QWEN_72B, LoraConfig(rank=16), 71, 58)]
)
def test_tensor_groups_on_two_nodes(model: ModelSizes, lora: LoraConfig | None, alone: int, parted: int) -> None:
    """A pass of one sequence of 32,768 tokens: 16 ranks with one each, and two groups of eight."""
    given = {"dtype": "bfloat16", "optimizer": "adamw", "lora": lora, "pass_tokens": 32768, "longest": 32768}
    for tensor, gib in ((1, alone), (8, parted)):
        resources = SHARDED.model_copy(update={"recompute": True, "tensor_parallel": tensor})
        estimate = MemoryEstimate(tuple(training_needs(model, resources, **given)), 8)  # type: ignore[arg-type]
        assert round(estimate.bytes(MemoryKind.GPU) / GIB) == gib


def test_a_context_group_shares_a_pass() -> None:
    """Each of four ranks keeps a quarter of the tokens' activations, and gathers one layer's keys and values of all."""
    alone, found = (
        named(SHARDED, pass_tokens=8000),
        named(SHARDED.model_copy(update={"context_parallel": 4}), pass_tokens=8000),
    )
    assert found["activations"] == alone["activations"] / 4
    assert found["logits"] == alone["logits"] / 4
    # one head of 3, keys and values: four times in bfloat16, and twice in float32
    assert found["keys and values of a context group"] == 8000 * 2 * 3 * (4 * 2 + 2 * 4)
    assert {name: size for name, size in found.items() if "weights" in name or "gradients" in name} == {
        name: size for name, size in alone.items() if "weights" in name or "gradients" in name
    }


def test_muon_keeps_one_average() -> None:
    assert named(SHARDED, optimizer="muon")["optimiser states"] == 4 * SMALL.parameters / 16


def test_one_process_is_plain_torch() -> None:
    assert named(Resources(trainer="fsdp")) == named(Resources())


def test_a_frozen_model_keeps_its_tables() -> None:
    held = frozen_share(SMALL, SHARDED) * SMALL.parameters
    assert round(held, 6) == TABLES + 2 * LAYER / 16
    assert frozen_share(SMALL, SHARDED.model_copy(update={"trainer": "deepspeed"})) == 1


def test_nothing_whole_is_needed_between_passes() -> None:
    given = {"dtype": "bfloat16", "optimizer": "adamw", "lora": None, "pass_tokens": 8, "longest": 300}
    needs = [*training_needs(SMALL, SHARDED, **given)]  # type: ignore[arg-type]
    assert not [need.name for need in needs if need.moment == "between training passes" and not need.on_host]
    assert MemoryEstimate(tuple(needs), 8).bytes(MemoryKind.GPU) > 0
