"""Verifiability: a row is worth training on only if its verifier distinguishes right from wrong."""

from __future__ import annotations

from pydantic import Field

from components.contract.params import Params
from components.curation.candidate import Candidate
from components.tasks.answer_forms import answer_forms
from components.tasks.item import Item
from components.tasks.mutations import mutate
from components.tasks.seeds import derive_rng
from components.tasks.verify import Outcome, verify, verify_all

EMPTY_RESPONSES = ("", "<answer>")


class VerifiabilityConfig(Params):
    """What a verifier must satisfy on every row."""

    mutations: int = Field(default=3, ge=0)
    """How many mutated answers must be rejected, beside the empty response."""
    responses: bool = False
    """Also drop rows whose given response is not right."""


class Verifiability:
    """Rejects rows whose verifier fails, rejects the reference answer, or accepts a wrong one."""

    def __init__(self, config: VerifiabilityConfig, seed: int) -> None:
        self._config, self._seed = config, seed

    def reject(self, draft: Candidate) -> str | None:
        """Return no_reference, verifier_failed, rejects_reference, accepts_wrong or wrong_response; None to keep."""
        if draft.item is None:
            return None
        if not draft.item.answer.strip():
            return "no_reference"
        return self._judge(draft.item) or self._judge_given(draft)

    def keep(self, draft: Candidate) -> None:
        """Do nothing: kept rows have no effect on this check."""

    def _judge(self, item: Item) -> str | None:
        rng = derive_rng(self._seed, "mutations", item.id)
        mutated = [mutate(item.answer, rng) for _ in range(self._config.mutations)]
        for form in answer_forms(item.verifier):
            responses = (form.format(item.answer), *EMPTY_RESPONSES, *map(form.format, mutated))
            reference, *others = verify_all((item, response) for response in responses)
            if reference.right:
                break
        else:
            return "verifier_failed" if reference.failed else "rejects_reference"
        outcomes = {verdict.outcome for verdict in others}
        if Outcome.RIGHT in outcomes:
            return "accepts_wrong"
        return "verifier_failed" if Outcome.FAILED in outcomes else None

    def _judge_given(self, draft: Candidate) -> str | None:
        if not self._config.responses or draft.response is None or draft.item is None:
            return None
        return None if verify(draft.item, draft.response).right else "wrong_response"
