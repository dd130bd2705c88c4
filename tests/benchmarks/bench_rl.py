"""Speed of the RL loop against TRL's GRPOTrainer: same model, prompts, verifier, lengths, updates and optimiser; one
thread.

Run as a script for the table and JSON: `python -m tests.benchmarks.bench_rl --json out.json`. Repeats are interleaved,
so that both meet the same machine. A step is rollout, verification and update; set-up and the first steps are outside.
TRL has no KL, no gradient checkpointing, no logging to files, and the fastest of SETTINGS, found at the start of a run.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from components.modeling.loading.load import load_policy, new_policy
from components.modeling.models.model_config import ModelConfig
from components.modeling.models.policy import Policy
from components.modeling.supervised.examples import examples_from_rows
from components.modeling.supervised.trainer import fit
from components.modeling.text.prompting import encode_prompts
from components.modeling.text.tokenizer import train_tokenizer
from components.modeling.training.optimizer import OptimizerConfig
from components.modeling.training.training_config import SupervisedConfig
from components.rl.batch.batch import Prompt
from components.rl.params import RLParams
from components.rl.run import build_loop
from components.runtime.system.products import in_use
from components.tasks.demonstrators.chain_sum_trace import ChainSumTraceConfig, chain_sum_trace
from components.tasks.item import Item
from components.tasks.verify import verify
from tests.benchmarks.floor import TRAINED, Floor
from tests.benchmarks.script import run_script

PROMPTS, GROUP, MAX_NEW_TOKENS = 32, 8, 36
WARM_UP = 2
"""Steps before the clock starts."""
SETTINGS = {
    "one pass": (1, "sdpa"),
    "one pass, eager attention": (1, "eager"),
    "four passes": (4, "sdpa"),
}
"""Settings of TRL that might be its fastest on a CPU: passes of an update, attention."""
QUESTION = "State the final answer to the following arithmetic problem: {} ="


@dataclass(frozen=True)
class Timing:
    """The timed steps of one run."""

    seconds: float
    cpu_seconds: float
    samples: int
    mean_length: float
    reward: float
    trained_share: float = 1.0
    """Share of the response tokens that had a gradient."""

    @property
    def rate(self) -> float:
        """Return samples per second of wall clock."""
        return self.samples / self.seconds


class Silent:
    """Hooks of the supervised trainer that do nothing."""

    def progress(self, done: int, total: int, **metrics: float) -> None:
        """Show nothing."""

    def log(self, step: int, **metrics: float) -> None:
        """Record nothing."""

    def checkpoint(self, step: int, write: Callable[[Path], None]) -> None:
        """Keep nothing."""


def make_items(count: int, seed: int) -> list[Item]:
    """Sums of 2 to 4 one-digit terms, as domain A of the quickstart."""
    rng = random.Random(seed)
    items = []
    for index in range(count):
        parts = [str(rng.randint(1, 9))]
        for _ in range(rng.randint(1, 3)):
            parts += [rng.choice("+-"), str(rng.randint(1, 9))]
        text = " ".join(parts)
        numbers = [int(sign + number) for sign, number in zip(["+", *parts[1::2]], parts[::2], strict=True)]
        items.append(
            Item(
                id=f"sum-{index}",
                domain="A",
                prompt=QUESTION.format(text),
                answer=str(sum(numbers)),
                verifier="numeric",
                data={"metadata": {"expression": text}},
            )
        )
    return items


def make_start(folder: Path, items: list[Item], steps: int) -> Policy:
    """Write the testbed's model (440,000 parameters) after a cold start on demonstrations of mixed quality."""
    rng = random.Random(0)
    rows = []
    for item in items:
        config = ChainSumTraceConfig(step_error_rate=rng.choice((0.0, 0.5)))
        response = chain_sum_trace(item, rng, config=config) if rng.random() < 0.75 else f"<answer>{item.answer}"
        rows.append({"prompt": item.prompt, "response": response, "domain": "A"})
    tokenizer = train_tokenizer([], {"A": [item.prompt for item in items]})
    policy = new_policy(ModelConfig(), tokenizer=tokenizer, seed=0)
    optimizer = OptimizerConfig(name="muon", peak_learning_rate=6e-3, schedule="cosine")
    config = SupervisedConfig(steps=steps, batch_size=64, optimizer=optimizer, checkpoint_every=0)
    fit(policy, examples_from_rows(tokenizer, rows), config, Silent(), seed=0)
    policy.save(folder)
    return policy


