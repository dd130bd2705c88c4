"""RLP's reward: how much a thought raises the log-probability of the text that follows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from components.contract.errors import InputError
from components.rl.configs import RewardConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.modeling.models.policy import Policy
    from components.rl.batch.batch import Batch


class InformationGainConfig(RewardConfig):
    """What is predicted, the baseline, and how a thought is closed."""

    decay: float = Field(default=0.999, ge=0, lt=1)
    """Share of the old weights kept at each step by the moving average, which predicts without a thought."""
    horizon: int = Field(default=1, ge=1)
    """Tokens of the true text to predict; the reward uses their mean log-probability."""
    close: str = "</think>"
    """Text between a thought and the true text."""
    thoughts: Literal["own", "other"] = "own"
    """other: each response is scored with a thought about another prompt, for comparison."""


def information_gain(batch: Batch, context: SlotContext, *, config: InformationGainConfig) -> Tensor:
    """Return [S]: log p_trained(next | prompt, thought) - log p_average(next | prompt).

    A response is the thought, without its end token; the true text is `data["next"]` of the prompt's item, or its
    answer. Both log-probabilities are means over the first `horizon` tokens, at temperature 1, without gradients.
    Source: Hatamizadeh et al. 2025, RLP (arXiv:2510.01265); a horizon above 1 is an addition.
    """
    batch.require_single("reward information_gain")
    trained, average = context.policies.trained, context.policies.average(config.decay)
    max_tokens = context.collector.max_tokens
    (close,) = _encode(trained, [config.close])
    texts = [str(prompt.item.data.get("next", prompt.item.answer)) for prompt in batch.prompts]
    nexts = [tokens[: config.horizon] for tokens in _encode(trained, texts)]
    if not all(nexts):
        raise InputError("reward information_gain: a prompt has no text that follows it (data.next, or its answer)")
    prompts = [list(prompt.tokens) for prompt in batch.prompts]
    thoughts = [row[:-1] if row[-1] in trained.eos_ids else row for group in batch.responses() for row in group]
    if config.thoughts == "other":
        thoughts = thoughts[len(thoughts) // 2 :] + thoughts[: len(thoughts) // 2]
    pairs = list(zip(batch.group.tolist(), thoughts, strict=True))
    contexts = [[*prompts[group], *thought, *close] for group, thought in pairs]
    with_s = mean_logprobs(trained, contexts, [nexts[group] for group, _ in pairs], max_tokens=max_tokens)
    without_p = mean_logprobs(average, prompts, nexts, max_tokens=max_tokens)
    return with_s - without_p[batch.group]


def mean_logprobs(
    policy: Policy, contexts: Sequence[list[int]], nexts: Sequence[list[int]], *, max_tokens: int
) -> Tensor:
    """Return one value per pair, on the CPU: the mean log-probability of the next tokens after the context."""
    import torch

    from components.modeling.packing.batching import micro_batches
    from components.modeling.packing.packed import Packed

    pairs = list(zip(contexts, nexts, strict=True))
    found = torch.empty(len(pairs))
    with torch.no_grad():
        for rows in micro_batches([len(before) + len(after) for before, after in pairs], max_tokens):
            chosen = [pairs[row] for row in rows]
            masks = [[False] * len(before) + [True] * len(after) for before, after in chosen]
            packed = Packed.from_sequences([before + after for before, after in chosen], policy.device, masks=masks)
            parts = policy.target_logprobs(packed).logprobs.cpu().split([len(after) for _, after in chosen])
            found[torch.tensor(rows)] = torch.stack([part.mean() for part in parts])
    return found


def _encode(policy: Policy, texts: Sequence[str]) -> list[list[int]]:
    """Return token ids of plain text, without special tokens."""
    assert policy.tokenizer is not None
    return [policy.tokenizer.encode(text, add_special_tokens=False) for text in texts]
