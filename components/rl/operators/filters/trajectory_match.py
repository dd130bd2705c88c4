"""Unlabelled prompts are learned from where their pass rates developed as those of labelled prompts did (TraPO)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from pydantic import Field, model_validator

from components.contract.errors import InputError
from components.rl.configs import SlotConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch, Prompt


class TrajectoryMatchConfig(SlotConfig):
    """Which prompts are unlabelled, and which of their curves match."""

    unlabelled: tuple[str, ...] = ()
    """Domains that count as unlabelled, beside prompts without a verifier; as in reward `verify_or_majority`."""
    warmup_visits: int = Field(default=3, ge=1)
    """Visits of an unlabelled prompt that are not learned from, and only recorded."""
    threshold: float | None = Field(default=0.4, ge=-1, le=1)
    """Learn from prompts whose mean cosine to the reference set is at least this; none: the share alone decides."""
    top_share: float | None = Field(default=0.1, gt=0, le=1)
    """Learn from at least this share of a batch's unlabelled prompts, and from one; none: the threshold decides."""

    @model_validator(mode="after")
    def _some_limit(self) -> TrajectoryMatchConfig:
        if self.threshold is None and self.top_share is None:
            raise InputError("set threshold, top_share or both")
        return self


def trajectory_match(
    batch: Batch, more: Callable[[int], Batch], context: SlotContext, *, config: TrajectoryMatchConfig
) -> Batch:
    """Keep labelled groups, and those unlabelled ones whose curve of mean rewards is like those of the reference set.

    A prompt's curve has the mean reward of its group at each visit: the pass rate of a labelled prompt, the agreement
    with the majority of an unlabelled one. Curves [R, T], T the fewest visits in the reference set, are z-normalised
    over time. The set holds all labelled prompts and the unlabelled ones accepted since one of them was accepted again,
    so about those of one epoch. What is kept follows from rewards alone. Where unlabelled prompts have verifiers,
    their outcomes make metrics: `pseudo_label_precision`, of the groups with a rewarded response the share that
    rewards a right answer; `accepted_precision`, the same of those that are kept; `accepted_share`.

    Source: Yang et al. 2025, TraPO (arXiv:2512.13106), and its released trainer: the visit at hand counts, threshold
    and share are united, the set starts anew as above.
    """
    import torch

    open_ = [unlabelled(prompt, config.unlabelled) for prompt in batch.prompts]
    if all(unlabelled(prompt, config.unlabelled) for prompt in context.pool):
        raise InputError("filter trajectory_match: no prompt of the stage is labelled, so there is nothing to match")
    curves: dict[str, list[float]] = context.memory.setdefault("curves", {})
    references: list[str] = context.memory.setdefault("accepted", [])
    rates = dict(zip(batch.group.tolist(), batch.group_mean(batch.rewards.double()).tolist(), strict=True))
    for group, prompt in enumerate(batch.prompts):
        curves.setdefault(prompt.item.id, []).append(rates[group])
    known = {prompt.item.id for prompt in context.pool if not unlabelled(prompt, config.unlabelled)}
    judged = [
        group
        for group, prompt in enumerate(batch.prompts)
        if open_[group] and len(curves[prompt.item.id]) > config.warmup_visits
    ]
    asked = [batch.prompts[group].item.id for group in judged]
    chosen = accepted(curves, asked, [name for name in curves if name in known or name in references], config)
    for name in (name for name in asked if name in chosen):
        if name in references:
            references.clear()
        references.append(name)
    kept = torch.tensor([not open_[g] or p.item.id in chosen for g, p in enumerate(batch.prompts)], dtype=torch.bool)
    _report(batch, context.metrics, torch.tensor(open_, dtype=torch.bool), kept, judged)
    return batch.select(kept[batch.group])


def unlabelled(prompt: Prompt, domains: Sequence[str]) -> bool:
    """Return whether a prompt has no verifier, or is of one of the domains."""
    return prompt.item.is_unlabelled or prompt.item.domain in domains


def accepted(
    curves: Mapping[str, Sequence[float]],
    asked: Sequence[str],
    references: Iterable[str],
    config: TrajectoryMatchConfig,
) -> set[str]:
    """Return which of `asked` have a mean cosine to the references above the threshold, or are among the top share."""
    known = [curves[name] for name in references]
    length = min(map(len, known), default=0)
    able = [name for name in asked if len(curves[name]) >= length]
    if length < 2 or not able:
        return set()
    scores = mean_cosines([curves[name][:length] for name in able], [curve[:length] for curve in known])
    order = sorted(range(len(able)), key=lambda at: -scores[at])
    best = order[: max(1, int(config.top_share * len(able)))] if config.top_share else []
    above = [at for at, score in enumerate(scores) if config.threshold is not None and score >= config.threshold]
    return {able[at] for at in (*best, *above)}


def mean_cosines(curves: Sequence[Sequence[float]], references: Sequence[Sequence[float]]) -> list[float]:
    """Return [Q]: the mean cosine of each curve [Q, T] to all references [R, T], z-normalised; 0 for a constant one."""
    import torch

    def directions(rows: Sequence[Sequence[float]]) -> Tensor:
        centred = torch.tensor(rows, dtype=torch.float64)
        centred = centred - centred.mean(1, keepdim=True)
        lengths = centred.norm(dim=1, keepdim=True)
        return torch.where(lengths < 1e-9, 0.0, centred / lengths.clamp(min=1e-9))

    found: list[float] = (directions(curves) @ directions(references).mean(0)).tolist()
    return found


def _report(batch: Batch, metrics: dict[str, float], open_p: Tensor, kept_p: Tensor, judged: Sequence[int]) -> None:
    """Write how many pseudo-labels were accepted, and how many are right where that can be known."""
    import torch

    from components.rl.batch.batch import RIGHT, UNSCORED

    if judged:
        metrics["accepted_share"] = float(kept_p[list(judged)].double().mean())
    rewarded_s = (batch.rewards > 0) & (batch.outcomes != UNSCORED) & open_p[batch.group]
    labelled_p = torch.zeros(batch.num_prompts, dtype=torch.bool)
    labelled_p[batch.group[rewarded_s]] = True
    right_p = torch.zeros_like(labelled_p)
    right_p[batch.group[rewarded_s & (batch.outcomes == RIGHT)]] = True
    for name, chosen_p in (("pseudo_label_precision", labelled_p), ("accepted_precision", labelled_p & kept_p)):
        if bool(chosen_p.any()):
            metrics[name] = float(right_p[chosen_p].double().mean())
