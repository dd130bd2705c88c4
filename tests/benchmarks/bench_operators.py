"""What the operator layer costs: the RL step of the rl stage against a GRPO loop written out by hand.

Both run in one process, a step of one and then the same step of the other, in turns, from the same model with the same
seed. They do the same arithmetic: their weights must be equal bit for bit at the end. The layer is everything that the
loop by hand does without: slots, the typed batch, ledger, record and all diagnostics.

Whatever else the machine does only ever adds time, so each step counts as the fastest of several copies of a loop that
do exactly the same. Copies of the loop by hand run as a control too: their ratio is what is left of the noise.

Run as a script for the table and JSON: `python -m tests.benchmarks.bench_operators --json out.json`.
"""

from __future__ import annotations

import math
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from components.modeling.generation.generate import generate
from components.modeling.generation.sampling_config import SamplingConfig
from components.modeling.loading.load import load_policy
from components.modeling.packing.batching import micro_batches
from components.modeling.packing.packed import Packed
from components.modeling.text.prompting import decode_response, encode_prompts
from components.modeling.training.optimizer import build_optimizer
from components.modeling.training.training_config import OptimizerConfig
from components.rl.batch.batch import Prompt
from components.rl.configs import NoConfig
from components.rl.operators.samplers.epoch_shuffle import epoch_shuffle
from components.rl.run import build_loop
from components.rl.step.loop import Loop
from components.tasks.verify import verify
from tests.benchmarks.bench_rl import GROUP, MAX_NEW_TOKENS, PROMPTS, WARM_UP, grpo, make_items, make_start
from tests.benchmarks.script import run_script
from tests.rl.build import context

RATE, MICRO_BATCH_TOKENS, EPSILON, CLIP = 3e-4, 16384, 1e-6, 0.2


