"""Speed of on-policy distillation against TRL's GKDTrainer: same student, teacher, prompts, lengths, divergence,
updates and optimiser; one thread.

Run as a script for the table and JSON: `python -m tests.benchmarks.bench_distill --json out.json`. Repeats are
interleaved, so that both meet the same machine. A step is drawing and update; set-up and the first steps are outside.
Ours also verifies every response and writes its diagnostics, which TRL does not. TRL draws all responses from the
student (`lmbda=1`), logs to no file, and has the faster of two kinds of attention, found at the start of a run.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from components.contract.job import Resources
from components.modeling.loading.load import load_policy, new_policy
from components.modeling.models.model_config import ModelConfig
from components.modeling.models.policy import Policy
from components.modeling.serving.local import LocalModel
from components.modeling.supervised.examples import examples_from_rows
from components.modeling.supervised.trainer import fit
from components.modeling.text.prompting import encode_prompts
from components.modeling.training.optimizer import OptimizerConfig
from components.modeling.training.training_config import SupervisedConfig
from components.rl.batch.batch import Prompt
from components.rl.params import RLParams
from components.rl.run import build_loop
from components.runtime.system.products import in_use
from components.tasks.demonstrators.chain_sum_trace import ChainSumTraceConfig, chain_sum_trace
from components.tasks.item import Item
from tests.benchmarks.bench_rl import MAX_NEW_TOKENS, WARM_UP, Silent, make_items, make_start
from tests.benchmarks.script import run_script

ROWS = 64
"""Prompts of a step, with one response each, as GKDTrainer draws."""
LEARNING_RATE, BETA = 3e-4, 0.5
TEACHER = ModelConfig(width=192, layers=4, heads=6, mlp_width=576)
"""1.7 million parameters, four times the student's."""
ATTENTION = ("sdpa", "eager")


@dataclass(frozen=True)
class Timing:
    """The timed steps of one run."""

    seconds: float
    cpu_seconds: float
    mean_length: float
    divergences: tuple[float, ...]
    """Per token, of each step from the very first."""


def make_teacher(folder: Path, student: Policy, items: list[Item], steps: int) -> None:
    """Write a larger model with the student's tokenizer, trained on right demonstrations."""
    rng, config = random.Random(1), ChainSumTraceConfig()
    rows = [{"prompt": i.prompt, "response": chain_sum_trace(i, rng, config=config), "domain": "A"} for i in items]
    policy = new_policy(TEACHER, tokenizer=student.tokenizer, seed=1)
    optimizer = OptimizerConfig(name="muon", peak_learning_rate=6e-3, schedule="cosine")
    supervised = SupervisedConfig(steps=steps, batch_size=64, optimizer=optimizer, checkpoint_every=0)
    fit(policy, examples_from_rows(student.tokenizer, rows), supervised, Silent(), seed=0)
    policy.save(folder)


def time_ours(start: Path, teacher: Path, items: list[Item], steps: int) -> Timing:
    """Run the loop of the rl stage with all its diagnostics."""
    policy = load_policy(start)
    tokens = encode_prompts(policy.tokenizer, [item.prompt for item in items])
    pool = [Prompt(item, tuple(ids)) for item, ids in zip(items, tokens, strict=True)]
    params = RLParams.model_validate(
        {
            "method": "reinforce",
            "objective": {"name": "distill", "divergence": "jsd", "beta": BETA},
            "steps": steps + WARM_UP,
            "prompts_per_step": ROWS,
            "group_size": 1,
            "max_new_tokens": MAX_NEW_TOKENS,
            "start_kl_every": 0,
            "optimizer": {"peak_learning_rate": LEARNING_RATE, "betas": (0.9, 0.999), "warmup_steps": 0},
        }
    )
    model = LocalModel("teacher", teacher, device="cpu", dtype="float32", resources=Resources())
    loop = build_loop(params, policy, pool, start=start, seed=0, further={"teachers": [model]})
    rows = [loop.step() for _ in range(WARM_UP)]
    wall, cpu = time.perf_counter(), time.process_time()
    rows += [loop.step() for _ in range(steps)]
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    length = statistics.fmean(row["length_mean"] for row in rows[WARM_UP:])
    return Timing(wall, cpu, length, tuple(row["teacher_divergence"] for row in rows))


