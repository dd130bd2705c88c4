"""Head and loss at a vocabulary of 152k: log-probabilities, with and without entropies, forward and backward.

python -m tests.benchmarks.gpu.bench_head [--json FILE]
"""

from __future__ import annotations

from components.modeling.packing.packed import Packed
from tests.benchmarks.gpu.figures import Figures, run, seconds_of
from tests.benchmarks.gpu.work import BOTH
from tests.gpu.device import DEVICE, free_memory, peak_memory, sized
from tests.gpu.models import qwen, random_policy, token_rows

ROWS = sized((8192, 16384), (96,))


def measure(found: Figures) -> None:
    """Measure a policy of one layer with and without its head; the difference is the head's."""
    config = qwen("1.5B", layers=1)
    policy = random_policy(config)
    for rows in ROWS:
        packed = Packed.from_sequences(token_rows([rows + 1], policy.vocab_size), DEVICE)
        hidden = policy.target_hidden(packed).detach().requires_grad_()
        policy.target_hidden = lambda packed, h=hidden: h  # type: ignore[method-assign]
        for entropy in (False, True):
            free_memory()

            def work(packed: Packed = packed, hidden=hidden, entropy: bool = entropy) -> None:
                policy.module.zero_grad(set_to_none=True)
                hidden.grad = None
                scores = policy.target_logprobs(packed, entropy=entropy)
                loss = scores.logprobs.sum()
                (loss if scores.entropies is None else loss + scores.entropies.sum()).backward()

            seconds = seconds_of(work)
            name = f"{rows} rows{' with entropies' if entropy else ''}"
            found.add(name, 1e3 * seconds, "ms")
            operations = BOTH * rows * policy.vocab_size * policy.width
            found.add_utilisation(f"{name}: utilisation", operations, seconds, at_least=None if entropy else 40.0)
            if peak_memory():
                found.add(f"{name}: peak memory", peak_memory() / 2**30, "GiB")
        del policy.target_hidden


if __name__ == "__main__":
    run(__doc__, measure)