def grpo(steps: int, **changes: Any) -> RLParams:
    """Return GRPO without a reference, at the sizes of these benchmarks."""
    given = {
        "method": "grpo",
        "objective": {"name": "ppo_clip", "denominator": "tokens"},
        "regularizers": [],
        "reference": "none",
        "steps": steps,
        "prompts_per_step": PROMPTS,
        "group_size": GROUP,
        "max_new_tokens": MAX_NEW_TOKENS,
    }
    return RLParams.model_validate(given | changes)


def time_ours(start: Path, items: list[Item], steps: int) -> Timing:
    """Run the loop of the rl stage with all its diagnostics, on TRL's settings."""
    policy = load_policy(start)
    pool = [
        Prompt(item, tuple(tokens))
        for item, tokens in zip(items, encode_prompts(policy.tokenizer, [item.prompt for item in items]), strict=True)
    ]
    params = grpo(
        steps + WARM_UP,
        advantages=[{"name": "group_mean_std", "epsilon": 1e-4}],
        optimizer={"peak_learning_rate": 3e-4, "betas": (0.9, 0.999)},
    )
    loop = build_loop(params, policy, pool, start=start, seed=0)
    for _ in range(WARM_UP):
        loop.step()
    wall, cpu = time.perf_counter(), time.process_time()
    rows = [loop.step() for _ in range(steps)]
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    length, reward = (statistics.fmean(row[name] for row in rows) for name in ("length_mean", "reward_mean"))
    samples = steps * PROMPTS * GROUP
    trained = sum(row["num_trained_tokens"] for row in rows) / (samples * length)
    return Timing(wall, cpu, samples, length, reward, trained)


