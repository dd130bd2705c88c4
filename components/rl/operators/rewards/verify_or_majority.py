"""Labelled prompts are verified, unlabelled ones take their group's majority for the label (TraPO)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from components.rl.operators.rewards.majority_vote import MajorityVoteConfig, answer_of
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class VerifyOrMajorityConfig(MajorityVoteConfig):
    """Which prompts count as unlabelled, beside those without a verifier, and what votes."""

    unlabelled: tuple[str, ...] = ()
    """Domains whose labels are not read."""


def verify_or_majority(batch: Batch, context: SlotContext, *, config: VerifyOrMajorityConfig) -> Tensor:
    """Return [S]: 1 for a right response to a labelled prompt; of an unlabelled one, for the answer of the majority.

    Where several answers have the most votes there is no majority, and the whole group gets 0. A trajectory votes
    once. Metrics: `majority_share`, the mean share of the votes that the largest answer has, over unlabelled prompts;
    `tied_share` of them that have no majority.

    Source: Yang et al. 2025, TraPO (arXiv:2512.13106), and its released trainer, which has the rule for ties.
    """
    import torch

    from components.rl.batch.batch import RIGHT
    from components.rl.batch.texts import verified_texts

    texts, groups = verified_texts(batch), batch.group.tolist()
    voting = [prompt.item.is_unlabelled or prompt.item.domain in config.unlabelled for prompt in batch.prompts]
    known = {text: answer_of(text, config) for text in {texts[row] for row, at in enumerate(groups) if voting[at]}}
    votes: list[Counter[str]] = [Counter() for _ in batch.prompts]
    for row in batch.last_rows.tolist():
        if voting[groups[row]] and known[texts[row]]:
            votes[groups[row]][known[texts[row]]] += 1
    labels = [majority(counts) for counts in votes]
    counted = [counts for counts in votes if counts]
    if counted:
        context.metrics["majority_share"] = sum(max(c.values()) / c.total() for c in counted) / len(counted)
        context.metrics["tied_share"] = sum(majority(c) is None for c in counted) / len(counted)
    verified = (batch.outcomes == RIGHT).tolist()
    found = [
        known[text] == labels[at] if voting[at] else verified[row]
        for row, (text, at) in enumerate(zip(texts, groups, strict=True))
    ]
    return torch.tensor(found, dtype=torch.float32)


def majority(votes: Counter[str]) -> str | None:
    """Return the answer with more votes than any other; None if there is none."""
    best = votes.most_common(2)
    return None if not best or (len(best) == 2 and best[0][1] == best[1][1]) else best[0][0]
