"""Sampling with verification, and the numbers made of hand-written outcomes."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from components.contract.errors import InputError, StageFailed
from components.measure.dataset import require_verdicts
from components.measure.intervals import Bootstrap
from components.measure.ledger import pass_rate_row
from components.measure.outcomes import (
    ItemOutcomes,
    by_domain,
    outcomes_from_row,
    outcomes_to_row,
)
from components.measure.sampling import blocks, sample_and_verify
from components.measure.summary import calibrations, metric_values, over_domains, prompt_table
from components.modeling.generation.sampler import NativeSampler
from components.modeling.generation.sampling_config import SamplingConfig
from components.modeling.loading.load import load_policy
from components.tasks.item import Item
from components.tasks.verify import Outcome, Verdict
from tests.stages.toy_models import prompt_row, prompt_rows, toy_models

SAMPLING = SamplingConfig(num_samples=6, max_new_tokens=5)
ITEMS = [Item.model_validate(row) for row in prompt_rows("copy", "flip")]


def sampler(folder: Path) -> NativeSampler:
    """The native sampler of a model folder."""
    return NativeSampler(load_policy(folder))


def written(answers: str, outcomes: str, domain: str = "A", logprob: float = math.log(0.5)) -> ItemOutcomes:
    """Outcomes from letters: one answer letter (or - for none), and one of r, w, f, per response."""
    kinds = {"r": Outcome.RIGHT, "w": Outcome.WRONG, "f": Outcome.FAILED}
    size = len(answers)
    return ItemOutcomes(
        item=Item(id=f"{domain}-{answers}-{outcomes}", domain=domain, prompt="", answer="", verifier="exact"),
        responses=tuple(f"<answer>{answer.replace('-', '')}" for answer in answers),
        verdicts=tuple(Verdict(kinds[letter]) for letter in outcomes),
        lengths=tuple(range(1, size + 1)),
        entropies=(0.5,) * size,
        logprobs=(logprob,) * size,
        finished=(True,) * size,
    )


def test_items_keep_their_order_and_responses_are_verified() -> None:
    found = sample_and_verify(sampler(toy_models().both), ITEMS, SAMPLING, seed=3)
    assert [outcome.item for outcome in found] == ITEMS
    for outcome in found:
        assert outcome.num_samples == 6 == len(outcome.lengths) == len(outcome.entropies)
        judged = [response == outcome.item.answer for response in outcome.responses]
        assert judged == [verdict.right for verdict in outcome.verdicts]
        assert outcome.pass_rate == sum(judged) / 6
        # two letters and the end mark: text and tokens agree
        assert all(n == 3 for n, right in zip(outcome.lengths, judged, strict=True) if right)
    assert sum(outcome.num_right for outcome in found) > 0.9 * 6 * len(ITEMS)
    assert list(by_domain(reversed(found))) == ["copy", "flip"]


def test_samples_depend_on_seed_and_prompts_only() -> None:
    policy = sampler(toy_models().forgetful)
    first = sample_and_verify(policy, ITEMS, SAMPLING, seed=3)
    assert sample_and_verify(policy, ITEMS, SAMPLING, seed=3) == first
    assert sample_and_verify(policy, ITEMS, SAMPLING, seed=4) != first
    assert sample_and_verify(sampler(toy_models().fresh), ITEMS, SAMPLING, seed=3) != first


def test_models_share_their_random_numbers_so_that_pairs_compare() -> None:
    """Common random numbers: the same prompts and seed give two models the same uniforms."""
    both, forgetful = (
        sample_and_verify(sampler(folder), ITEMS, SAMPLING, seed=3)
        for folder in (toy_models().both, toy_models().forgetful)
    )
    copies = [(b.responses, f.responses) for b, f in zip(both, forgetful, strict=True) if b.item.domain == "copy"]
    same = np.mean([x == y for b, f in copies for x, y in zip(b, f, strict=True)])
    assert same > 0.8


def test_blocks_bound_the_tokens_in_flight_and_progress_reaches_the_end() -> None:
    sampling = SAMPLING.model_copy(update={"max_batch_tokens": 150})
    assert [len(block) for block in blocks(ITEMS, sampling)] == [5, 5, 5, 5, 4]
    calls: list[tuple[int, int]] = []
    policy = sampler(toy_models().both)
    sample_and_verify(policy, ITEMS, sampling, seed=0, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(30, 144), (60, 144), (90, 144), (120, 144), (144, 144)]
    assert sample_and_verify(policy, [], SAMPLING, seed=0) == []


def test_outcomes_survive_json() -> None:
    items = [*ITEMS[:3], Item.model_validate(prompt_row("copy", "ab", verifier="no-such-verifier"))]
    for outcome in sample_and_verify(sampler(toy_models().both), items, SAMPLING, seed=0):
        row = json.loads(json.dumps(outcomes_to_row(outcome)))
        assert outcomes_from_row(row, outcome.item) == outcome


def test_counts_and_ledger_row() -> None:
    outcome = written("aab-", "rrwf")
    assert (outcome.num_right, outcome.num_wrong, outcome.num_failed) == (2, 1, 1)
    assert outcome.pass_rate == pytest.approx(2 / 3)
    assert outcome.answers == ("a", "a", "b", None)
    assert pass_rate_row(outcome).model_dump() == {
        "prompt_id": "A-aab--rrwf",
        "domain": "A",
        "num_samples": 4,
        "num_right": 2,
        "num_wrong": 1,
        "num_failed": 1,
    }
    assert written("ab", "ff").pass_rate is None


def test_prompt_table_by_hand() -> None:
    table = prompt_table([written("aab-", "rrwf"), written("bbbb", "wwww"), written("ab", "ff")], [1, 2, 4])
    np.testing.assert_allclose(
        np.column_stack([table.column(f"pass_at_{k}") for k in (1, 2, 4)]),
        [[2 / 3, 1.0, np.nan], [0.0, 0.0, 0.0], [np.nan] * 3],  # one verification failed: three samples are left
    )
    np.testing.assert_allclose(table.column("maj_at_2"), [(1 + 0.5 + 0.5) / 3, 0.0, np.nan])
    np.testing.assert_allclose(table.column("mean_tokens"), [2.5, 2.5, 1.5])
    np.testing.assert_allclose(table.column("unique_answers"), [2 / 3, 1 / 4, np.nan])
    # answers of the verified: a a b | b b b b | none; a is right twice, in two equal responses
    thirds = -(2 / 3 * math.log(2 / 3) + 1 / 3 * math.log(1 / 3))
    np.testing.assert_allclose(table.column("answer_entropy"), [thirds, 0.0, np.nan], atol=1e-12)
    np.testing.assert_allclose(table.column("right_answers"), [1, 0, np.nan])
    np.testing.assert_allclose(table.column("right_responses"), [1, 0, np.nan])
    np.testing.assert_allclose(table.column("mean_tokens_right"), [1.5, np.nan, np.nan])
    np.testing.assert_allclose(table.column("mean_tokens_wrong"), [3.0, 2.5, np.nan])
    intervals = table.intervals(Bootstrap(resamples=100))
    assert intervals["pass_at_1"].n == 2 and intervals["mean_tokens"].n == 3
    everything_failed = prompt_table([written("ab", "ff")], [1]).intervals(Bootstrap(resamples=100))
    assert "pass_at_1" not in everything_failed and "mean_tokens" in everything_failed


def test_domains_count_the_same_in_the_mean() -> None:
    tables = {"A": prompt_table([written("a", "r")] * 9, [1]), "B": prompt_table([written("a", "w")], [1])}
    assert over_domains(tables, "pass_at_1", Bootstrap(resamples=100)).value == 0.5


def test_metric_values() -> None:
    outcomes = [written("aab", "rrw"), written("b", "w")]
    np.testing.assert_allclose(metric_values(outcomes, "pass_at_1"), [2 / 3, 0])
    np.testing.assert_allclose(metric_values(outcomes, "maj_at_3"), [1.0, np.nan])
    with pytest.raises(InputError, match="pass_at_<k>"):
        metric_values(outcomes, "reward")


def test_calibrations_leave_failed_ones_out() -> None:
    found = calibrations([written("aabf", "rrwf"), written("cc", "ww", logprob=math.log(0.9))])
    assert found["majority_share"].count == 2
    assert found["majority_share"].brier == pytest.approx(((2 / 3 - 1) ** 2 + 1) / 2)
    assert found["sequence_probability"].count == 5
    assert calibrations([written("a", "f")]) == {}


def test_nothing_verified_names_the_first_reason() -> None:
    item = Item.model_validate(prompt_row("copy", "ab", verifier="no-such-verifier"))
    outcomes = sample_and_verify(sampler(toy_models().both), [item], SAMPLING, seed=0)
    with pytest.raises(StageFailed, match=r"none of 6 responses.*no-such-verifier"):
        require_verdicts({"copy": outcomes})