def time_trl(start: Path, items: list[Item], steps: int, setting: str) -> Timing:
    """Run TRL's GRPOTrainer in one of SETTINGS."""
    passes, attention = SETTINGS[setting]
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    marks: dict[str, float] = {}

    class Clock(TrainerCallback):
        def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if state.global_step == WARM_UP:
                marks.update(wall=time.perf_counter(), cpu=time.process_time())

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if state.global_step == WARM_UP + steps:
                marks.update(wall_end=time.perf_counter(), cpu_end=time.process_time())

    def reward(completions: list[str], index: list[int], **_: Any) -> list[float]:
        return [float(verify(items[i], text).right) for i, text in zip(index, completions, strict=True)]

    tokenizer = AutoTokenizer.from_pretrained(start)
    prompts = [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": item.prompt}], tokenize=False, add_generation_prompt=True
        )
        for item in items
    ]
    with tempfile.TemporaryDirectory() as folder:
        settings = GRPOConfig(
            output_dir=folder,
            max_steps=steps + WARM_UP,
            per_device_train_batch_size=PROMPTS * GROUP // passes,
            gradient_accumulation_steps=passes,
            num_generations=GROUP,
            max_completion_length=MAX_NEW_TOKENS,
            temperature=1.0,
            beta=0.0,
            loss_type="dapo",
            learning_rate=3e-4,
            warmup_steps=5,
            lr_scheduler_type="constant_with_warmup",
            optim="adamw_torch_fused",
            max_grad_norm=1.0,
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            logging_steps=1,
            report_to="none",
            save_strategy="no",
            disable_tqdm=True,
            seed=0,
        )
        trainer = GRPOTrainer(
            model=AutoModelForCausalLM.from_pretrained(start, dtype=torch.float32, attn_implementation=attention),
            processing_class=tokenizer,
            reward_funcs=reward,
            args=settings,
            train_dataset=Dataset.from_dict({"prompt": prompts, "index": list(range(len(items)))}),
            callbacks=[Clock()],
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    rows = [row for row in trainer.state.log_history if "completions/mean_length" in row][WARM_UP:]
    length, mean = (statistics.fmean(row[name] for row in rows) for name in ("completions/mean_length", "reward"))
    seconds, cpu_seconds = marks["wall_end"] - marks["wall"], marks["cpu_end"] - marks["cpu"]
    return Timing(seconds, cpu_seconds, steps * PROMPTS * GROUP, length, mean)


def matmul_floor(
    policy: Policy, floor: Floor, *, prompt_tokens: float, mean_length: float, trained_share: float
) -> float:
    """Return the least seconds per step of the weights' matrix products.

    Rollout: prompts once, then one product per position over the rows that still run. Update: forward and two backward
    over prompts and responses, for the share of responses that have a gradient.
    """
    rows = PROMPTS * GROUP
    drawn = floor.pass_of(policy, prompt_tokens, PROMPTS) + mean_length * floor.pass_of(policy, rows, rows)
    targets = trained_share * rows * mean_length
    return drawn + floor.pass_of(policy, targets + trained_share * prompt_tokens, targets, TRAINED)


def compare(*, steps: int, repeats: int, start_steps: int = 250) -> dict[str, Any]:
    """Time both, interleaved; return the figures."""
    torch.set_num_threads(1)
    items = make_items(2000, seed=1)
    with tempfile.TemporaryDirectory() as folder:
        start = Path(folder)
        policy = make_start(start, make_items(4000, seed=2), start_steps)
        time_ours(start, items, 1)
        tried = {name: time_trl(start, items, 3, name).cpu_seconds for name in SETTINGS}
        best = min(tried, key=tried.__getitem__)
        pairs = [(time_ours(start, items, steps), time_trl(start, items, steps, best)) for _ in range(repeats)]
        tokens = encode_prompts(policy.tokenizer, [item.prompt for item in items])
        ours, theirs = ([pair[side] for pair in pairs] for side in (0, 1))
        floor = Floor.measure()
        least = matmul_floor(
            policy,
            floor,
            prompt_tokens=PROMPTS * statistics.fmean(map(len, tokens)),
            mean_length=ours[0].mean_length,
            trained_share=ours[0].trained_share,
        )
    ratios = [mine.rate / other.rate for mine, other in pairs]
    step_seconds = statistics.median(timing.cpu_seconds for timing in ours) / steps
    return {
        "steps": steps,
        "samples_per_step": PROMPTS * GROUP,
        "ours_samples_per_second": [round(timing.rate) for timing in ours],
        "trl_samples_per_second": [round(timing.rate) for timing in theirs],
        "ratio": [round(ratio, 3) for ratio in ratios],
        "ratio_median": round(statistics.median(ratios), 3),
        "cpu_ratio_median": round(statistics.median(b.cpu_seconds / a.cpu_seconds for a, b in pairs), 3),
        "matmul_floor_samples_per_second": round(PROMPTS * GROUP / least),
        "share_of_floor": round(least / step_seconds, 3),
        **floor.figures(),
        "products": in_use().record(),
        "trl_setting": best,
        "trl_seconds_per_step": {name: round(seconds / 3, 2) for name, seconds in tried.items()},
        "trained_share": round(ours[0].trained_share, 3),
        "mean_length": [round(timing.mean_length, 2) for timing in (ours[0], theirs[0])],
        "reward": [round(timing.reward, 3) for timing in (ours[0], theirs[0])],
    }


@pytest.mark.benchmark
def test_rl_is_at_least_three_times_as_fast_as_trl() -> None:
    """The bar, with both loops seeing responses of one length and like rewards."""
    result = compare(steps=10, repeats=3)
    assert result["mean_length"][0] == pytest.approx(result["mean_length"][1], rel=0.1), result
    assert result["reward"][0] == pytest.approx(result["reward"][1], abs=0.1), result
    assert result["ratio_median"] >= 3.0, result


if __name__ == "__main__":
    run_script(__doc__, compare, steps=10, repeats=5)
