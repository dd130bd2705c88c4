"""A whole step of RL with the native sampler: samples and tokens per second, and the device's idle share of each phase.

    python -m tests.benchmarks.gpu.bench_rl [--json FILE]

Idle is the time of a phase in which no kernel runs, by torch's profiler, in one further step that does not count. The
weights are random, so responses go on to their limit: the work of a step is the same each time.
"""

from __future__ import annotations

import string
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from components.modeling.text.prompting import encode_prompts
from components.modeling.text.tokenizer import train_tokenizer
from components.modeling.text.tokenizer_config import TokenizerConfig
from components.rl.batch.batch import Prompt
from components.rl.params import RLParams
from components.rl.run import build_loop
from components.rl.step.loop import Loop
from components.tasks.item import Item
from tests.benchmarks.gpu.figures import Figures, run
from tests.gpu.device import ON_GPU, free_memory, peak_memory, sized, synchronize
from tests.gpu.models import qwen, random_policy

PROMPTS, GROUP, NEW_TOKENS = sized((16, 16, 512), (2, 4, 8))
STEPS = sized(3, 1)
PUBLISHED = 1562
"""Tokens per second and GPU of NeMo RL 0.4, Llama-8B on 16 H100, on-policy, with vLLM: another model and sampler."""


class Phases:
    """How long the device works and waits in each phase of a step."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.busy: dict[str, float] = defaultdict(float)
        self.profiled = False

    def timed(self, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """Return `work`, timed as a phase, or part of one."""

        def call(*given: Any, **named: Any) -> Any:
            synchronize()
            began = time.perf_counter()
            result = self._profiled(name, lambda: work(*given, **named))
            self.seconds[name] += time.perf_counter() - began
            return result

        return call

    def _profiled(self, name: str, work: Callable[[], Any]) -> Any:
        if not (self.profiled and ON_GPU):
            result = work()
            synchronize()
            return result
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
            result = work()
            synchronize()
        self.busy[name] += sum(event.self_device_time_total for event in seen.key_averages()) / 1e6
        return result


def make_loop(folder: Path) -> Loop:
    """Return a loop on random weights, whose reward about half of the responses earn."""
    tokenizer = train_tokenizer([string.ascii_letters], {}, TokenizerConfig(phrases=False))
    policy = random_policy({**qwen("1.5B"), "eos_token_id": None, "pad_token_id": 0})
    policy.tokenizer = tokenizer
    policy.save(folder)
    items = [Item(id=f"p{i}", domain="A", prompt=f"letter {i}", answer="x", verifier="exact") for i in range(PROMPTS)]
    tokens = encode_prompts(tokenizer, [item.prompt for item in items])
    pool = [Prompt(item, tuple(ids)) for item, ids in zip(items, tokens, strict=True)]
    half = {"name": "pattern", "pattern": f"[{string.ascii_letters[::2]}]"}
    given = {"method": "dr-grpo", "rewards": [half], "prompts_per_step": PROMPTS, "group_size": GROUP}
    given |= {"max_new_tokens": NEW_TOKENS, "steps": 100, "start_kl_every": 0, "dtype": "bfloat16"}
    return build_loop(RLParams.model_validate(given), policy, pool, start=folder, seed=0)


def watch(loop: Loop, phases: Phases) -> None:
    """Time drawing, scoring and learning; verifying and the rest are what is left of a step."""
    loop.sampler.sample = phases.timed("draw", loop.sampler.sample)  # type: ignore[method-assign]
    loop.sampler.scored = phases.timed("score", loop.sampler.scored)  # type: ignore[method-assign]
    loop.learner.learn = phases.timed("learn", loop.learner.learn)  # type: ignore[method-assign]


def measure(found: Figures) -> None:
    """Measure whole steps, then look into one more."""
    free_memory()
    with tempfile.TemporaryDirectory() as folder:
        loop, phases = make_loop(Path(folder)), Phases()
        watch(loop, phases)
        loop.step()
        phases.seconds.clear()
        began = time.perf_counter()
        samples = sum(int(loop.step()["num_samples"]) for _ in range(STEPS))
        synchronize()
        seconds = time.perf_counter() - began
        spent = dict(phases.seconds)
        phases.profiled = True
        phases.seconds.clear()
        loop.step()
    found.add("a step", seconds / STEPS, "s")
    found.add("tokens drawn and learned", samples * NEW_TOKENS / seconds, "tokens/s", at_least=PUBLISHED)
    for name, value in spent.items():
        found.add(f"{name}: share of a step", 100 * value / seconds, "%")
    found.add("verify and the rest: share of a step", 100 * (1 - sum(spent.values()) / seconds), "%", at_most=10)
    for name, busy in phases.busy.items():
        found.add(f"{name}: the device is idle", 100 * (1 - busy / phases.seconds[name]), "% of the phase")
    if peak_memory():
        found.add("peak memory", peak_memory() / 2**30, "GiB")


if __name__ == "__main__":
    run(__doc__, measure)
