"""SFT: tokens per second and model FLOP utilisation, packs of 4k to 16k tokens, shapes of 1.5B and 7B.

    python -m tests.benchmarks.gpu.bench_sft [--json FILE]

A step is what the sft stage does for each batch: packing, forward, backward and AdamW on float32 master weights. The 7B
has the depth that fits one GPU with its optimiser (10 of 28 layers); its utilisation counts those.
"""

from __future__ import annotations

from components.modeling.supervised.loss import accumulate_gradients
from components.modeling.training.build import build_trainer
from components.modeling.training.training_config import OptimizerConfig
from tests.benchmarks.gpu.figures import Figures, run, seconds_of
from tests.benchmarks.gpu.work import flops
from tests.gpu.device import free_memory, peak_memory, sized
from tests.gpu.models import qwen, random_policy, sizes_of
from tests.gpu.supervised import examples

MODELS = sized((("1.5B", None), ("7B", 10)), (("tiny", None),))
PACKS = sized((4096, 8192, 16384), (64, 128))
LEAST = 45.0
"""% of peak that is aimed at, for packs of 8k tokens and more."""


def measure_model(found: Figures, name: str, layers: int | None) -> None:
    """Measure one model with packs of each size."""
    from components.contract.backends import Backends

    free_memory()
    config = qwen(name, layers=layers)
    policy, sizes = random_policy(config), sizes_of(config)
    trainer = build_trainer(policy, OptimizerConfig(), total_steps=100, backends=Backends(recompute=name == "7B"))
    for pack in PACKS:
        rows = examples(16, policy.vocab_size, longest=pack // 4)
        lengths = [len(row.tokens) for row in rows]

        def step(rows: list = rows, pack: int = pack) -> None:
            accumulate_gradients(trainer, rows, max_tokens=pack)
            trainer.step(0)

        free_memory()
        seconds = seconds_of(step)
        called = f"{name}, packs of {pack}"
        found.add(f"{called}: tokens", sum(lengths) / seconds, "tokens/s")
        least = LEAST if pack >= 8192 else None
        found.add_utilisation(f"{called}: utilisation", flops(sizes, lengths), seconds, at_least=least)
        if peak_memory():
            found.add(f"{called}: peak memory", peak_memory() / 2**30, "GiB")


def measure(found: Figures) -> None:
    """Measure all models."""
    for name, layers in MODELS:
        measure_model(found, name, layers)


if __name__ == "__main__":
    run(__doc__, measure)
