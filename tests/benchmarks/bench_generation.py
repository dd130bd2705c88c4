"""Speed of generation: the native sampler against transformers' generate and against vLLM; same model, prompts and
lengths, one thread.

Run as a script for the table and JSON: `python -m tests.benchmarks.bench_generation --json out.json`. Repeats are
interleaved, so that all meet the same machine. Two settings. In "full" every response has all of its tokens: nothing
ends early. In "ending", as in real use, responses end at many lengths, 15 tokens on average, by the same end marks for
all, and only tokens up to an end mark count. A model of 97.5 million parameters is drawn from in the first setting.

The native sampler also returns log-probabilities and entropies, vLLM log-probabilities; transformers returns tokens
alone, which is its way. Ratios are by wall clock and by CPU seconds (the engine's included): the latter are what a busy
machine leaves standing. vLLM is left out where POSTTRAIN_VLLM_PYTHON names no environment that has it; its rate is that
of the engine, without the forward pass by which the policy scores its responses afterwards.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from components.contract.job import Resources
from components.modeling.generation.choose import PYTHON, open_sampler
from components.modeling.generation.engine.engine_sampler import EngineSampler
from components.modeling.generation.generate import generate
from components.modeling.generation.sampling_config import SamplingConfig
from components.modeling.loading.load import new_policy
from components.modeling.models.model_config import ModelConfig
from components.modeling.models.policy import Policy
from components.runtime.system.products import in_use
from tests.benchmarks.floor import Floor
from tests.benchmarks.script import run_script

GROUP, PROMPT_TOKENS, NEW_TOKENS, VOCABULARY = 8, 12, 36, 106
BATCHES = (64, 256, 512)
LARGE = {"vocab_size": 16384, "width": 768, "layers": 12, "heads": 12, "mlp_width": 2048, "max_positions": 256}
"""A model of 97.5 million parameters, drawn from at the smallest batch alone."""
SETTINGS: dict[str, tuple[int, ...]] = {"full": (), "ending": (1, 2, 3, 4, 5, 6)}
"""Tokens that end a response: none, or about one in 18 of what this untrained model says."""


def make_policy(**sizes: int) -> Policy:
    """Return the testbed's model (440,000 parameters), or one of other sizes, without end marks."""
    return new_policy(ModelConfig(**{"vocab_size": VOCABULARY, "max_positions": 256, **sizes}), tokenizer=None, seed=0)


def make_prompts(count: int, vocabulary: int = VOCABULARY) -> list[list[int]]:
    """Return prompts of one length, so that transformers need not pad."""
    generator = torch.Generator().manual_seed(0)
    return torch.randint(vocabulary, (count, PROMPT_TOKENS), generator=generator).tolist()


class Clock:
    """Wall clock and CPU seconds of this process and of one other, from its making to `stop`."""

    def __init__(self, pid: int | None = None) -> None:
        self._pid = pid
        self._start = self._now()

    def stop(self) -> tuple[float, float]:
        """Return wall seconds and CPU seconds since the start."""
        wall, cpu = self._now()
        return wall - self._start[0], cpu - self._start[1]

    def _now(self) -> tuple[float, float]:
        cpu = time.process_time()
        if self._pid is not None:
            fields = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
            cpu += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return time.perf_counter(), cpu


Timing = tuple[float, float, int]
"""Wall seconds, CPU seconds, response tokens."""
Timer = Callable[[list[list[int]], tuple[int, ...]], Timing]


def time_native(policy: Policy, prompts: list[list[int]], ends: tuple[int, ...]) -> Timing:
    """Time one draw."""
    clock = Clock()
    samples = generate(policy, prompts, _sampling(ends), generator=torch.Generator().manual_seed(0))
    return *clock.stop(), int(samples.lengths.sum())


def time_transformers(model: Any, prompts: list[list[int]], ends: tuple[int, ...]) -> Timing:
    """Time one draw."""
    tokens = torch.tensor([prompt for prompt in prompts for _ in range(GROUP)])
    clock = Clock()
    found = model.generate(
        tokens,
        attention_mask=torch.ones_like(tokens),
        do_sample=True,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        max_new_tokens=NEW_TOKENS,
        pad_token_id=0,
        eos_token_id=list(ends) or None,
    )
    seconds = clock.stop()
    ended = torch.isin(found[:, PROMPT_TOKENS:], torch.tensor(ends, dtype=torch.long))
    before = ended.cumsum(1) - ended.long() == 0
    return *seconds, int(before.sum())


