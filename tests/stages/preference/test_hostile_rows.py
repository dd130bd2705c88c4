"""Rows that are well formed and still hostile: scores that float32 cannot tell apart, very long ones, shared names."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.contract.errors import InputError
from components.modeling.text.overlong import Limit
from components.preference.comparisons import Comparison, fitting, with_others
from components.preference.component import COMPONENT
from components.preference.params import PreferenceParams
from components.preference.reading import Read, read_candidates
from components.preference.run import _tail
from tests.stages.preference.data import pairs, pairs_folder
from tests.stages.supervised_data import base_model
from tests.support.stage_context import Lines, run_stage

STEP = {"steps": 1, "batch_size": 4}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return base_model(tmp_path_factory.mktemp("model") / "model")


def read(folder: Path, rows: list[dict[str, Any]], loss: str, bad_rows: Any = "refuse") -> Read:
    config = PreferenceParams.model_validate({"preference_loss": loss}).comparing
    return read_candidates([pairs_folder(folder, rows)], loss, config, bad_rows)


def scored(*scores: float, prompt: str = "?") -> list[dict[str, Any]]:
    texts = ("<answer>1", "<answer>2", "<answer>3")
    return [{"prompt": prompt, "completion": text, "score": score} for text, score in zip(texts, scores, strict=False)]


def test_scores_that_are_equal_in_float32_alone_are_ranked_and_measured(model: Path, tmp_path: Path) -> None:
    data = pairs_folder(tmp_path / "data", scored(0.3, 0.1 + 0.2))
    given = {"model": model, "dataset": data, "validation": data}
    found = run_stage(COMPONENT, tmp_path / "run", params={"preference_loss": "ranking", **STEP}, inputs=given)
    assert found.history[-1]["accuracy"] in (0, 1) and abs(found.history[-1]["margin"]) < 100
    assert {"accuracy", "margin", "validation_accuracy", "validation_margin"} <= found.metrics.keys()


def test_a_list_holds_ranks(tmp_path: Path) -> None:
    (found,) = read(tmp_path, scored(0.5, 1e30, 0.5), "ranking").examples
    assert found.responses == ("<answer>2", "<answer>1", "<answer>3")
    assert found.scores == (1.0, 0.0, 0.0)


def test_a_column_that_was_not_finite_at_times_is_a_mean_of_the_other_rows() -> None:
    class Ctx:
        def history(self) -> list[dict[str, float]]:
            return [{"loss": 1.0, "accuracy": 0.0}, {"loss": 1.0}, {"loss": 1.0, "accuracy": 1.0}]

    assert _tail(Ctx()) == {"accuracy": 0.5}  # type: ignore[arg-type]


def single(prompt: int, response: int, length: int = 1) -> Comparison:
    return Comparison(prompt=(prompt,), responses=((response,) * length,), scores=(1.0,))


@given(prompts=st.lists(st.integers(0, 2), min_size=2).filter(lambda prompts: len(set(prompts)) > 1))
def test_the_other_response_is_the_nearest_before_of_another_prompt(prompts: list[int]) -> None:
    rows = [single(prompt, 10 + at) for at, prompt in enumerate(prompts)]
    for at, one in enumerate(with_others(rows, 8)):
        before = next(rows[at - back] for back in range(1, len(rows)) if rows[at - back].prompt != one.prompt)
        assert one == replace(rows[at], other=before.responses[0])


def test_many_rows_of_one_prompt_are_paired_in_one_pass() -> None:
    started = time.process_time()
    found = with_others([single(0, 2), *(single(1, 3) for _ in range(20_000))], 8)
    assert {one.other for one in found[1:]} == {(2,)} and time.process_time() - started < 5


def test_a_divergence_of_pairs_is_estimated_from_both_sides(tmp_path: Path) -> None:
    rows = [{"prompt": f"{at}?", "chosen": f"good {at}", "rejected": f"bad {at}"} for at in range(4)]
    found = read(tmp_path, rows, "kto").examples
    places = {one.task: at for at, one in enumerate(found)}
    made = with_others([single(places[one.task], at) for at, one in enumerate(found)], 8)
    others = [found[one.other[0]].responses[0].split()[0] for one in made if one.other]
    assert sorted(others) == ["bad"] * 4 + ["good"] * 4


def test_a_long_response_of_another_row_is_cut_and_drops_none() -> None:
    rows = [Comparison(prompt=(0,) * 5, responses=((1, 1),), scores=(1.0,)), single(2, 3, length=7), single(4, 5, 8)]
    found = fitting(rows, Limit(8, "max_tokens 8"), "drop", Lines()).kept
    assert found == rows[:2], "each is as long as its own response makes it"
    first, second = with_others(found, 8)
    assert first.other == (3,) * 3 and second.other == (1, 1)


def test_long_held_out_examples_are_not_measured_and_counted(model: Path, tmp_path: Path) -> None:
    short, long = "<answer>1", "<answer>" + "1" * 40
    rows = [{"prompt": "?", "chosen": chosen, "rejected": "<answer>2"} for chosen in (short, long, short)]
    given = {"model": model, "dataset": pairs_folder(tmp_path / "data", rows)}
    held_out = given | {"validation": given["dataset"]}
    found = run_stage(COMPONENT, tmp_path / "run", params={"max_tokens": 16, **STEP}, inputs=held_out)
    assert found.metrics["num_overlong"] == found.metrics["num_overlong_validation"] == 1
    assert found.metrics["num_examples"] == 2
    of_two = given | {"validation": pairs_folder(tmp_path / "two", [rows[0], rows[2]])}
    two = run_stage(COMPONENT, tmp_path / "two-run", params={"max_tokens": 16, **STEP}, inputs=of_two)
    assert two.metrics["validation_loss"] == found.metrics["validation_loss"]
    assert "num_overlong_validation" not in two.metrics
    only = given | {"validation": pairs_folder(tmp_path / "only", [rows[1]])}
    with pytest.raises(InputError, match=r"none of 1 examples has at most 16 \(max_tokens 16\) tokens"):
        run_stage(COMPONENT, tmp_path / "only-run", params={"max_tokens": 16, **STEP}, inputs=only)


@pytest.mark.parametrize("domains", [("a b", "a-b"), ("", "unnamed")])
def test_domains_whose_metrics_would_have_one_name_are_refused(tmp_path: Path, domains: tuple[str, str]) -> None:
    rows = [{"prompt": "?", "chosen": "!", "rejected": ".", "domain": name} for name in domains]
    with pytest.raises(InputError, match="rename") as raised:
        read(tmp_path / "data", rows, "dpo")
    assert "\n" not in str(raised.value)
    assert len(read(tmp_path / "one", rows[:1], "dpo").examples) == 1


def test_a_response_that_is_scored_twice_has_one_score(tmp_path: Path) -> None:
    rows = [*scored(1.0, 0.0), *scored(0.5), *scored(0.25, prompt="another one")]
    with pytest.raises(InputError, match=r"^rows\.jsonl:3: score 0.5 of the response '<answer>1', which an"):
        read(tmp_path / "refused", rows, "ranking")
    dropped = read(tmp_path / "dropped", rows, "ranking", "drop")
    assert dropped.num_bad == dropped.num_unranked == 1 and len(dropped.examples) == 1
    assert read(tmp_path / "copies", [*scored(1.0, 0.0)] * 2, "ranking").num_bad == 0


def test_the_loss_of_a_domain_is_what_its_rows_alone_would_lose(model: Path, tmp_path: Path) -> None:
    params = {"preference_loss": {"name": "dpo", "sft": 0.5}, "steps": 1, "batch_size": 8}
    given = {"model": model, "dataset": pairs_folder(tmp_path / "data", pairs(8))}
    both = run_stage(COMPONENT, tmp_path / "both", params=params, inputs=given).history[0]
    for domain in ("sums", "words"):
        own = pairs_folder(tmp_path / f"{domain}-data", [row for row in pairs(8) if row["domain"] == domain])
        alone = run_stage(COMPONENT, tmp_path / domain, params=params, inputs=given | {"dataset": own}).history[0]
        assert both[f"loss_{domain}"] == pytest.approx(alone["loss"], rel=1e-5) and alone["loss"] > 1
