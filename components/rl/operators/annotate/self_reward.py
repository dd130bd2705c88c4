"""LaSeR's score: the policy's own judgement of a response, read off a reserved token behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from components.rl.configs import SlotConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from components.rl.batch.batch import Batch


class SelfRewardConfig(SlotConfig):
    """The token, and how its log-probability becomes a score."""

    writes: ClassVar[frozenset[str]] = frozenset({"after_token_s", "self_reward_s", "self_reference_s", "self_scale_s"})
    token: str | int | None = None
    """z_c: a special token that no response holds, by name or id; null for the first of the tokenizer's that neither
    texts nor the chat template use."""
    scale: float = Field(default=0.1, gt=0)
    """beta_v: score of a rise of the log-probability by one nat."""
    reference: float | None = None
    """c_ref: the log-probability that scores 0; null for its mean over the finished responses of the first step. About
    -23 with a vocabulary of 150,000."""


def self_reward(batch: Batch, context: SlotContext, *, config: SelfRewardConfig) -> Batch:
    """Mark `self_reward_s`: scale (log p(token | prompt, response) - reference), before the update, at temperature 1.

    The token stands behind the end of the response. Responses that were cut off have 0. Metrics, over finished ones:
    `self_reward_auroc`, how well the score tells right from wrong responses; `self_reward_f1`, that of calling a
    response right where it is above 1/2, and `always_right_f1`, that of calling every response right.
    Source: Yang et al. 2025, LaSeR (arXiv:2510.14943), and its released code.
    """
    import torch

    from components.rl.batch.batch import RIGHT
    from components.rl.step.states import reserved_logprobs

    token, finished_t = _token(context, config.token), ~batch.any_of_traces(~batch.finished)
    logprob_s = reserved_logprobs(context.policies.trained, batch, token, max_tokens=context.collector.max_tokens)
    if "reference" not in context.memory and bool(finished_t.any()):
        measured = float(batch.of_traces(logprob_s)[finished_t].double().mean())
        context.memory["reference"] = measured if config.reference is None else config.reference
    reference = context.memory.get("reference", config.reference or 0.0)
    score_s = (config.scale * (logprob_s - reference)).masked_fill(~batch.to_rows(finished_t), 0.0)
    scores = batch.of_traces(score_s)[finished_t].tolist()
    right = batch.of_traces(batch.outcomes == RIGHT)[finished_t].tolist()
    context.metrics["self_reference"] = reference
    context.metrics.update(_metrics(scores, right))
    return batch.with_extras(
        after_token_s=torch.full_like(batch.group, token),
        self_reward_s=score_s,
        self_reference_s=torch.full_like(score_s, reference),
        self_scale_s=torch.full_like(score_s, config.scale),
    )


def _metrics(scores: list[float], right: list[bool]) -> dict[str, float]:
    """Return how well scores tell right from wrong responses; nothing that is undefined."""
    import numpy as np

    from components.measure.formulas.ranking import auroc
    from components.measure.formulas.verdicts import f1

    found = {
        "self_reward_f1": f1([score > 0.5 for score in scores], right),
        "always_right_f1": f1([True] * len(right), right),
    }
    if any(right) and not all(right):
        (area,) = auroc(np.array(scores), np.array(right, dtype=float))(np.ones((1, len(right))))
        found["self_reward_auroc"] = float(area)
    return {name: value for name, value in found.items() if value is not None}


def _token(context: SlotContext, given: str | int | None) -> int:
    """Return the id of the reserved token."""
    from components.contract.errors import InputError
    from components.modeling.text.reserved import reserved_token

    policy = context.policies.trained
    if isinstance(given, int):
        if not 0 <= given < policy.vocab_size:
            raise InputError(f"self_reward: token {given} of a vocabulary of {policy.vocab_size}")
        return given
    assert policy.tokenizer is not None
    return reserved_token(policy.tokenizer, policy.ends, given)