def time_vllm(sampler: EngineSampler, prompts: list[list[int]], ends: tuple[int, ...]) -> Timing:
    """Time one draw by the engine: all but the policy's own scores."""
    sampler.load_weights()
    clock = Clock(sampler.pid)
    samples = sampler.begin(prompts, _sampling(ends), generator=torch.Generator().manual_seed(0)).samples()
    return *clock.stop(), int(samples.lengths.sum())


def _sampling(ends: tuple[int, ...]) -> SamplingConfig:
    return SamplingConfig(num_samples=GROUP, max_new_tokens=NEW_TOKENS, stop_token_ids=ends)


def matmul_floor(policy: Policy, num_prompts: int, floor: Floor) -> float:
    """Return the least seconds of the weights' matrix products: prompts once, then tokens."""
    encoded = floor.pass_of(policy, num_prompts * PROMPT_TOKENS, num_prompts)
    rows = num_prompts * GROUP
    return encoded + (NEW_TOKENS - 1) * floor.pass_of(policy, rows, rows)


def compare(
    *, repeats: int, batches: tuple[int, ...] = BATCHES, with_vllm: bool = True, large: int = 1
) -> dict[str, Any]:
    """Time all, interleaved, after one draw each; return the figures by setting and batch, and the large model's.

    The large model is drawn from `large` times; 0 leaves it out.
    """
    torch.set_num_threads(1)
    floor = Floor.measure()
    with _timers(make_policy(), with_vllm) as (policy, timers):
        found: dict[str, Any] = {
            name: {str(batch): _figures(timers, policy, batch, ends, repeats, floor) for batch in batches}
            for name, ends in SETTINGS.items()
        }
    if large:
        with _timers(make_policy(**LARGE), with_vllm=False) as (policy, timers):
            found["97.5M"] = {str(BATCHES[0]): _figures(timers, policy, BATCHES[0], (), large, floor)}
    return found | {"products": in_use().record(), **floor.figures()}


@contextmanager
def _timers(policy: Policy, with_vllm: bool) -> Iterator[tuple[Policy, dict[str, Timer]]]:
    """Yield what draws from a policy."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        policy.export(Path(folder))
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        timers: dict[str, Timer] = {
            "native": partial(time_native, policy),
            "transformers": partial(time_transformers, model),
        }
        if with_vllm and os.environ.get(PYTHON):
            sampler = stack.enter_context(open_sampler(policy, Resources(sampler="vllm")))
            assert isinstance(sampler, EngineSampler)
            timers["vllm"] = partial(time_vllm, sampler)
        yield policy, timers


def _figures(
    timers: dict[str, Timer], policy: Policy, batch: int, ends: tuple[int, ...], repeats: int, floor: Floor
) -> dict[str, Any]:
    """Return rates by wall clock, and ratios by wall clock and by CPU seconds, of interleaved rounds."""
    prompts = make_prompts(batch // GROUP, policy.vocab_size)
    for timer in timers.values():
        timer(prompts, ends)
    rounds = [{name: timer(prompts, ends) for name, timer in timers.items()} for _ in range(repeats)]
    if not ends:
        assert all(found[name][2] == batch * NEW_TOKENS for found in rounds for name in timers)
    figures: dict[str, Any] = {}
    for name in timers:
        for kind, index in (("second", 0), ("cpu_second", 1)):
            figures[f"{name}_tokens_per_{kind}"] = [round(found[name][2] / found[name][index]) for found in rounds]
        if name != "native":
            for kind, index in (("wall", 0), ("cpu", 1)):
                ratio = statistics.median(
                    found["native"][2] / found["native"][index] * found[name][index] / found[name][2]
                    for found in rounds
                )
                figures[f"native_over_{name}_{kind}"] = round(ratio, 3)
    if not ends:
        least = matmul_floor(policy, len(prompts), floor)
        figures["matmul_floor_tokens_per_second"] = round(batch * NEW_TOKENS / least)
        figures["native_share_of_floor"] = round(least / statistics.median(f["native"][1] for f in rounds), 3)
    return figures


@pytest.mark.benchmark
def test_native_is_at_least_twice_as_fast_as_transformers() -> None:
    """The bar, at every batch, whether responses end early or not."""
    result = compare(repeats=5, with_vllm=False, large=0)
    ratios = [figures["native_over_transformers_cpu"] for name in SETTINGS for figures in result[name].values()]
    assert len(ratios) == len(SETTINGS) * len(BATCHES)
    assert min(ratios) >= 2.0, result


if __name__ == "__main__":
    run_script(__doc__, compare, repeats=5, large=3)
