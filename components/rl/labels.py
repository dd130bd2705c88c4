"""What operators read of the labels: outcomes of verification, and reference answers. Does not import torch.

An operator's config says it in `reads`: `outcomes`, where it needs the verdict on a response, also through the ledger's
pass rates or a probe, and `answers`, where it reads the item's reference. Everything else sees rewards alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from components.contract.errors import InputError
from components.contract.operators import Bound, OperatorMisfit, with_used
from components.tasks.item import Item

OUTCOMES, ANSWERS = "outcomes", "answers"
LABELS = frozenset({OUTCOMES, ANSWERS})
_READERS = {
    "schedule": {OUTCOMES: "broaden"},
    "sampler": {
        OUTCOMES: "adaptive_difficulty again alp_gmm angle_window boltzmann_bandit highest_variance rare_pairs "
        "ucb_bandit"
    },
    "rollout": {OUTCOMES: "hardness"},
    "reward": {
        OUTCOMES: "verifier score fact_support noisy_verifier elliptical_bonus episodic_memory",
        ANSWERS: "information_gain",
    },
    "guidance": {OUTCOMES: "critical_pairs reformulate teachers", ANSWERS: "demonstrations reformulate"},
    "filter": {OUTCOMES: "dynamic_sampling"},
    "annotate": {OUTCOMES: "pass_rates length_spread self_reward"},
    "advantage": {OUTCOMES: "canon confidence_gap effective_rank rare_events signed_outcome step_values"},
    "replay": {OUTCOMES: "recompose"},
    "objective": {OUTCOMES: "dpo pacs"},
    "regularizer": {OUTCOMES: "forward_kl self_reward_mse"},
}
"""Slot -> label -> operators whose configs cannot say it: records of methods hold the digests of their modules."""


def labels_read(bound: Bound) -> frozenset[str]:
    """Return which labels an operator reads; a function in a file reads the columns that it takes by name."""
    declared: frozenset[str] = getattr(bound.config, "reads", frozenset()) & LABELS
    listed = _READERS.get(bound.slot.name, {})
    own = {label for label, names in listed.items() if bound.name in names.split()}
    by_name = bound.file.function.by_name if bound.file else ()
    return declared | own | ({ANSWERS} if "answer" in by_name else set())


def check_ignored(bounds: Iterable[Bound]) -> None:
    """Raise OperatorMisfit for an operator that reads what `labels: ignored` takes away."""
    for bound in with_used(bounds):
        if found := labels_read(bound):
            what = " and ".join(sorted(found))
            raise OperatorMisfit(
                bound, f"rl: {bound.slot} operator {bound.shown!r} reads {what}, and `labels: ignored` gives it none"
            )


def check_labelled(items: Sequence[Item], bounds: Iterable[Bound]) -> None:
    """Raise InputError if an operator reads outcomes and some items have no verifier."""
    bare = [item for item in items if item.is_unlabelled]
    reader = next((bound for bound in with_used(bounds) if OUTCOMES in labels_read(bound)), None) if bare else None
    if reader is not None:
        raise InputError(
            f"rl: {len(bare)} of {len(items)} prompts are unlabelled, such as {bare[0].id}, and {reader.slot} operator "
            f"{reader.shown!r} reads outcomes; give them verifiers, or use rewards that need none"
        )
