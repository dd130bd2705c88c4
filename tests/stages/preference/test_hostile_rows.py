"""Rows that are well formed and still hostile: scores that float32 cannot tell apart, very long ones, shared names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from components.preference.component import COMPONENT
from components.preference.params import PreferenceParams
from components.preference.reading import Read, read_candidates
from components.preference.run import _tail
from tests.stages.preference.data import pairs_folder
from tests.stages.supervised_data import base_model
from tests.support.stage_context import run_stage

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