class ByHand:
    """GRPO with the mean over tokens, on policy, as one function over plain tensors."""

    def __init__(self, start: Path, pool: list[Prompt], steps: int) -> None:
        self.policy, self.pool = load_policy(start), pool
        config = OptimizerConfig(peak_learning_rate=RATE, warmup_steps=5)
        rows = self.policy.row_blocks()
        self.optimizer = build_optimizer(self.policy.module, config, total_steps=steps, row_blocks=rows)
        self.generator = torch.Generator().manual_seed(0)
        self.order = context()  # only the order of prompts: its memory counts what was drawn
        self.steps_done = 0

    def step(self) -> float:
        """Sample, verify, learn; return the mean reward."""
        chosen = [self.pool[i] for i in epoch_shuffle(self.pool, PROMPTS, self.order, config=NoConfig())]
        sampling = SamplingConfig(num_samples=GROUP, max_new_tokens=MAX_NEW_TOKENS)
        prompts = [prompt.tokens for prompt in chosen]
        samples = generate(self.policy, prompts, sampling, generator=self.generator)
        responses = samples.responses()
        known: dict[tuple[int, str], float] = {}
        rewards = []
        for row, tokens in enumerate(responses):
            key = (row // GROUP, decode_response(self.policy.tokenizer, tokens, self.policy.ends))
            if key not in known:
                known[key] = float(verify(chosen[key[0]].item, key[1]).right)
            rewards.append(known[key])
        reward = torch.tensor(rewards, dtype=torch.float64).view(PROMPTS, GROUP)
        centred = (reward - reward.mean(1, keepdim=True)).float()
        spread = (centred.double().square().sum(1, keepdim=True) / (GROUP - 1)).sqrt().float()
        self._learn(chosen, samples.grouped(), samples.logprobs, centred / (spread + EPSILON))
        return float(reward.mean())

    def _learn(
        self, chosen: list[Prompt], grouped: list[list[list[int]]], old: torch.Tensor, advantage: torch.Tensor
    ) -> None:
        weight = 1.0 / sum(len(response) for group in grouped for response in group)
        active = [p for p in range(PROMPTS) if bool((advantage[p] != 0).any())]
        costs = [len(chosen[p].tokens) + sum(map(len, grouped[p])) for p in active]
        for part in micro_batches(costs, MICRO_BATCH_TOKENS):
            places = [active[i] for i in part]
            packed = Packed.from_groups([chosen[p].tokens for p in places], [grouped[p] for p in places])
            logprobs = self.policy.target_logprobs(packed).logprobs
            lengths = torch.tensor([len(response) for p in places for response in grouped[p]])
            rows = torch.cat([torch.arange(p * GROUP, (p + 1) * GROUP) for p in places])
            mask = torch.arange(old.shape[1]) < lengths.unsqueeze(1)
            gain = advantage[places].flatten().repeat_interleave(lengths)
            ratio = torch.exp(logprobs - old[rows][mask])
            loss = -torch.minimum(ratio * gain, ratio.clamp(1 - CLIP, 1 + CLIP) * gain)
            (loss * weight).sum().backward()
        if active:
            self.optimizer.step(self.steps_done)
        self.steps_done += 1


def layered(start: Path, pool: list[Prompt], steps: int) -> Loop:
    """Return the loop of the rl stage with the same settings and all its diagnostics."""
    params = grpo(
        steps, start_kl_every=0, optimizer={"peak_learning_rate": RATE}, micro_batch_tokens=MICRO_BATCH_TOKENS
    )
    return build_loop(params, load_policy(start), pool, start=start, seed=0)


def compare(*, steps: int, copies: int = 3, start_steps: int = 150) -> dict[str, Any]:
    """Run all in turns and return seconds of processor time and wall clock per step, and their ratios."""
    torch.set_num_threads(1)
    items = make_items(512, seed=0)
    total = steps + WARM_UP
    with tempfile.TemporaryDirectory() as folder:
        start = Path(folder)
        tokenizer = make_start(start, items, start_steps).tokenizer
        tokens = encode_prompts(tokenizer, [item.prompt for item in items])
        pool = [Prompt(item, tuple(ids)) for item, ids in zip(items, tokens, strict=True)]
        hands = [ByHand(start, pool, total) for _ in range(2 * copies)]
        loops = [layered(start, pool, total) for _ in range(copies)]
        turns: list[tuple[str, Callable[[], Any]]] = [("layered", loop.step) for loop in loops]
        turns += [(name, hand.step) for name, hand in zip(["by hand", "control"] * copies, hands, strict=True)]
        best = {name: [(math.inf, math.inf)] * total for name, _ in turns}
        for number in range(total):
            random.Random(number).shuffle(turns)  # none always follows the same one
            for name, step in turns:
                wall, cpu = time.perf_counter(), time.process_time()
                step()
                found = (time.process_time() - cpu, time.perf_counter() - wall)
                best[name][number] = tuple(map(min, best[name][number], found))
    pairs = zip(hands[0].policy.state().values(), loops[0].policies.trained.state().values(), strict=True)
    result: dict[str, Any] = {"steps": steps, "equal_weights": all(torch.equal(a, b) for a, b in pairs)}
    for index, clock in enumerate(("cpu", "wall")):
        sums = {name: sum(seconds[index] for seconds in rows[WARM_UP:]) for name, rows in best.items()}
        result |= {f"{clock} seconds per step, {name}": round(value / steps, 5) for name, value in sums.items()}
        result |= {f"{clock} ratio, {name}": round(sums[name] / sums["by hand"], 4) for name in ("layered", "control")}
    return result


@pytest.mark.benchmark
def test_the_operator_layer_costs_less_than_three_percent() -> None:
    """Processor time, which other processes on the machine disturb least."""
    result = compare(steps=30)
    assert result["equal_weights"], result
    assert result["cpu ratio, layered"] < 1.03, result


if __name__ == "__main__":
    run_script(__doc__, compare, steps=30)
