"""Parts of a decoder: their sizes, and which models are refused before a process group is needed."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.contract.errors import InputError
from components.modeling.loading.load import load_policy
from components.modeling.models.lora import LoraConfig
from tests.modeling.decoder_models import build
from tests.modeling.test_ranks import rank_of


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("sharded", [False, True])
def test_a_rank_has_its_part_of_each_matrix(tmp_path: Path, ranks: int, sharded: bool) -> None:
    """Qwen2 with four heads of six features, and one key head that each rank has a copy of."""
    build("qwen2").save_pretrained(tmp_path)
    policy, whole = load_policy(tmp_path, sharded=sharded), load_policy(tmp_path)
    with rank_of(1, ranks, tensor=ranks):
        policy.part()
        policy.part()  # once is enough
        for module in (*policy.layers(), policy.module):
            policy.materialize(module)
        theirs = whole.module.get_parameter("layers.0.qkv").detach()
        inner = 24 // ranks
        expected = [*theirs[inner : 2 * inner].tolist(), *theirs[24:].tolist()]
        assert policy.module.get_parameter("layers.0.qkv").tolist() == expected
        down = whole.module.get_parameter("layers.1.down")
        assert policy.module.get_parameter("layers.1.down").equal(down.chunk(ranks, 1)[1])
        rows = 40 // ranks
        table = whole.module.get_parameter("embedding")
        assert policy.module.get_parameter("embedding").equal(table[rows : 2 * rows])
        assert policy.whole_shape("layers.0.qkv", policy.module.get_parameter("layers.0.qkv").shape) == theirs.shape


def test_adapters_are_parted_as_their_matrices(tmp_path: Path) -> None:
    build("phi3").save_pretrained(tmp_path)
    policy = load_policy(tmp_path, lora=LoraConfig(rank=2))
    whole = {name: p.detach().clone() for name, p in policy.module.named_parameters()}
    with rank_of(0, 2, tensor=2):
        policy.part()
        shapes = {name: tuple(p.shape) for name, p in policy.trainable()}
        assert {name: policy.whole_shape(name, shape) for name, shape in shapes.items()} == {
            name: tuple(whole[name].shape) for name in shapes
        }
    assert shapes["layers.0.adapters.down.lora_A"] == (2, 18) and shapes["layers.0.adapters.down.lora_B"] == (24, 2)
    assert shapes["layers.0.adapters.gate_up.lora_A"] == (2, 24) and shapes["layers.0.adapters.gate_up.lora_B"] == (
        36,
        2,
    )


@pytest.mark.parametrize(
    ("kind", "ranks", "said"),
    [
        (
            "llama",
            8,
            "tensor_parallel 8: the model's 4 heads, 36 MLP features are not parted evenly; take one of 1, 2, 4",
        ),
        ("llama", 3, "4 heads, 40 tokens of the vocabulary, 4 key heads are not parted evenly; take one of 1, 2"),
        ("gpt2", 2, "tensor_parallel 2: the transformers backend does not part a model; leave tensor_parallel out"),
    ],
)
def test_what_cannot_be_parted_is_refused(tmp_path: Path, kind: str, ranks: int, said: str) -> None:
    build(kind).save_pretrained(tmp_path)
    policy = load_policy(tmp_path)
    with rank_of(0, ranks, tensor=ranks), pytest.raises(InputError, match=said):
        policy.part()
