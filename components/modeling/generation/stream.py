"""One response, token by token, for people who read along."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from components.modeling.generation.emission import Emitter
from components.modeling.generation.generate import check_request
from components.modeling.generation.sampling_config import SamplingConfig
from components.modeling.models.policy import Policy


def stream(
    policy: Policy, prompt: Sequence[int], config: SamplingConfig, *, generator: torch.Generator
) -> Iterator[int]:
    """Yield the tokens of one response as they are drawn, its end mark included.

    They are those that `generate` draws with the same generator state. Raises InputError for what does not fit the
    model.
    """
    check_request(policy, [prompt], config, None)
    emitter = Emitter(policy, 1, config.model_copy(update={"num_samples": 1}), generator, None, None)
    with torch.inference_mode():
        session = policy.session([prompt], [1], config.max_new_tokens)
        emitter.open(torch.zeros(1, dtype=torch.long, device=policy.device))
        tokens = emitter.emit(session.start())
    for _ in range(config.max_new_tokens - 1):
        yield int(tokens)
        if emitter.can_end and bool(emitter.is_end(tokens).all()):
            return
        with torch.inference_mode():  # not across the yield: the reader's code is not ours
            tokens = emitter.emit(session.step(tokens))
    yield int(tokens)
