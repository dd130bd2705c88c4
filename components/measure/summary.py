"""From outcomes to numbers: per-prompt values, then means with intervals, per domain and over domains.

Shapes: P prompts of a domain, C columns (statistics of a prompt).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from components.contract.errors import InputError
from components.measure.calibration import Calibration, calibrate, majority_confidence
from components.measure.formulas.diversity import distinct_n, pieces, sample_entropy, unique_share
from components.measure.formulas.majority import maj_at_k_values
from components.measure.intervals import Bootstrap, Floats, Interval
from components.measure.outcomes import ItemOutcomes
from components.measure.passk import pass_at_k_values

_METRIC = re.compile(r"(pass|maj)_at_([1-9][0-9]*)")


@dataclass(frozen=True)
class PromptTable:
    """Statistics of every prompt of a domain; NaN where a prompt does not have one."""

    columns: tuple[str, ...]
    values: Floats
    """[P, C]"""

    def column(self, name: str) -> Floats:
        """Return [P] values of one statistic."""
        return self.values[:, self.columns.index(name)]

    def intervals(self, bootstrap: Bootstrap) -> dict[str, Interval]:
        """Return the mean over prompts of every column with its interval; columns without any value are left out."""
        found = bootstrap.mean_intervals(self.values)
        return {name: entry for name, entry in zip(self.columns, found, strict=True) if entry.n}


def prompt_table(outcomes: Sequence[ItemOutcomes], ks: Sequence[int]) -> PromptTable:
    """Return pass@k and maj@k for all `ks`, and length, entropy and diversity, for every prompt.

    pass@k, maj@k, answers and statistics of right and wrong ones are over verified responses only; the others
    over all. right_answers and right_responses count distinct ones, so they grow with the samples drawn.
    """
    verified = [outcome.num_verified for outcome in outcomes]
    passes = pass_at_k_values(verified, [outcome.num_right for outcome in outcomes], ks)
    votes = np.array([_majority(outcome, ks) for outcome in outcomes]).reshape(len(outcomes), len(ks))
    names = [f"pass_at_{k}" for k in ks] + [f"maj_at_{k}" for k in ks]
    texture = [_texture(outcome) for outcome in outcomes]
    rest = np.array([[math.nan if v is None else v for v in row.values()] for row in texture], dtype=np.float64)
    return PromptTable((*names, *texture[0]), np.hstack([passes, votes, rest]))


def metric_values(outcomes: Sequence[ItemOutcomes], metric: str) -> Floats:
    """Return [P] values of "pass_at_<k>" or "maj_at_<k>"; NaN for prompts with fewer than k verified samples."""
    found = _METRIC.fullmatch(metric)
    if not found:
        raise InputError(f"unknown metric {metric!r}: give pass_at_<k> or maj_at_<k>")
    k = int(found[2])
    if found[1] == "maj":
        return np.array([_majority(outcome, [k])[0] for outcome in outcomes])
    verified = [outcome.num_verified for outcome in outcomes]
    return pass_at_k_values(verified, [outcome.num_right for outcome in outcomes], [k])[:, 0]


def over_domains(tables: Mapping[str, PromptTable], column: str, bootstrap: Bootstrap) -> Interval:
    """Return the mean over domains, each counting the same, of a statistic's mean over prompts."""
    strata = [table.column(column) for table in tables.values()]
    return bootstrap.weighted_interval(strata, [1.0] * len(strata))


def calibrations(outcomes: Sequence[ItemOutcomes]) -> dict[str, Calibration]:
    """Return how well two confidences match correctness; one that has no predictions is left out.

    majority_share: share of a prompt's samples behind its most frequent answer, against that answer being right.
    sequence_probability: probability of a whole response, against that response being right.
    """
    shares = [vote for outcome in outcomes if (vote := _vote(outcome)) is not None]
    pairs = [
        (min(1.0, math.exp(outcome.logprobs[index])), outcome.verdicts[index].right)
        for outcome in outcomes
        for index in outcome.verified()
    ]
    found = {"majority_share": shares, "sequence_probability": pairs}
    return {name: calibrate(*map(list, zip(*data, strict=True))) for name, data in found.items() if data}


def _vote(outcome: ItemOutcomes) -> tuple[float, bool] | None:
    answers, right = outcome.verified_answers
    return majority_confidence(answers, right)


def _majority(outcome: ItemOutcomes, ks: Sequence[int]) -> Floats:
    answers, right = outcome.verified_answers
    return maj_at_k_values(answers, right, ks)


def _texture(outcome: ItemOutcomes) -> dict[str, float | None]:
    """Return length, entropy and diversity statistics of a prompt's responses."""
    answers, judged = outcome.verified_answers
    right = [row for row in outcome.verified() if outcome.verdicts[row].right]
    wrong = [row for row in outcome.verified() if not outcome.verdicts[row].right]
    return {
        "mean_tokens": float(np.mean(outcome.lengths)),
        "mean_tokens_right": _mean_tokens(outcome, right),
        "mean_tokens_wrong": _mean_tokens(outcome, wrong),
        "entropy": float(np.mean(outcome.entropies)),
        "finished_share": float(np.mean(outcome.finished)),
        "answer_entropy": sample_entropy(answers),
        "unique_answers": unique_share(answers),
        "right_answers": float(len({outcome.answers[row] for row in right})) if judged else None,
        "right_responses": float(len({outcome.responses[row] for row in right})) if judged else None,
        "unique_responses": unique_share(outcome.responses),
        "distinct_2": distinct_n([pieces(response) for response in outcome.responses], 2),
    }


def _mean_tokens(outcome: ItemOutcomes, rows: Sequence[int]) -> float | None:
    return sum(outcome.lengths[row] for row in rows) / len(rows) if rows else None
