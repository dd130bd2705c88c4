"""The edge of competence: solved seldom by one sample, and sometimes by several."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from components.contract.errors import InputError
from components.curate.selection.choice import NOT_IN_LEDGER, Selection
from components.curate.selection.config import SelectorConfig
from components.curate.selection.context import LEDGER, SelectionContext
from components.curation.candidate import Candidate
from components.measure.ledger import PassRateRow


class EdgeConfig(SelectorConfig):
    """Where the edge lies."""

    needs = (LEDGER,)

    max_pass_at_1: float = Field(default=0.2, gt=0, le=1)
    """pass@1 is below this."""
    min_pass_at_k: float = Field(default=0.0, ge=0, lt=1)
    """pass@k is above this."""
    k: int | None = Field(default=None, ge=2)
    """Samples of pass@k; none: all verified samples of the prompt."""
    level: Literal["prompt", "domain"] = "prompt"
    """Whether each prompt is judged by its own samples, or each domain (a level of difficulty) by its mean."""


def edge(rows: Sequence[Candidate], context: SelectionContext, *, config: EdgeConfig) -> Selection:
    """Keep rows where the model fails at pass@1 and succeeds at pass@k. The score is pass@k.

    Source: Zhang et al. 2025 (arXiv:2512.07783), "On the interplay of pre-training, mid-training and RL"; its
    thresholds are reconstructed. Raises InputError for a prompt with fewer verified samples than k.
    """
    totals = [context.total(row.id) for row in rows]
    measured = [None if total is None else _measured(total, config.k) for total in totals]
    if config.level == "domain":
        measured = _by_domain(rows, measured)

    def reason(found: tuple[float, float] | None) -> str | None:
        if found is None:
            return NOT_IN_LEDGER
        return None if found[0] < config.max_pass_at_1 and found[1] > config.min_pass_at_k else "not_at_edge"

    return Selection(tuple(map(reason, measured)), tuple(None if found is None else found[1] for found in measured))


def _measured(total: PassRateRow, k: int | None) -> tuple[float, float]:
    """Return pass@1 and pass@k of a prompt."""
    from components.measure.passk import pass_at_k

    verified = total.num_right + total.num_wrong
    try:
        return total.value, pass_at_k(verified, total.num_right, verified if k is None else k)
    except InputError as error:
        raise InputError(f"edge: prompt {total.prompt_id!r}: {error}") from error


def _by_domain(
    rows: Sequence[Candidate], measured: Sequence[tuple[float, float] | None]
) -> list[tuple[float, float] | None]:
    members: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for row, found in zip(rows, measured, strict=True):
        if found is not None:
            members[row.domain].append(found)
    means = {domain: _mean(found) for domain, found in members.items()}
    return [None if found is None else means[row.domain] for row, found in zip(rows, measured, strict=True)]


def _mean(found: Sequence[tuple[float, float]]) -> tuple[float, float]:
    return sum(first for first, _ in found) / len(found), sum(second for _, second in found) / len(found)
