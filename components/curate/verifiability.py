"""Verifiability: a row is worth training on only if its verifier can tell right from wrong."""

from __future__ import annotations

from pydantic import Field

from components.contract.component import Params
from components.curate.draft import Draft
from components.tasks.item import Item
from components.tasks.mutations import mutate
from components.tasks.seeds import derive_rng
from components.tasks.verify import Outcome, verify

EMPTY_RESPONSES = ("", "<answer>")


class VerifiabilityConfig(Params):
    """What a verifier has to prove on every row."""

    mutations: int = Field(default=3, ge=0)
    """How many mutated answers must be rejected, beside the empty response."""
    responses: bool = False
    """Also drop rows whose given response is not right."""


class Verifiability:
    """Rejects rows whose verifier fails, rejects the reference answer, or accepts a wrong one."""

    def __init__(self, config: VerifiabilityConfig, seed: int) -> None:
        self._config, self._seed = config, seed

    def reject(self, draft: Draft) -> str | None:
        """Return why the row cannot be trusted: no_reference, verifier_failed, rejects_reference, accepts_wrong."""
        if draft.item is None:
            return None
        if not draft.item.answer.strip():
            return "no_reference"
        return self._judge_reference(draft.item) or self._judge_wrong(draft.item) or self._judge_given(draft)

    def keep(self, draft: Draft) -> None:
        """Kept rows change nothing here."""

    def _judge_reference(self, item: Item) -> str | None:
        verdict = verify(item, f"<answer>{item.answer}")
        if verdict.failed:
            return "verifier_failed"
        return None if verdict.right else "rejects_reference"

    def _judge_wrong(self, item: Item) -> str | None:
        rng = derive_rng(self._seed, "mutations", item.id)
        mutated = [f"<answer>{mutate(item.answer, rng)}" for _ in range(self._config.mutations)]
        outcomes = {verify(item, response).outcome for response in (*EMPTY_RESPONSES, *mutated)}
        if Outcome.RIGHT in outcomes:
            return "accepts_wrong"
        return "verifier_failed" if Outcome.FAILED in outcomes else None

    def _judge_given(self, draft: Draft) -> str | None:
        if not self._config.responses or draft.response is None or draft.item is None:
            return None
        return None if verify(draft.item, draft.response).right else "wrong_response"
