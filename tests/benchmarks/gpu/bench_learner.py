"""One update of RL: GRPO's loss over groups that share their prompts, backward, and AdamW.

python -m tests.benchmarks.gpu.bench_learner [--json FILE]
"""

from __future__ import annotations

import random
from dataclasses import replace

import torch

from components.modeling.packing.packed import Packed
from components.modeling.training.build import build_trainer
from components.modeling.training.training_config import OptimizerConfig
from components.rl.batch.batch import Batch
from components.rl.presets import bind, load_preset
from components.rl.step.learner import Learner, Passes
from tests.benchmarks.gpu.figures import Figures, run, seconds_of
from tests.benchmarks.gpu.work import BOTH, group_pairs
from tests.gpu.device import free_memory, peak_memory, sized
from tests.gpu.models import qwen, random_policy, sizes_of, token_rows
from tests.rl.build import batch_of, context

PROMPTS, GROUP, PROMPT_TOKENS, RESPONSE_TOKENS = sized((16, 16, 256, 512), (2, 4, 6, 8))
PASS = sized(16384, 64)


def made_up(vocabulary: int) -> Batch:
    """Return a batch of groups with rewards, advantages and log-probabilities; lengths differ by up to four times."""
    draw = random.Random(0)
    rewards = [[float(draw.random() < 0.5) for _ in range(GROUP)] for _ in range(PROMPTS)]
    lengths = [[draw.randint(RESPONSE_TOKENS // 4, RESPONSE_TOKENS) for _ in range(GROUP)] for _ in range(PROMPTS)]
    batch = batch_of(rewards, lengths, vocabulary=vocabulary)
    tokens = token_rows([PROMPT_TOKENS] * PROMPTS, vocabulary)
    prompts = tuple(replace(p, tokens=tuple(row)) for p, row in zip(batch.prompts, tokens, strict=True))
    advantages = torch.randn(batch.num_responses, generator=torch.Generator().manual_seed(0))
    batch = replace(batch, prompts=prompts, reference_logprobs=batch.old_logprobs)
    return batch.with_advantages(batch.to_tokens(advantages))


def measure(found: Figures) -> None:
    """Measure an update on the whole batch."""
    free_memory()
    config = qwen("1.5B")
    policy, sizes = random_policy(config), sizes_of(config)
    trainer = build_trainer(policy, OptimizerConfig(peak_learning_rate=1e-6), total_steps=100)
    learner = Learner(policy, trainer, bind(load_preset("grpo").slots), Passes(1, 1, PASS))
    batch, now = made_up(policy.vocab_size), context(max_new_tokens=RESPONSE_TOKENS)
    seconds = seconds_of(lambda: learner.learn([batch], now.settings, lambda bound: now, first_update=0), tries=3)
    groups = batch.responses()
    packed = Packed.from_groups([p.tokens for p in batch.prompts], groups)
    pairs = group_pairs(packed)
    head = sizes.vocab * sizes.width * batch.num_tokens
    operations = BOTH * (sizes.matrices * packed.num_tokens + head)
    operations += BOTH * 2 * sizes.layers * sizes.heads * sizes.head_width * pairs
    found.add("an update", seconds, "s")
    found.add("response tokens", batch.num_tokens / seconds, "tokens/s")
    found.add_utilisation("utilisation", operations, seconds, at_least=35.0)
    if peak_memory():
        found.add("peak memory", peak_memory() / 2**30, "GiB")


if __name__ == "__main__":
    run(__doc__, measure)