def time_trl(start: Path, teacher: Path, items: list[Item], steps: int, attention: str) -> Timing:
    """Run TRL's GKDTrainer."""
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback, TrainerCallback
    from trl.experimental.gkd import GKDConfig, GKDTrainer

    marks: dict[str, float] = {}
    lengths: list[float] = []
    divergences: list[float] = []

    class Clock(TrainerCallback):
        def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if state.global_step == WARM_UP:
                marks.update(wall=time.perf_counter(), cpu=time.process_time())

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if state.global_step == WARM_UP + steps:
                marks.update(wall_end=time.perf_counter(), cpu_end=time.process_time())

    class Noting(GKDTrainer):
        """Notes lengths, and divergences per drawn token: its own loss is per token of the dataset's rows."""

        @staticmethod
        def generalized_jsd_loss(*args: Any, **kwargs: Any) -> Any:
            kwargs.pop("num_items_in_batch", None)
            loss = GKDTrainer.generalized_jsd_loss(*args, **kwargs)  # by its own tokens, as ours is
            lengths.append(float((kwargs["labels"] != -100).sum()) / ROWS)
            divergences.append(float(loss.detach()))
            return loss

    def loaded(folder: Path) -> Any:
        return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation=attention)

    said = [{"role": "user"}, {"role": "assistant"}]
    rows = [[said[0] | {"content": item.prompt}, said[1] | {"content": item.answer}] for item in items]
    with tempfile.TemporaryDirectory() as folder:
        settings = GKDConfig(
            output_dir=folder,
            max_steps=steps + WARM_UP,
            per_device_train_batch_size=ROWS,
            max_new_tokens=MAX_NEW_TOKENS,
            temperature=1.0,
            lmbda=1.0,
            beta=BETA,
            learning_rate=LEARNING_RATE,
            lr_scheduler_type="constant",
            optim="adamw_torch_fused",
            max_grad_norm=1.0,
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            logging_strategy="no",
            report_to="none",
            save_strategy="no",
            disable_tqdm=True,
            seed=0,
        )
        trainer = Noting(
            model=loaded(start),
            teacher_model=loaded(teacher),
            processing_class=AutoTokenizer.from_pretrained(start),
            args=settings,
            train_dataset=Dataset.from_dict({"messages": rows}),
            callbacks=[Clock()],
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    seconds, cpu_seconds = marks["wall_end"] - marks["wall"], marks["cpu_end"] - marks["cpu"]
    return Timing(seconds, cpu_seconds, statistics.fmean(lengths[WARM_UP:]), tuple(divergences))


def compare(*, steps: int, repeats: int, start_steps: int = 150) -> dict[str, Any]:
    """Time both, interleaved; return the figures."""
    torch.set_num_threads(1)
    items = make_items(2000, seed=1)
    with tempfile.TemporaryDirectory() as folder:
        start, teacher = Path(folder) / "start", Path(folder) / "teacher"
        student = make_start(start, make_items(4000, seed=2), start_steps)
        make_teacher(teacher, student, make_items(4000, seed=3), start_steps)
        time_ours(start, teacher, items, 1)
        tried = {name: time_trl(start, teacher, items, 3, name).cpu_seconds for name in ATTENTION}
        best = min(tried, key=tried.__getitem__)
        pairs = [
            (time_ours(start, teacher, items, steps), time_trl(start, teacher, items, steps, best))
            for _ in range(repeats)
        ]
    ours, theirs = ([pair[side] for pair in pairs] for side in (0, 1))
    ratios = [other.seconds / mine.seconds for mine, other in pairs]
    return {
        "steps": steps,
        "rows_per_step": ROWS,
        "ours_rows_per_second": [round(steps * ROWS / timing.seconds) for timing in ours],
        "trl_rows_per_second": [round(steps * ROWS / timing.seconds) for timing in theirs],
        "ratio": [round(ratio, 3) for ratio in ratios],
        "ratio_median": round(statistics.median(ratios), 3),
        "cpu_ratio_median": round(statistics.median(b.cpu_seconds / a.cpu_seconds for a, b in pairs), 3),
        "products": in_use().record(),
        "trl_attention": best,
        "trl_seconds_per_step": {name: round(seconds / 3, 2) for name, seconds in tried.items()},
        "mean_length": [round(timing.mean_length, 2) for timing in (ours[0], theirs[0])],
        "first_divergence": [round(timing.divergences[0], 4) for timing in (ours[0], theirs[0])],
        "last_divergence": [round(timing.divergences[-1], 4) for timing in (ours[0], theirs[0])],
    }


@pytest.mark.benchmark
def test_distillation_is_at_least_half_as_fast_again_as_trl() -> None:
    """The bar, with both beginning at one divergence, ending near each other, and drawing responses of one length."""
    pytest.importorskip("trl.experimental.gkd")
    result = compare(steps=10, repeats=3)
    assert result["mean_length"][0] == pytest.approx(result["mean_length"][1], rel=0.1), result
    assert result["first_divergence"][0] == pytest.approx(result["first_divergence"][1], rel=0.15), result
    assert result["last_divergence"][0] == pytest.approx(result["last_divergence"][1], rel=0.3), result
    assert result["cpu_ratio_median"] >= 1.5, result


if __name__ == "__main__":
    run_script(__doc__, compare, steps=10, repeats=5)
