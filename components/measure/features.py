"""Features of responses: hidden states of a policy, for measures of how different responses are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from components.measure.intervals import Floats

if TYPE_CHECKING:
    from components.modeling.models.policy import Policy

MAX_TOKENS = 16384
"""Most tokens of one forward pass."""


def mean_hidden(policy: Policy, pairs: Sequence[tuple[str, str]]) -> list[Floats]:
    """Return for each (prompt, response) the mean [D] of the last hidden states at its tokens, the end's too.

    Each distinct pair is passed through once. A response that does not fit the model has zeros.
    """
    import torch

    from components.modeling.packing.batching import micro_batches
    from components.modeling.packing.packed import Packed
    from components.modeling.text.prompting import encode_examples

    distinct = list(dict.fromkeys(pairs))
    encoded = encode_examples(policy.tokenizer, distinct, policy.ends)
    fitting = [at for at, one in enumerate(encoded) if len(one.tokens) <= policy.max_positions]
    means: dict[int, Floats] = {}
    with torch.no_grad():
        for chosen in micro_batches([len(encoded[at].tokens) for at in fitting], MAX_TOKENS):
            rows = [fitting[place] for place in chosen]
            masks = [encoded[at].loss_mask for at in rows]
            sequences = [encoded[at].tokens for at in rows]
            packed = Packed.from_sequences(sequences, policy.device, masks=masks, keep_last=True)
            for at, mean in zip(rows, policy.features(packed).double().cpu(), strict=True):
                means[at] = mean.numpy()
    width = next(iter(means.values())).shape if means else (1,)
    found = {pair: means.get(at, np.zeros(width)) for at, pair in enumerate(distinct)}
    return [found[pair] for pair in pairs]
