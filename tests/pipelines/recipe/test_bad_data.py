"""Domains and stages of data that cannot work are one line with its place, before anything runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.pipelines.writing import load, messages

PLACE = re.compile(r"\d+:\d+ ")
DOMAIN = """
stages:
  data:
    uses: curate
    with: {kind: prompts, sources: [{domain: words, count: 9, source: %s}]}
"""


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{name: programs, min_operations: 5}", "min_operations 5 is above max_operations 4"),
        ("{name: programs, operations: xyz}", "expected different ones of"),
        ("{name: python_programs, min_steps: 4}", "min_steps 4 is above max_steps 3"),
        ("{name: python_programs, steps: [sort]}", "no step follows itself, so sort make programs of at most 1"),
        ("{name: python_programs, steps: [sort, sum], min_steps: 3}", "sort, sum make programs of at most 2 steps"),
        ("{name: python_programs, steps: [sum, count]}", "sum, count make programs of at most 1 steps"),
        ("{name: python_programs, steps: [nope]}", "unknown step 'nope'"),
        ("{name: patches, min_operations: 5}", "min_operations 5 is above max_operations 4"),
        ("{name: circuits, min_gates: 4}", "min_gates 4 is above max_gates 3"),
        ("{name: circuits, inputs: 4, max_gates: 2}", "no function of all 4 inputs needs 2 to 2 gates"),
        ("{name: circuits, names: abca}", "expected different small letters"),
        ("{name: sqlite, min_joins: 2, max_joins: 1}", "min_joins 2 is above max_joins 1"),
        ("{name: sqlite, conditions: 2, max_joins: 0}", "no table has a column and two others"),
        ("{name: countdown, min_numbers: 4}", "min_numbers 4 is above max_numbers 3"),
        ("{name: countdown, max_value: 60}", "max_target 50 is below max_value 60"),
        ("{name: latin_squares, min_holes: 7}", "min_holes 7 is above max_holes 6"),
        ("{name: latin_squares, size: 3, max_holes: 10}", "max_holes 10 is above the 9 cells of the square"),
        ("{name: solution_sets, min_size: 6}", "min_size 6 is above max_size 5"),
        ("{name: solution_sets, min_solutions: 4}", "min_solutions 4 is above max_solutions 3"),
        ("{name: solution_sets, max_size: 4, min_solutions: 3}", "a board of 4 has 2 solutions at most"),
        ("{name: notes, least: 5}", "least 5 is above most 4"),
        ("{name: soft_constraints, least: 6}", "least 6 is above most 5"),
        ("{name: running_total, min_number: 30}", "min_number 30 is above max_number 20"),
        ("{name: choice, source: {name: reasoning_gym, task: chain_sum}, place: 4}", "place 4 of 3 options"),
        ("{name: suites, source: {name: jsonl, path: a.jsonl}, faulty: programs}", "'jsonl' ends; a source without"),
        ("{name: functions, min_level: 2}", "min_level 2 is above max_level 1"),
        ("{name: biographies, fresh: 4}", "4 of 4 relations fresh leave none to train"),
        ("{name: generators, unseen: 90}", "rules have 48 different compositions of 2"),
        ("{name: graded_choice, weights: [1]}", "6 grades need as many weights"),
        ("{name: claims, min_terms: 4}", "min_terms 4 is above max_terms 3"),
        ("{name: beams, min_loads: 3}", "min_loads 3 is above max_loads 2"),
        ("{name: views, given: 5}", "given 5 is above fields 4"),
        ("{name: pipelines, min_length: 5}", "min_length 5 is above max_length 4"),
        ("{name: dialects, min_length: 8}", "min_length 8 is above max_length 6"),
        ("{name: dialects, ask: rewrite, speech: dialect}", "plain words are rewritten"),
        ("{name: published, set: gsm9k}", "unknown published set 'gsm9k'; did you mean 'gsm8k'?"),
        ("{name: published, set: spider, verifier: exact}", "spider is judged by code_tests"),
    ],
)
def test_contradictory_knobs_of_a_domain_are_one_line(tmp_path: Path, source: str, message: str) -> None:
    (found,) = messages(tmp_path, DOMAIN % source)
    assert message in found and PLACE.match(found) and "\n" not in found


MADE = """
stages:
  data:
    uses: curate
    %s
    with: {kind: prompts, sources: [{domain: words, count: 9, source: {name: reasoning_gym, task: chain_sum}}], %s}
  base: {uses: pretrain, in: {dataset: data.dataset}}
  first: {uses: evaluate, in: {model: base.model, dataset: data.dataset}}
  made: {uses: synthesize, in: {dataset: data.dataset%s}, with: {%s}}
"""
TEACHER = ", teachers: base.model"


@pytest.mark.parametrize(
    ("inputs", "settings", "message"),
    [
        ("", "generator: rejection", "asks the input 'teachers', which is not connected"),
        (", teachers: 'endpoint:large'", "generator: rejection", "unknown endpoint 'large'"),
        (TEACHER, "generator: rejektion", "unknown generator operator 'rejektion'; did you mean 'rejection'?"),
        (TEACHER, "generator: critiques", "asks the input 'judges', which is not connected"),
        (TEACHER + ", judges: base.model", "generator: rejection", "input 'judges' of stage 'made' is read by nothing"),
        (TEACHER, "generator: rejection, pass_rate: [0, 0.5]", "pass_rate asks the input 'ledger', which is not"),
        (TEACHER, "generator: rejection, pass_rate: [0.5, 0.2]", "expected 0 <= low <= high <= 1, found [0.5, 0.2]"),
        (TEACHER, "generator: rejection, difficulty: {num_samples: 4}", "difficulty asks the input 'policy', which"),
        (TEACHER, "generator: {name: skill_mix, k: 3, skills: [a, b]}", "k: 3 skills at once of 2 that are named"),
        (TEACHER, "generator: rejection, min_share: 1.5", "min_share: got 1.5, expected a number of at most 1"),
        (TEACHER, "generator: rejection, programs: [{name: careless, error_rate: 2}]", "error_rate: got 2, expected"),
    ],
)
def test_rows_that_cannot_be_made_are_one_line(tmp_path: Path, inputs: str, settings: str, message: str) -> None:
    (found,) = messages(tmp_path, MADE % ("", "", inputs, settings))
    assert message in found and PLACE.match(found) and "\n" not in found


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("difficulty: {num_samples: 4}", "difficulty asks the input 'policy', which is not connected"),
        ("selectors: [edge]", "selector 'edge' asks the input 'ledger', which is not connected"),
        ("mixture: fitted", "mixture fitted: set `size`, which it shares out among the sources"),
        ("shards: 0", "shards: got 0, expected a number of at least 1"),
        ("dedup: {near: {threshold: 2}}", "threshold: got 2, expected a number of at most 1"),
    ],
)
def test_rows_that_cannot_be_curated_are_one_line(tmp_path: Path, settings: str, message: str) -> None:
    (found,) = messages(tmp_path, MADE % ("", settings, TEACHER, "generator: rejection"))
    assert message in found and PLACE.match(found) and "\n" not in found


def test_what_has_its_inputs_is_not_refused(tmp_path: Path) -> None:
    more = TEACHER + ", ledger: first.metrics, policy: base.model"
    measured = "generator: rejection, pass_rate: [0, 0.5], difficulty: {num_samples: 4}"
    assert load(tmp_path, MADE % ("", "", more, measured))
