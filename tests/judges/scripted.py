"""A judge's model that says what a test wants."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from components.modeling.serving.models import Asked, Drawing, Likelihood, Written, as_text

NONCE = re.compile(r"Verdict ([0-9a-f]{12}):")


class Scripted:
    """Says `says(request)`, or each of a list of texts as a sample; scores texts by a table of log-probabilities."""

    def __init__(
        self,
        says: Callable[[str], str | list[str | None] | None] = lambda request: "",
        logprobs: Mapping[str, float | None] | Callable[[str, str], float | None] | None = None,
        *,
        name: str = "judge.model",
        finished: bool = True,
    ) -> None:
        self.name, self._says, self._logprobs, self._finished = name, says, logprobs, finished
        self.asked: list[str] = []

    def write(self, prompts: Sequence[Asked], drawing: Drawing) -> list[list[Written | None]]:
        found = []
        for request in map(as_text, prompts):
            self.asked.append(request)
            said = self._says(request)
            texts = said if isinstance(said, list) else [said] * drawing.num_samples
            found.append([None if text is None else Written(text, self._finished) for text in texts])
        return found

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[Likelihood | None]:
        self.asked += [text for text, _ in pairs]
        table: Any = self._logprobs
        values = [table(request, label) if callable(table) else table[label] for request, label in pairs]
        return [None if value is None else Likelihood(value, 1) for value in values]


def marked(verdict: object) -> Callable[[str], str]:
    """Return what says a verdict behind the mark that the request tells."""
    return lambda request: f"Thought.\nVerdict {nonce_in(request)}: {verdict}"


def nonce_in(request: str) -> str:
    """Return the nonce of a request."""
    found = NONCE.search(request)
    assert found is not None, request
    return found[1]
