"""Responses of a measurement for people to read: `samples.jsonl`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from components.contract.artifacts import SAMPLES_FILE, canonical_json
from components.measure.outcomes import ItemOutcomes

MAX_FAILED_SAMPLES = 20
"""Maximum responses with a failed verification, per domain."""


def write_samples(
    folder: Path, outcomes: Mapping[str, Iterable[ItemOutcomes]], *, prompts: int, responses: int
) -> None:
    """Write samples.jsonl: of each domain, the first responses of the first prompts, and failed ones."""
    with (folder / SAMPLES_FILE).open("wb") as stream:
        for found in outcomes.values():
            for row in _browsed(found, prompts, responses):
                stream.write(canonical_json(row) + b"\n")


def _browsed(outcomes: Iterable[ItemOutcomes], prompts: int, responses: int) -> Iterator[dict[str, Any]]:
    """Yield responses to read: the first ones of the first prompts, and failed ones of any prompt."""
    failed_left = MAX_FAILED_SAMPLES
    for number, outcome in enumerate(outcomes):
        for index, verdict in enumerate(outcome.verdicts):
            shown = number < prompts and index < responses
            if shown or (verdict.failed and failed_left > 0):
                failed_left -= verdict.failed
                yield _row(outcome, index)


def _row(outcome: ItemOutcomes, index: int) -> dict[str, Any]:
    verdict = outcome.verdicts[index]
    return {
        "prompt_id": outcome.item.id,
        "domain": outcome.item.domain,
        "prompt": outcome.item.prompt_with(outcome.written(index)[:-1]),
        "answer": outcome.item.answer,
        "response": outcome.responses[index],
        "outcome": verdict.outcome.value,
        "detail": verdict.detail,
        "num_tokens": outcome.lengths[index],
        "entropy": outcome.entropies[index],
        "logprob": outcome.logprobs[index],
        "finished": outcome.finished[index],
    }
