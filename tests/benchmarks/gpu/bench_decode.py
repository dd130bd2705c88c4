"""Native decoding: tokens per second, and the share of the device's bandwidth that reading the weights would take.

python -m tests.benchmarks.gpu.bench_decode [--json FILE]
"""

from __future__ import annotations

import torch

from components.modeling.generation.generate import generate
from components.modeling.generation.sampling_config import SamplingConfig
from tests.benchmarks.gpu.figures import Figures, run, seconds_of
from tests.gpu.device import DEVICE, ON_GPU, free_memory, sized
from tests.gpu.models import qwen, random_policy, token_rows

PROMPTS, PROMPT_TOKENS, NEW_TOKENS = sized((8, 256, 256), (2, 8, 8))
SAMPLES = sized((1, 16, 64), (2,))


def bandwidth() -> float:
    """Return how many bytes a second a copy on the device reads and writes."""
    source = torch.empty(sized(4 << 30, 1 << 24), dtype=torch.uint8, device=DEVICE)
    target = torch.empty_like(source)
    return 2 * source.nbytes / seconds_of(lambda: target.copy_(source))


def measure(found: Figures) -> None:
    """Draw with groups of several sizes; random weights never end by themselves."""
    policy = random_policy({**qwen("1.5B"), "eos_token_id": None})
    prompts = token_rows([PROMPT_TOKENS] * PROMPTS, policy.vocab_size)
    weights = sum(parameter.nbytes for parameter in policy.module.parameters())
    speed = bandwidth() if ON_GPU else 0.0
    for count in SAMPLES:
        free_memory()
        config = SamplingConfig(num_samples=count, max_new_tokens=NEW_TOKENS, max_batch_tokens=1 << 20)
        generator = torch.Generator().manual_seed(0)
        seconds = seconds_of(
            lambda c=config, g=generator: generate(policy, prompts, c, generator=g), warm_up=1, tries=3
        )
        name = f"{PROMPTS * count} rows"
        found.add(f"{name}: tokens", PROMPTS * count * NEW_TOKENS / seconds, "tokens/s")
        found.add(f"{name}: a token of all rows", 1e3 * seconds / NEW_TOKENS, "ms")
        if speed:
            floor = weights / speed * NEW_TOKENS
            least = 25.0 if count == SAMPLES[0] else None
            found.add(f"{name}: reading the weights", 100 * floor / seconds, "% of the time", at_least=least)


if __name__ == "__main__":
    run(__doc__, measure)
