"""Metrics, diagnostics and strategies of the evaluate stage, end to end on toy models with known skills."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from components.contract.errors import InputError
from components.evaluate.component import COMPONENT
from components.measure.ledger import read_ledger
from tests.stages.toy_models import WORDS, prompt_rows, toy_models
from tests.support.stage_context import Finished, run_stage, write_jsonl

PARAMS = {"num_samples": 4, "max_new_tokens": 5, "bootstrap_samples": 200}
CHOSEN: dict[str, Any] = {
    "metrics": ["diversity", "verbal_brier", "coreset_calls"],
    "diagnostics": ["verbal_confidence", "diversity"],
    "strategies": ["majority", {"name": "best_of_n", "by": "probability"}, {"name": "coreset", "features": "words"},
                   {"name": "weighted_vote", "by": "mean_probability"}],
}  # fmt: skip
AGAINST = {"diagnostics": ["boundary", "support"], "metrics": ["diversity"]}


@pytest.fixture(scope="module")
def heldout(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    root = tmp_path_factory.mktemp("chosen")
    return [write_jsonl(root / name, prompt_rows(name)) for name in ("copy", "flip")]


@pytest.fixture(scope="module")
def base(heldout: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Finished:
    inputs = {"model": toy_models().both, "dataset": heldout}
    return run_stage(COMPONENT, tmp_path_factory.mktemp("base"), params=PARAMS | CHOSEN, inputs=inputs)


@pytest.fixture(scope="module")
def later(heldout: list[Path], base: Finished, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    models = toy_models()
    inputs = {"model": models.forgetful, "dataset": heldout, "baseline": base.outputs["metrics"]}
    inputs["reference"] = models.both
    return run_stage(COMPONENT, tmp_path_factory.mktemp("later"), params=PARAMS | AGAINST, inputs=inputs)


def read(finished: Finished, name: str) -> Any:
    return json.loads((finished.outputs["metrics"] / name).read_text())


def test_without_operators_only_the_known_files_are_written(
    heldout: list[Path], tmp_path: Path, base: Finished
) -> None:
    plain = run_stage(COMPONENT, tmp_path, params=PARAMS, inputs={"model": toy_models().both, "dataset": heldout})
    names = {path.name for path in plain.outputs["metrics"].iterdir()}
    known = {"metrics.json", "pass_at_k.json", "maj_at_k.json", "calibration.json", "passrates.jsonl", "samples.jsonl"}
    assert names == known
    for name in known - {"metrics.json"}:
        mine, other = (finished.outputs["metrics"] / name for finished in (plain, base))
        assert mine.read_bytes() == other.read_bytes(), "operators only add"
    assert read(plain, "metrics.json").items() <= read(base, "metrics.json").items()


def test_every_number_is_in_the_headline_and_in_the_file(base: Finished) -> None:
    entries = read(base, "metrics.json")
    for name in ("ead_copy", "ead", "paths_flip", "verbal_score_copy", "verbal_unstated_copy", "ead_within_copy"):
        assert base.metrics[name] == entries[name]["value"]
    assert base.metrics["verbal_score_copy"] == 1.0, "nothing was stated, which has the worst score"
    assert base.metrics["verbal_unstated_copy"] == 4 * len(WORDS)
    assert "verbal_ece_copy" not in base.metrics, "there is no confidence to be calibrated"


def test_strategies_stand_beside_their_tokens(base: Finished) -> None:
    for k in (1, 2, 4):
        assert base.metrics[f"maj_tokens_at_{k}_copy"] == pytest.approx(k * base.metrics["mean_tokens_copy"])
    pass_at_1 = base.metrics["pass_at_1_flip"]
    for name in ("maj", "best", "vote"):
        assert base.metrics[f"{name}_at_1_flip"] == pytest.approx(pass_at_1), "one sample leaves no choice"
    assert base.metrics["coreset_at_4_copy"] == pytest.approx(base.metrics["pass_at_4_copy"])
    assert base.metrics["coreset_tokens_at_1_copy"] == pytest.approx(4 * base.metrics["mean_tokens_copy"])
    charts = read(base, "views.json")["strategies"]["charts"]
    assert [chart["title"] for chart in charts] == ["copy", "flip"] and len(charts[0]["lines"]) == 4


def test_the_boundary_is_that_of_both_ledgers(base: Finished, later: Finished) -> None:
    ledgers = [read_ledger(finished.outputs["metrics"])["flip"] for finished in (base, later)]
    solved = {(bool(ledgers[0][name].num_right), bool(ledgers[1][name].num_right)) for name in ledgers[0]}
    assert (True, False) in solved, "the model forgot"
    counted = [
        sum((bool(ledgers[0][name].num_right), bool(row.num_right)) == cell for name, row in ledgers[1].items())
        for cell in ((True, True), (True, False), (False, True), (False, False))
    ]
    cells = ("solved_both", "solved_base_only", "solved_here_only", "solved_none")
    assert [later.metrics[f"{name}_flip"] for name in cells] == counted
    shares = [later.metrics[f"support_{name}_flip"] for name in ("preserved", "shrunk", "expanded", "out")]
    assert shares == pytest.approx([count / len(WORDS) for count in counted])
    assert later.metrics["crosses_flip"] == 1.0 and later.metrics["crossover_k_flip"] == 1.0
    gap = base.metrics["pass_at_4_flip"] - later.metrics["pass_at_1_flip"]
    assert later.metrics["gap_to_base_flip"] == pytest.approx(gap)


def test_what_the_base_would_not_have_written_has_a_high_perplexity(later: Finished) -> None:
    theirs, own = (later.metrics[f"reference_{name}perplexity_flip"] for name in ("", "own_"))
    assert own < 1.5 < theirs
    assert later.metrics["reference_perplexity_copy"] < 1.5


def test_metrics_pair_with_the_baseline_by_prompt(base: Finished, later: Finished) -> None:
    found = later.metrics["delta_paths_flip"]
    assert found == pytest.approx(later.metrics["paths_flip"] - base.metrics["paths_flip"])
    rows = (later.outputs["metrics"] / "prompt_values.jsonl").read_text().splitlines()
    assert len(rows) == 2 * len(WORDS)


def test_the_same_again_gives_the_same_bytes(heldout: list[Path], base: Finished, tmp_path: Path) -> None:
    inputs = {"model": toy_models().both, "dataset": heldout}
    assert run_stage(COMPONENT, tmp_path, params=PARAMS | CHOSEN, inputs=inputs).digests == base.digests


def test_unequal_numbers_of_samples_are_refused(heldout: list[Path], base: Finished, tmp_path: Path) -> None:
    inputs = {"model": toy_models().both, "dataset": heldout, "baseline": base.outputs["metrics"]}
    with pytest.raises(
        InputError, match="diagnostic boundary: 2 samples of each prompt of 'copy' here, 4 in the baseli"
    ):
        run_stage(COMPONENT, tmp_path, params=PARAMS | AGAINST | {"num_samples": 2}, inputs=inputs)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"ks": [1, 16]}, "ks: 16 is more than the samples of a prompt, num_samples: 4"),
        ({"diagnostics": [{"name": "support", "k": 8}]}, "diagnostic support: needs 8 samples of every prompt"),
        ({"strategies": ["coreset"], "num_samples": 1}, "strategy coreset: needs 2 samples of every prompt"),
        ({"strategies": ["best_of_n", {"name": "best_of_n", "by": "probability"}]}, "'best' is given 2 times.*a label"),
        ({"exact": True, "metrics": ["diversity"]}, "exact: no samples are drawn, which operator diversity measures"),
    ],
)
def test_what_does_not_fit_is_told_at_once(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        COMPONENT.params.model_validate(PARAMS | params)
