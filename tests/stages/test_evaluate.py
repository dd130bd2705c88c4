"""The evaluate stage end to end on toy models with known skills."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from components.contract.errors import InputError, StageFailed
from components.evaluate.component import COMPONENT
from components.measure.ledger import read_ledger
from components.measure.passk import pass_at_k
from tests.stages.toy_models import WORDS, prompt_row, prompt_rows, toy_models
from tests.support.stage_context import Finished, Interrupted, run_stage, write_jsonl

PARAMS = {"num_samples": 8, "max_new_tokens": 5, "bootstrap_samples": 300}
UNKNOWN = prompt_row("copy", "dd", verifier="no-such-verifier")
BROKEN = prompt_row("flip", "aa", answer="")


@pytest.fixture(scope="module")
def heldout(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    root = tmp_path_factory.mktemp("heldout")
    copy = write_jsonl(root / "copy", [*prompt_rows("copy"), UNKNOWN])
    return [copy, write_jsonl(root / "flip", [*prompt_rows("flip"), BROKEN])]


@pytest.fixture(scope="module")
def before(heldout: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Finished:
    inputs = {"model": toy_models().both, "dataset": heldout}
    return run_stage(COMPONENT, tmp_path_factory.mktemp("before"), params=PARAMS, inputs=inputs)


@pytest.fixture(scope="module")
def after(heldout: list[Path], before: Finished, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    inputs = {"model": toy_models().forgetful, "dataset": heldout, "baseline": before.outputs["metrics"]}
    return run_stage(COMPONENT, tmp_path_factory.mktemp("after"), params=PARAMS, inputs=inputs)


def read(finished: Finished, name: str) -> Any:
    return json.loads((finished.outputs["metrics"] / name).read_text())


def test_skills_are_measured_per_domain(before: Finished, after: Finished) -> None:
    assert before.metrics["pass_at_1_copy"] > 0.9 and before.metrics["pass_at_1_flip"] > 0.9
    assert after.metrics["pass_at_1_copy"] > 0.8 and after.metrics["pass_at_1_flip"] < 0.2
    by_domain = [after.metrics[f"pass_at_1_{name}"] for name in ("copy", "flip")]
    assert after.metrics["pass_at_1"] == pytest.approx(sum(by_domain) / 2)
    assert {"pass_at_8_copy", "maj_at_8_flip", "entropy", "mean_tokens"} <= set(after.metrics)


def test_failed_verifications_are_counted_and_in_no_denominator(before: Finished) -> None:
    assert before.metrics["num_failed"] == 16  # two prompts that cannot be verified, eight samples each
    ledger = read_ledger(before.outputs["metrics"])
    row = ledger["copy"][UNKNOWN["id"]]
    assert (row.num_right, row.num_wrong, row.num_failed) == (0, 0, 8)
    rows = [row for row in ledger["copy"].values() if not row.num_failed]
    assert len(rows) == len(WORDS)
    expected = sum(row.num_right / (row.num_right + row.num_wrong) for row in rows) / len(rows)
    entry = read(before, "metrics.json")["pass_at_1_copy"]
    assert entry["value"] == pytest.approx(expected) and entry["n"] == len(WORDS)
    samples = [json.loads(line) for line in (before.outputs["metrics"] / "samples.jsonl").read_text().splitlines()]
    failed = [sample for sample in samples if sample["outcome"] == "failed"]
    assert any("no-such-verifier" in sample["detail"] for sample in failed)
    assert any("broken item" in sample["detail"] for sample in failed)


def test_curves_hold_every_k_and_rise(after: Finished) -> None:
    curves, ledger = read(after, "pass_at_k.json"), read_ledger(after.outputs["metrics"])
    for domain, curve in curves.items():
        assert list(curve) == [str(k) for k in range(1, 9)]
        values = [curve[str(k)]["value"] for k in range(1, 9)]
        assert values == sorted(values)
        assert all(point["low"] <= point["value"] <= point["high"] for point in curve.values())
        rows = [row for row in ledger[domain].values() if not row.num_failed]
        assert values[3] == pytest.approx(sum(pass_at_k(8, row.num_right, 4) for row in rows) / len(rows))
    assert list(read(after, "maj_at_k.json")["copy"]) == list(curves["copy"])
    calibration = read(after, "calibration.json")["flip"]
    assert calibration["sequence_probability"]["count"] == 8 * len(WORDS)
    assert calibration["majority_share"]["overconfidence"] > 0.5  # it is sure, and wrong


def test_a_baseline_gives_paired_tests(after: Finished) -> None:
    comparison = read(after, "comparison.json")["flip"]
    assert comparison["num_prompts"] == len(WORDS)
    first = comparison["pass_at_1"]
    assert first["difference"]["high"] < -0.5
    assert first["p_permutation"] <= comparison["p_permutation_holm"] < 0.01
    assert first["only_theirs"] > 6 and first["p_mcnemar"] < 0.05
    assert after.metrics["delta_pass_at_1_flip"] == pytest.approx(first["difference"]["value"])
    assert "pass_at_8" in comparison


def test_a_killed_evaluation_ends_with_the_same_bytes(heldout: list[Path], before: Finished, tmp_path: Path) -> None:
    # 8 samples of 5 tokens: blocks of 3 prompts, a checkpoint every 2 blocks
    params = {**PARAMS, "max_batch_tokens": 120, "checkpoint_every": 2}
    options = {"params": params, "inputs": {"model": toy_models().both, "dataset": heldout}}
    straight = run_stage(COMPONENT, tmp_path / "straight", **options)
    with pytest.raises(Interrupted):
        run_stage(COMPONENT, tmp_path / "killed", stop_after=4, **options)
    resumed = run_stage(COMPONENT, tmp_path / "killed", **options)
    assert resumed.digests == straight.digests and resumed.metrics == straight.metrics
    assert straight.digests != before.digests  # other blocks draw other samples


def test_the_same_evaluation_has_the_same_bytes_and_another_seed_others(
    heldout: list[Path], before: Finished, tmp_path: Path
) -> None:
    inputs = {"model": toy_models().both, "dataset": heldout}
    assert run_stage(COMPONENT, tmp_path / "again", params=PARAMS, inputs=inputs).digests == before.digests
    assert run_stage(COMPONENT, tmp_path / "other", params=PARAMS, inputs=inputs, seed=1).digests != before.digests


def test_samples_per_domain_and_chosen_ks(heldout: list[Path], tmp_path: Path) -> None:
    params = {**PARAMS, "num_samples": {"copy": 4, "flip": 2}, "ks": [1, 3]}
    found = run_stage(COMPONENT, tmp_path, params=params, inputs={"model": toy_models().fresh, "dataset": heldout})
    curves = read(found, "pass_at_k.json")
    assert {domain: list(curve) for domain, curve in curves.items()} == {"copy": ["1", "3", "4"], "flip": ["1", "2"]}
    assert "pass_at_4_copy" in found.metrics and "pass_at_2_flip" in found.metrics
    assert found.metrics["entropy"] == pytest.approx(math.log(toy_vocabulary()), rel=0.05)  # an untrained model


def toy_vocabulary() -> int:
    return json.loads((toy_models().fresh / "config.json").read_text())["vocab_size"]


def test_greedy_decoding_draws_once(heldout: list[Path], tmp_path: Path) -> None:
    params = {**PARAMS, "num_samples": 1, "temperature": 0}
    found = run_stage(COMPONENT, tmp_path, params=params, inputs={"model": toy_models().both, "dataset": heldout})
    assert found.metrics["pass_at_1_copy"] == 1.0
    with pytest.raises(ValueError, match="temperature 0"):
        COMPONENT.params.model_validate({**PARAMS, "temperature": 0})


def test_nothing_to_measure_is_an_error_that_says_why(tmp_path: Path) -> None:
    data = write_jsonl(tmp_path / "data", [UNKNOWN])
    with pytest.raises(StageFailed, match="no-such-verifier"):
        run_stage(COMPONENT, tmp_path / "a", params=PARAMS, inputs={"model": toy_models().both, "dataset": data})


@pytest.mark.parametrize(
    ("rows", "params", "message"),
    [
        ([], {}, "nothing to measure on"),
        ([prompt_row("copy", "ab"), prompt_row("copy", "ab", answer="x")], {}, "two different prompts"),
        (prompt_rows("copy"), {"num_samples": {"flip": 2}}, "no number for domain 'copy'"),
        (prompt_rows("copy"), {"num_samples": {"copy": 2, "cpoy": 2}}, "did you mean 'copy'"),
        ([{**prompt_row("copy", "ab"), "domain": d, "id": d} for d in ("a-b", "a b")], {}, "rename one"),
    ],
)
def test_wrong_input_gets_one_clear_message(
    rows: list[dict[str, Any]], params: dict[str, Any], message: str, tmp_path: Path
) -> None:
    data = write_jsonl(tmp_path / "data", rows)
    inputs = {"model": toy_models().fresh, "dataset": data}
    with pytest.raises(InputError, match=message):
        run_stage(COMPONENT, tmp_path / "run", params={**PARAMS, **params}, inputs=inputs)


def test_a_baseline_on_other_prompts_is_refused(before: Finished, tmp_path: Path) -> None:
    data = write_jsonl(tmp_path / "data", [prompt_row("copy", "abc")])
    inputs = {"model": toy_models().both, "dataset": data, "baseline": before.outputs["metrics"]}
    with pytest.raises(InputError, match="shares no prompt"):
        run_stage(COMPONENT, tmp_path / "run", params=PARAMS, inputs=inputs)
