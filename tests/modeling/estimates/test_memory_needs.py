"""The memory estimate: against numbers worked by hand, against real weights, and against a measured peak."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.contract.job import Resources
from components.contract.memory import GIB, MemoryEstimate, MemoryKind, Moment
from components.modeling.estimates.memory_needs import layer_per_token, training_needs
from components.modeling.estimates.supervised_memory import supervised_memory
from components.modeling.models.lora import LoraConfig, add_adapters
from components.modeling.models.model_config import ModelConfig
from components.modeling.models.model_sizes import ModelSizes
from components.pretrain.params import PretrainParams
from components.rl.memory import rl_memory
from components.rl.params import RLParams
from tests.modeling.decoder_models import MIXTURES, NATIVE, build

SMALL = ModelSizes(vocab=10, width=4, layers=2, heads=2, kv_heads=1, head_width=3, mlp_width=5, tied=False)
BIG = Resources(pool="h100x8", gpus=8, memory_gib=1600, trainer="deepspeed", zero_stage=2)


def sizes_of(needs: list) -> dict[str, float]:
    return {need.name: need.size for need in needs}


def needs(resources: Resources, **changes: object) -> dict[str, float]:
    given = {"dtype": "bfloat16", "optimizer": "adamw", "lora": None, "pass_tokens": 8, "longest": 300, **changes}
    return sizes_of([*training_needs(SMALL, resources, **given)])


def test_weights_by_hand() -> None:
    # a layer: qkv (2 + 2) * 3 x 4, out 4 x 6, three 4 x 5, two norms; then two tables of 10 x 4 and a norm
    assert SMALL.parameters == 2 * (48 + 24 + 60 + 8) + 80 + 4
    # of each layer: q 4 + 6, k and v 4 + 3, o 6 + 4, three times 4 + 5
    assert SMALL.adapters(LoraConfig(rank=2)) == 2 * 2 * (10 + 7 + 7 + 10 + 27)


def test_shares_of_zero_by_hand() -> None:
    n, alone = 364, Resources()
    plain = needs(alone)
    assert (plain["weights"], plain["gradients"], plain["optimiser states"]) == (2 * n, 4 * n, 12 * n)
    assert needs(alone, dtype="float32")["optimiser states"] == 8 * n
    for stage, expected in {
        1: (2 * n, 4 * n, 12 * n / 8),
        2: (2 * n, 4 * n / 8, 12 * n / 8),
        3: (2 * n / 8, 4 * n / 8, 12 * n / 8),
    }.items():
        found = needs(BIG.model_copy(update={"zero_stage": stage}))
        assert (found["weights"], found["gradients"], found["optimiser states"]) == expected
    assert needs(alone, dtype="float32", optimizer="muon")["optimiser states"] == 4 * n


def test_offloaded_states_are_the_hosts() -> None:
    resources = BIG.model_copy(update={"offload": "optimizer"})
    given = {"dtype": "bfloat16", "optimizer": "adamw", "lora": None, "pass_tokens": 8, "longest": 300}
    estimate = MemoryEstimate(tuple(training_needs(SMALL, resources, **given)), 8)
    named = sizes_of([*estimate.needs])
    assert estimate.bytes(MemoryKind.HOST) == 8 * (named["optimiser states"] + named["libraries"])
    on_gpu = sum(named.values()) - named["optimiser states"] - named["libraries"]
    assert estimate.bytes(MemoryKind.GPU) == estimate.bytes_at(MemoryKind.GPU, Moment.PASS) == on_gpu


def test_an_engine_for_each_process_by_hand() -> None:
    """Measured on quickstart's model: two engines of 1.71 GiB each, beside two ranks of 0.6 to 0.8 GiB each."""
    params, new = RLParams(steps=1), ModelSizes.new(ModelConfig())
    two = Resources(sampler="vllm", trainer="deepspeed", processes=2)
    estimate, native = (rl_memory(params, new, given) for given in (two, two.model_copy(update={"sampler": "native"})))
    assert estimate is not None and native is not None
    named = sizes_of([*estimate.needs])
    assert named["vLLM"] + named["vLLM's weights"] + named["vLLM's cache"] == 1.7 * GIB + 4 * new.parameters
    assert estimate.bytes(MemoryKind.NODE) > native.bytes(MemoryKind.NODE) + 2 * 1.6 * GIB
    assert "key-value cache" not in named and "vLLM" not in sizes_of([*native.needs])
    on_gpus = rl_memory(params, new, BIG.model_copy(update={"sampler": "vllm"}))
    assert on_gpus is not None and "vLLM's cache" not in sizes_of([*on_gpus.needs])
    assert on_gpus.bytes(MemoryKind.HOST) == 8 * ((0.55 + 0.7) * GIB + 4 * new.parameters)


@pytest.mark.parametrize("kind", [*NATIVE, *MIXTURES])
def test_weights_of_real_checkpoints(kind: str) -> None:
    model = build(kind)
    sizes = ModelSizes.from_config(json.loads(model.config.to_json_string(use_diff=False)))
    assert sizes is not None
    real = sum(p.numel() for p in {id(p): p for p in model.parameters()}.values())
    # without biases, which gpt-oss has many of, and norms of heads
    assert sizes.parameters == pytest.approx(real, rel=0.06 if kind == "gpt-oss" else 0.02)


