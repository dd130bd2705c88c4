"""Operators that measure, in recipes: what they need is checked, and what they give can be named by conditions."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipelines.writing import load, messages

RECIPE = """
stages:
  data:
    uses: curate
    with: {kind: prompts, sources: [{domain: sums, count: 9, source: {name: reasoning_gym, task: chain_sum}}]}
  base: {uses: pretrain, in: {dataset: data.dataset}}
  first: {uses: evaluate, in: {model: base.model, dataset: data.dataset}, with: {num_samples: 8}}
  rl: {uses: rl, in: {model: base.model, dataset: data.dataset}}
  last:
    uses: evaluate
    in: {model: rl.model, dataset: data.dataset%s}
    with: {num_samples: 8%s}
%s
"""
BASELINE = ", baseline: first.metrics"


def test_what_operators_give_can_be_gated(tmp_path: Path) -> None:
    text = RECIPE % (
        BASELINE,
        ", diagnostics: [support, verbal_confidence], metrics: [diversity], strategies: [best_of_n]",
        "    gate: [support_nscr_sums >= -0.5, verbal_ece_sums < 0.3, ead > 0, best_at_8_sums > 0.1]",
    )
    (stage,) = (stage for stage in load(tmp_path, text).stages if stage.name == "last")
    assert len(stage.gate) == 4


@pytest.mark.parametrize(
    ("inputs", "settings", "more", "message"),
    [
        ("", ", diagnostics: [support]", "", "diagnostic 'support' asks the input 'baseline', which is not connected"),
        (BASELINE, "", "    gate: [support_nscr_sums >= 0]", "unknown metric of 'evaluate': 'support_nscr_sums'"),
        (", reference: base.model", "", "", "input 'reference' of stage 'last' is read by nothing"),
        ("", ", strategies: [{name: best_of_n, by: scorer}]", "", "asks the input 'scorers', which is not connected"),
        ("", ", metrics: [diversty]", "", "unknown metric operator 'diversty'; did you mean 'diversity'"),
        (BASELINE, ", diagnostics: [{name: boundary, k: 16}]", "", "boundary: needs 16 samples of every prompt"),
        ("", ", ks: [1, 32]", "", "ks: 32 is more than the samples of a prompt, num_samples: 8"),
        ("", ", diagnostics: [{name: verbal_confidence, tag: '<b>'}]", "", "diagnostics.0.tag"),
    ],
)
def test_what_is_missing_is_one_line(tmp_path: Path, inputs: str, settings: str, more: str, message: str) -> None:
    (found,) = messages(tmp_path, RECIPE % (inputs, settings, more))
    assert message in found


@pytest.mark.parametrize(
    ("metric", "why"),
    [
        ("pass_at_32_sums", "pass_at_32_sums is not measured: 32 is more than the samples of a prompt, num_samples: 8"),
        ("pass_at_3_sums", "pass_at_3_sums is not measured: ks are 1, 4, 8"),
        ("maj_at_4_sums", "maj_at_4_sums is not measured: the majority is that of all 8 samples"),
        ("pass_at_4_sums", ""),
        ("maj_at_8_sums", ""),
    ],
)
def test_conditions_on_a_k_that_is_not_measured_are_one_line(tmp_path: Path, metric: str, why: str) -> None:
    text = RECIPE % ("", ", ks: [1, 4]", f"    gate: {metric} > 0.1")
    found = messages(tmp_path, text) if why else [] if load(tmp_path, text) else [""]
    assert [line.partition(" ")[2] for line in found] == ([why] if why else [])


def test_a_hallmark_names_no_k_above_the_samples(tmp_path: Path) -> None:
    text = """
    name: rules-too-far
    summary: A hallmark of more samples than are drawn
    extends: testbed-rules
    matrix: {arm: {method: {method: dapo}}}
    hallmark:
      catalogue: 1
      claim: It rises
      outcome:
        name: far
        value: evaluate.pass_at_512_words
        direction: higher
        floor: 0.1
        floor_from: a guess
    """
    (found,) = messages(tmp_path, text)
    assert "hallmark: pass_at_512_words is not measured: 512 is more than the samples of a prompt" in found


def test_a_reference_of_the_boundary_may_be_left_out(tmp_path: Path) -> None:
    for inputs in (BASELINE, BASELINE + ", reference: base.model"):
        assert load(tmp_path, RECIPE % (inputs, ", diagnostics: [boundary]", ""))
