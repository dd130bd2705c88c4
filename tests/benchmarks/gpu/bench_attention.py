"""Attention alone, forward and backward: packs of sequences and of groups, against torch's own on one long sequence.

python -m tests.benchmarks.gpu.bench_attention [--json FILE]
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from components.modeling.native import decoder
from components.modeling.packing.packed import Packed
from tests.benchmarks.gpu.figures import Figures, run, seconds_of
from tests.benchmarks.gpu.work import BOTH, group_pairs
from tests.gpu.device import DEVICE, free_memory, sized
from tests.gpu.models import qwen, sizes_of, token_rows

TOKENS = sized(16384, 128)
SIZES = sizes_of(qwen("1.5B"))


def packs() -> dict[str, Packed]:
    """Return packs of TOKENS tokens or about as many."""
    unit = TOKENS // 16
    rows = {
        "one sequence": [TOKENS],
        "sequences of a quarter": [TOKENS // 4] * 4,
        "unequal sequences": [unit * n for n in (1, 2, 3, 4, 6)],
    }
    found = {name: Packed.from_sequences(token_rows(lengths, 256), DEVICE) for name, lengths in rows.items()}
    prompts, answers = token_rows([unit] * 2, 256), token_rows([unit] * 7, 256)
    found["2 groups of 7"] = Packed.from_groups(prompts, [answers, answers], DEVICE)
    return found


def both_ways(qkv: torch.Tensor, attend: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[], None]:
    """Return what computes attention and its gradients."""
    grad = torch.randn_like(attend(qkv).detach())

    def work() -> None:
        qkv.grad = None
        attend(qkv).backward(grad)

    return work


def torchs_own(qkv: torch.Tensor) -> torch.Tensor:
    """Return torch's attention of all tokens as one sequence."""
    heads = qkv.unflatten(1, (-1, SIZES.head_width)).transpose(0, 1).unsqueeze(0)
    query, key, value = heads.split((SIZES.heads, SIZES.kv_heads, SIZES.kv_heads), dim=1)
    shared = SIZES.heads // SIZES.kv_heads
    key, value = (tensor.repeat_interleave(shared, dim=1) for tensor in (key, value))
    return torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)


def measure(found: Figures) -> None:
    """Measure each pack."""
    dtype = sized(torch.bfloat16, torch.float32)
    rate = {}
    for name, packed in packs().items():
        free_memory()
        qkv = torch.randn(packed.num_tokens, SIZES.projections, device=DEVICE, dtype=dtype, requires_grad=True)
        plan = packed.attention
        seconds = seconds_of(both_ways(qkv, lambda x, p=plan: decoder.attend(x, p, SIZES.heads, SIZES.kv_heads)))
        operations = BOTH * 2 * SIZES.heads * SIZES.head_width * group_pairs(packed)
        rate[name] = operations / seconds / 1e12
        found.add(f"{name} of {packed.num_tokens}", 1e3 * seconds, "ms a layer")
        found.add(f"{name}: rate", rate[name], "TFLOP/s", at_least=200 if name == "one sequence" else None)
    qkv = torch.randn(TOKENS, SIZES.projections, device=DEVICE, dtype=dtype, requires_grad=True)
    own = seconds_of(both_ways(qkv, torchs_own))
    reference = BOTH * 2 * SIZES.heads * SIZES.head_width * TOKENS**2 / 2 / own / 1e12
    found.add("torch's own, one sequence", 1e3 * own, "ms a layer")
    found.add("ours by torch's own", rate["one sequence"] / reference, "times", at_least=0.9)


if __name__ == "__main__":
    run(__doc__, measure)
