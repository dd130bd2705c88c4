"""Which GPUs an engine has: by hand, on the head counts of real models."""

from __future__ import annotations

from dataclasses import replace

import pytest

from components.contract.errors import InputError
from components.modeling.models.gpus import gpu_memory_share, gpus_apart, own_gpus, tensor_parallel_size
from components.modeling.models.model_sizes import ModelSizes


@pytest.mark.parametrize(
    ("heads", "kv_heads", "width", "expected"),
    [
        (12, 2, 8960, [1, 2, 2, 4, 4, 4, 4, 4]),  # Qwen2.5-1.5B; three would cut its 2 keys and values unevenly
        (28, 4, 18944, [1, 2, 2, 4, 4, 4, 4, 4]),  # Qwen2.5-7B
        (40, 8, 27648, [1, 2, 2, 4, 4, 4, 4, 8]),  # Qwen2.5-32B; five and ten divide its heads, but not its 8
        (14, 2, 4864, [1, 2, 2, 2, 2, 2, 2, 2]),  # Qwen2.5-0.5B; 7 does not divide its MLP
    ],
)
def test_a_model_is_split_over_as_many_gpus_as_divide_it(
    heads: int, kv_heads: int, width: int, expected: list[int]
) -> None:
    sizes = {"heads": heads, "kv_heads": kv_heads, "mlp_width": width}
    assert [tensor_parallel_size(gpus, **sizes) for gpus in range(1, 9)] == expected


@pytest.mark.parametrize(
    ("count", "environ", "expected"),
    [
        (2, {}, "0,1"),
        (2, {"LOCAL_RANK": "3"}, "6,7"),
        (2, {"LOCAL_RANK": "1", "CUDA_VISIBLE_DEVICES": "7, 5,3,1"}, "3,1"),
        (1, {"LOCAL_RANK": "1", "CUDA_VISIBLE_DEVICES": "GPU-a,GPU-b"}, "GPU-b"),
    ],
)
def test_a_rank_has_a_run_of_the_visible_gpus(count: int, environ: dict[str, str], expected: str) -> None:
    assert own_gpus(count, environ) == expected


def test_no_gpu_is_made_up() -> None:
    with pytest.raises(InputError, match=r"process 1 of this node needs GPUs 1 to 1 .* has 1; set backend.processes"):
        own_gpus(1, {"LOCAL_RANK": "1", "CUDA_VISIBLE_DEVICES": "0"})


@pytest.mark.parametrize("given", ["50%", "0", "5", "-0.5", "nan", ""])
def test_a_share_that_is_none_is_named(given: str) -> None:
    with pytest.raises(InputError, match="POSTTRAIN_VLLM_GPU_MEMORY is"):
        gpu_memory_share({"POSTTRAIN_VLLM_GPU_MEMORY": given})


def test_the_share() -> None:
    assert gpu_memory_share({}) == 0.5 and gpu_memory_share({}, alone=True) == 0.9
    assert gpu_memory_share({"POSTTRAIN_VLLM_GPU_MEMORY": "0.7"}, alone=True) == 0.7
    assert gpu_memory_share({"POSTTRAIN_VLLM_GPU_MEMORY": "1"}) == 1


def test_an_engine_takes_as_few_gpus_as_leave_half_of_its_share_to_its_cache() -> None:
    large = ModelSizes(
        vocab=9, width=5120, layers=64, heads=40, kv_heads=8, head_width=128, mlp_width=27648, tied=False
    )
    given = {"own": 1, "node": 8, "memory": 80.0, "share": 0.5}  # 20 of each GPU for weights
    assert [large.engine_gpus(size, **given) for size in (20.0, 20.1, 65.0, 165.0, 900.0)] == [1, 2, 4, 8, 8]
    assert large.engine_gpus(65.0, **{**given, "own": 2, "share": 1.0}) == 2
    assert large.engine_gpus(65.0, **{**given, "memory": None}) == 1  # the pool does not say it
    odd = replace(large, heads=6, kv_heads=6, mlp_width=12)
    assert odd.engine_gpus(65.0, **given) == 2  # vLLM cuts between heads


def test_ranks_of_one_engine_see_the_gpus_of_all_of_them() -> None:
    assert own_gpus(4, {"LOCAL_RANK": "4"}, ranks=4) == "4,5,6,7"
    assert own_gpus(4, {"LOCAL_RANK": "0", "CUDA_VISIBLE_DEVICES": "7,6,5,4"}, ranks=4) == "7,6,5,4"


@pytest.mark.parametrize(
    ("node", "processes", "expected"),
    [
        (0, 1, 0),
        (1, 1, 0),  # it has to share
        (2, 1, 0),  # two are twice as fast as one
        (3, 1, 2),  # three would cut unevenly, so one is free for the trainer
        (8, 1, 0),
        (5, 1, 4),
        (6, 1, 5),  # of which vLLM takes four
        (8, 8, 0),
        (6, 2, 2),  # trainers on 0 and 1, engines on 2 to 3 and on 4 to 5
        (8, 2, 0),
    ],
)
def test_an_engine_has_gpus_apart_where_it_loses_none_by_it(node: int, processes: int, expected: int) -> None:
    """Over how many of so many GPUs vLLM splits a model with 8 heads: 1, 2, 2, 4, 4, 4, 4, 8."""
    assert gpus_apart(lambda gpus: 1 << (gpus.bit_length() - 1), node=node, processes=processes) == expected


def test_gpus_apart_are_those_behind_the_trainers() -> None:
    assert own_gpus(2, {}, first=1) == "1,2"
    assert own_gpus(2, {"LOCAL_RANK": "1"}, first=2) == "4,5"
    assert own_gpus(2, {"LOCAL_RANK": "1", "CUDA_VISIBLE_DEVICES": "9,8,7,6,5,4"}, first=2) == "5,4"
    with pytest.raises(InputError, match="needs GPUs 1 to 2"):
        own_gpus(2, {"CUDA_VISIBLE_DEVICES": "0,1"}, first=1)
