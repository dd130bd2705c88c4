"""The answer that most responses of a group give counts as right: no labels."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from components.rl.configs import RewardConfig
from components.rl.step.context import SlotContext
from components.tasks.answers import extract_answer
from components.tasks.blocks import Grammar, TagName, blocks
from components.tasks.verifiers.exact import ExactConfig, normalise

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class MajorityVoteConfig(RewardConfig):
    """Which responses vote, and which answers are the same."""

    tag: TagName | None = "answer"
    """Only responses with this tag vote; none: all whose final answer is not empty."""
    same: ExactConfig = ExactConfig()
    """What counts as the same answer."""


def majority_vote(batch: Batch, context: SlotContext, *, config: MajorityVoteConfig) -> Tensor:
    """Return [S]: 1 where the answer is the most frequent one of its group, else 0; a response without one gets 0.

    Of answers that are equally frequent the one seen first counts. A trajectory votes once.
    Metric: `majority_share`, the mean share of the votes that the majority has.

    Source: Wei et al. 2025, Unsupervised Post-Training via GRPO (MM-UPT, arXiv:2505.22453); in text Zuo et al. 2025,
    TTRL (arXiv:2504.16084).
    """
    import torch

    from components.rl.batch.texts import verified_texts

    texts, groups = verified_texts(batch), batch.group.tolist()
    known = {text: answer_of(text, config) for text in set(texts)}
    votes: list[Counter[str]] = [Counter() for _ in batch.prompts]
    for row in batch.last_rows.tolist():
        if known[texts[row]]:
            votes[groups[row]][known[texts[row]]] += 1
    winners = [max(counts, key=counts.__getitem__) if counts else None for counts in votes]
    shares = [counts[winner] / counts.total() for counts, winner in zip(votes, winners, strict=True) if winner]
    if shares:
        context.metrics["majority_share"] = sum(shares) / len(shares)
    return torch.tensor([float(known[text] == winners[group]) for text, group in zip(texts, groups, strict=True)])


def answer_of(text: str, config: MajorityVoteConfig) -> str:
    """Return the answer of a response in the form that is compared; empty if it gives none."""
    if config.tag is not None and not blocks(text, Grammar(tags=(config.tag,), closing=False)):
        return ""
    return normalise(extract_answer(text), config.same)
