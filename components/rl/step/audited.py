"""The hacking audit while training: what the samples for people with top rewards have in common so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from components.contract.context import StageContext
from components.contract.terminal import short_line
from components.measure.audit import audit, rewarded_rows
from components.rl.alarms import PHRASE_REWARDED
from components.rl.step.state import LoopState

LATEST = 256
"""Samples that are looked at: enough for a phrase, and as many at any length of the run."""
MAX_PHRASE = 80


def audit_step(ctx: StageContext[Any], state: LoopState) -> dict[str, float]:
    """Return columns of a step's row, if it has samples for people; the alarm on a phrase ends with the phrase."""
    columns, phrase = audited(state.record.browsed_rows(), state.step) if ctx.params.record.audit else ({}, "")
    if phrase:
        ctx.explain(PHRASE_REWARDED, phrase)
    return columns


def audited(rows: Sequence[Mapping[str, Any]], step: int) -> tuple[dict[str, float], str]:
    """Return columns of the history, and the strongest phrase in words safe for a terminal; empty without either.

    audit_phrase: how much larger the share of top rewards with that phrase is than that of others; 0 without one.
    audit_length_rank: rank correlation of length and reward. Both within one step and outcome, so a reward that is its
    verdict has none.
    """
    if not rows or rows[-1]["step"] != step:
        return {}, ""
    found = audit(rewarded_rows(rows[-LATEST:]), most=1)
    if found is None:
        return {}, ""
    columns = {"audit_phrase": 0.0, "audit_length_rank": found.length_rank}
    if not found.phrases:
        return columns, ""
    (phrase,) = found.phrases
    columns["audit_phrase"] = phrase.top_share - phrase.rest_share
    share = f"{100 * phrase.top_share:.0f} % of them against {100 * phrase.rest_share:.0f} % of others"
    return columns, f"{short_line(phrase.text, MAX_PHRASE)!r}, {share}"
