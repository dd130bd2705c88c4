"""Rewards and measures that cannot work are one line each, before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.contract.registry import operators
from components.tasks.grades import WITHOUT_GRADES
from components.tasks.slots import VERIFIER
from tests.pipelines.writing import load, messages

RECIPE = """
stages:
  data:
    uses: curate
    with: {kind: prompts, sources: [{domain: words, count: 9, source: %s}]}
  base: {uses: pretrain, in: {dataset: data.dataset}}
  rl: {uses: rl, in: {model: base.model, dataset: %s}, with: {%s}}
"""
SUMS = "{name: reasoning_gym, task: chain_sum}"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("rewards: [score]", "reward 'score' reads grades between right and wrong, and verifier reasoning_gym"),
        ("rewards: [{name: fade, reward: score, last: 0.5}]", "reward 'score' reads grades between right and wrong"),
        ("rewards: [verifier], combine: {name: gate, by: [pattern]}", "combine 'gate' names the part 'pattern'"),
        ("rewards: [{name: verifier, weight: 0}]", "every weight of verifier is 0, so that nothing is rewarded"),
        ("rewards: [{name: rubric, default: {criteria: []}}]", "rewards.0.default.criteria: got [], expected"),
        (
            "rewards: [{name: rubric, default: {criteria: [{name: a, verifier: exact, weight: -1}]}}]",
            "the positive weights sum to 0, so that no response can score",
        ),
        (
            "rewards: [{name: rubric, default: {criteria: [{name: a, verifier: exct}]}}]",
            "unknown verifier operator 'exct'; did you mean 'exact'",
        ),
        ("rewards: [{name: brier, confidence: {scale: 0}}]", "confidence.scale: got 0, expected a number greater"),
        ("rewards: [{name: tag_order, grammar: {tags: []}}]", "grammar.tags: got [], expected at least 1 item"),
        ("rewards: [verifier], advantages: [forward_correction]", "add annotate operator 'noise_rates'"),
        ("rewards: [{name: noisy_verifier, false_positives: 1.5}]", "got 1.5, expected a number of at most 1"),
        ("rewards: [calibrated_scorer]", "'calibrated_scorer' asks the input 'scorers', which is not connected"),
        ("rewards: [verifier, {name: mixture_of_judges, by: {a: [{name: x, reward: judge}]}}]",
         "reward operator 'mixture_of_judges' asks the input 'judges', which is not connected"),
        ("rewards: [verifier, {name: mixture_of_judges, by: {a: [{name: x, reward: scorer}]}}]",
         "a judge says yes or no, and a reward model has no zero; ask it by calibrated_scorer beside the mixture"),
        ("rewards: [verifier, {name: mixture_of_judges, by: {a: [{name: x, reward: score}]}}]",
         "reward 'score' reads grades between right and wrong"),
        ("rewards: [verifier], combine: {name: constrained_rank, by: {verifier: 1}}",
         "combine 'constrained_rank' constrains every part, so that nothing is left to reward"),
        ("rewards: [verifier], rollout: {name: group_by_domain, sizes: {a: 0}}", "give it 1 or more"),
        ("rewards: [verifier], guidance: {name: baseline_answers, demonstrators: {a: glod}}", "did you mean 'gold'?"),
        ("rewards: [verifier], advantages: [crpg]", "with.advantages.0: 'kl_max' is missing"),
        ("rewards: [verifier], advantages: [{name: crraft, kl_max: 1}], reference: none, regularizers: []",
         "crraft compares with a reference policy, but reference is 'none'"),
    ],
)  # fmt: skip
def test_what_cannot_be_rewarded_is_one_line(tmp_path: Path, settings: str, message: str) -> None:
    (found,) = messages(tmp_path, RECIPE % (SUMS, "data.dataset", settings))
    assert message in found and "\n" not in found


@pytest.mark.parametrize("source", ["beams", "countdown", "latin_squares", "solution_sets"])
def test_a_domain_without_grades_has_no_score(tmp_path: Path, source: str) -> None:
    (found,) = messages(tmp_path, RECIPE % (source, "data.dataset", "rewards: [score]"))
    assert found.startswith("7:") and "reward 'score' reads grades between right and wrong" in found


def test_outcomes_of_unlabelled_rows_are_not_rewarded(tmp_path: Path) -> None:
    source = "{name: published, set: ultrafeedback}"
    (found,) = messages(tmp_path, RECIPE % (source, "data.dataset", "rewards: [verifier]"))
    assert "reward operator 'verifier' reads outcomes, and the rows are unlabelled" in found
    assert load(tmp_path, RECIPE % (source, "data.dataset", "rewards: [majority_vote]"))
    assert load(tmp_path, RECIPE % (SUMS, "data.dataset", "rewards: [majority_vote], labels: ignored"))


@pytest.mark.parametrize(
    ("source", "dataset", "reward"),
    [
        ("notes", "data.dataset", "score"),  # its verifier grades
        (SUMS, "data.dataset", "verifier"),
        (SUMS, "artifact:" + "a" * 64, "score"),  # nothing is known of these rows
    ],
)
def test_what_may_have_grades_is_not_refused(tmp_path: Path, source: str, dataset: str, reward: str) -> None:
    assert load(tmp_path, RECIPE % (source, dataset, f"rewards: [{reward}]"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("confidence: 1.5", "confidence: got 1.5, expected a number less than 1"),
        ("diagnostics: [{name: verbal_confidence, scale: -1}]", "scale: got -1, expected a number greater than 0"),
        ("strategies: [{name: weighted_vote, by: reserve}]", "by: got 'reserve'"),
        (
            "strategies: [{name: best_of_n, by: reserved, strength: 0}]",
            "strength: got 0, expected a number greater than 0",
        ),
    ],
)
def test_what_cannot_be_measured_is_one_line(tmp_path: Path, settings: str, message: str) -> None:
    stage = "  last: {uses: evaluate, in: {model: rl.model, dataset: data.dataset}, with: {%s}}\n"
    (found,) = messages(tmp_path, RECIPE % (SUMS, "data.dataset", "rewards: [verifier]") + stage % settings)
    assert message in found and "\n" not in found


def test_the_verifiers_without_grades_are_those_that_give_none() -> None:
    """Told from their text: a grade is given as `graded=`."""
    folder = Path(__file__).parents[3] / "components" / "tasks" / "verifiers"
    shipped = {path.stem: path for path in folder.rglob("*.py") if not path.stem.startswith("_")}
    grading = {name for name, path in shipped.items() if "graded=" in path.read_text(encoding="utf-8")}
    assert shipped.keys() - grading == WITHOUT_GRADES and shipped.keys() <= set(operators(VERIFIER).names())
    assert {"programs", "views"} <= grading, "those of rooms within the folder are found, too"