@pytest.mark.parametrize("kind", ["llama-gqa", "phi3", "gemma3", *MIXTURES])
@pytest.mark.parametrize("experts", [False, True])
def test_adapters_of_real_checkpoints(kind: str, experts: bool) -> None:
    model = build(kind)
    sizes = ModelSizes.from_config(json.loads(model.config.to_json_string(use_diff=False)))
    names = LoraConfig().target_modules
    lora = LoraConfig(rank=3, target_modules=(*names, "experts") if experts and kind in MIXTURES else names)
    assert sizes is not None
    trained = [p for p in add_adapters(model, lora).parameters() if p.requires_grad]
    assert sizes.adapters(lora) == sum(p.numel() for p in trained)


def test_what_of_a_mixture_is_counted_by_hand() -> None:
    mixture = replace(SMALL, experts=7, experts_per_token=2)
    # seven experts of three 4 x 5 and a router's row of 4 in place of one, in each of two layers
    assert mixture.parameters == SMALL.parameters + 2 * (6 * 60 + 7 * 4)
    # of one token two experts keep 3 * 5 numbers each
    assert layer_per_token(mixture, 300, cpu=False) == layer_per_token(SMALL, 300, cpu=False) + 15


def test_frozen_weights_in_four_bits_by_hand() -> None:
    # the matrices of a layer are 48 + 24 + 60 weights; a layer is unpacked at a time; tables, norms and adapters stay
    found, lora = needs(Resources(), lora=LoraConfig(rank=2, bits=4)), LoraConfig(rank=2)
    assert found["packed weights"] == pytest.approx(264 * 4.127 / 8 + 2 * 132, rel=1e-3)
    assert found["weights"] == 2 * (364 - 264 + SMALL.adapters(lora))


def test_capped_scores_are_kept_by_hand() -> None:
    capped = replace(SMALL, capped=True)
    for longest, kept in ((300, 300), (9000, 2048)):
        more = layer_per_token(capped, longest, cpu=True) - layer_per_token(SMALL, longest, cpu=True)
        assert more == 3 * 1.25 * 2 * kept
        assert layer_per_token(capped, longest, cpu=False) == layer_per_token(SMALL, longest, cpu=False)


def test_a_config_that_names_its_sizes_otherwise_is_not_known() -> None:
    assert ModelSizes.from_config({"n_embd": 24, "vocab_size": 40}) is None


@given(st.integers(1, 64), st.integers(0, 3), st.integers(1, 4096))
def test_more_processes_never_need_more_of_each(world: int, stage: int, tokens: int) -> None:
    def peak(count: int) -> float:
        resources = Resources(trainer="deepspeed", zero_stage=stage, processes=count)
        given = {"dtype": "bfloat16", "optimizer": "adamw", "lora": None, "pass_tokens": tokens, "longest": 300}
        return MemoryEstimate(tuple(training_needs(SMALL, resources, **given)), 1).bytes(MemoryKind.NODE)

    assert peak(world) <= peak(1)


def test_layers_that_are_computed_again_keep_only_what_enters_them() -> None:
    # a layer keeps 4 * 4 + 2.25 * 12 + 2 * 6 + 3 * 5 numbers of a token, and 300 tokens have no attention matrix
    kept, again = (needs(Resources(recompute=value))["activations"] for value in (False, True))
    assert kept == 2 * 8 * (2 * 70 + 8)
    assert again == 2 * 8 * (2 * 4 + 70 + 8)


MEASURE = """
import json, sys
from pathlib import Path
import torch
from components.modeling.supervised.examples import Example
from components.modeling.native.allocator import keep_freed_blocks
from components.modeling.loading.load import new_policy
from components.modeling.supervised.trainer import fit
from components.modeling.models.model_config import ModelConfig
from components.pretrain.params import PretrainParams
from components.rl.params import RLParams
from components.rl.memory import rl_memory
torch.set_num_threads(1)
class Silent:
    def progress(self, *a, **k): pass
    log = checkpoint = progress
params = PretrainParams.model_validate_json(sys.argv[1])
policy = new_policy(params.architecture, tokenizer=None, seed=0)
rows = [[(i * 7 + j) % params.architecture.vocab_size for j in range(params.max_tokens)] for i in range(64)]
if sys.argv[2] == "True":
    policy.recompute_layers()
fit(policy, [Example(row, [True] * len(row)) for row in rows], params, Silent(), seed=0)
# of this program alone: getrusage's peak begins at that of the process that started it
peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
print(int(peak.split()[1]) * 1024)
"""


@pytest.mark.parametrize("recompute", [False, True])
def test_the_peak_of_a_real_training_is_within_a_factor(recompute: bool) -> None:
    architecture = {"vocab_size": 4000, "width": 384, "layers": 8, "heads": 6, "mlp_width": 1024}
    plain = {"architecture": architecture, "steps": 2, "batch_size": 16, "max_tokens": 256, "checkpoint_every": 0}
    plain |= {"optimizer": {"name": "adamw"}}
    params = PretrainParams.model_validate(plain)
    estimate = supervised_memory(params, None, Resources(recompute=recompute))
    assert estimate is not None
    run = subprocess.run(
        [sys.executable, "-c", MEASURE, params.model_dump_json(), str(recompute)],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[3],
    )
    measured = float(run.stdout)
    # 2.19 GiB estimated and 1.81 measured when it was written; with layers computed again 1.18 and 1.01
    assert 1 / 1.4 < estimate.bytes(MemoryKind.NODE) / measured < 1.4
