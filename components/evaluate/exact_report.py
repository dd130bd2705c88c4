"""From the probabilities of right responses to the numbers of an evaluation, under the names that samples have."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from components.contract.artifacts import canonical_json
from components.evaluate.exact import RightResponse, Scored
from components.evaluate.report import DomainReport
from components.measure.intervals import Bootstrap
from components.measure.summary import PromptTable
from components.tasks.answers import extract_answer

EXACT_FILE = "exact.jsonl"
"""The probability of every right response of each prompt."""


def report_domain(scored: Sequence[Scored], ks: Sequence[int], num_samples: int, bootstrap: Bootstrap) -> DomainReport:
    """Return the measurements on one domain; intervals are over its prompts."""
    rows = [_statistics(one, ks, num_samples) for one in scored]
    table = PromptTable(tuple(rows[0]), np.array([list(row.values()) for row in rows], dtype=np.float64))
    counts = {"num_prompts": len(scored), "num_failed": 0}
    return DomainReport(table, table.intervals(bootstrap), {}, num_samples, counts)


def write_probabilities(folder: Path, scored: Mapping[str, Sequence[Scored]]) -> None:
    """Write exact.jsonl: one line for each prompt."""
    lines = [
        canonical_json(
            {
                "prompt_id": one.item.id,
                "domain": domain,
                "prompt": one.item.prompt,
                "probability": one.probability,
                "right": {found.text: found.probability for found in one.right},
            }
        )
        + b"\n"
        for domain, found_here in scored.items()
        for one in found_here
    ]
    (folder / EXACT_FILE).write_bytes(b"".join(lines))


def _statistics(scored: Scored, ks: Sequence[int], num_samples: int) -> dict[str, float]:
    """Return a prompt's numbers: each is what the sampled one is on average, NaN where nothing right can be written.

    right_answers and right_responses: how many different ones `num_samples` samples are expected to have.
    entropy_first: of a response's first token. entropy_answer: mean over the tokens of the answer, over right responses
    by their probability.
    """
    right = scored.right
    answers: dict[str, float] = {}
    for found in right:
        answer = extract_answer(found.text)
        answers[answer] = answers.get(answer, 0.0) + found.probability
    return {f"pass_at_{k}": _found(scored.probability, k) for k in ks} | {
        "mean_tokens_right": _weighted(right, [float(found.num_tokens) for found in right]),
        "right_answers": math.fsum(_found(p, num_samples) for p in answers.values()),
        "right_responses": math.fsum(_found(found.probability, num_samples) for found in right),
        "entropy_first": right[0].entropies[0] if right else math.nan,
        "entropy_answer": _weighted(right, [_mean(found.entropies[found.answer]) for found in right]),
    }


def _found(probability: float, k: int) -> float:
    """Return the chance that one of k samples is there, 1 - (1 - p)^k, also where p is tiny."""
    return 1.0 if probability >= 1 else -math.expm1(k * math.log1p(-probability))


def _weighted(right: Sequence[RightResponse], values: Sequence[float]) -> float:
    """Return the mean of the values by the responses' probabilities."""
    whole = math.fsum(found.probability for found in right)
    if not whole:
        return math.nan
    return math.fsum(found.probability * value for found, value in zip(right, values, strict=True)) / whole


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0
