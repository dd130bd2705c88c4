"""Judges at the evaluate stage: a real model is asked, and what it cannot say is counted."""

from __future__ import annotations

import json
from pathlib import Path

from components.evaluate.component import COMPONENT, asks
from components.evaluate.params import EvaluateParams
from components.judges.master_keys import KEYS
from tests.stages.toy_models import WORDS, prompt_rows, toy_models
from tests.support.stage_context import run_stage, write_jsonl

PARAMS = {"num_samples": 2, "max_new_tokens": 5, "bootstrap_samples": 100}


def test_a_model_that_is_no_judge_is_never_read(tmp_path: Path) -> None:
    """The toy copies and flips words: it says none of the labels, and no share is made up of that."""
    asked = {"labels": {"y": 1, "n": 0}, "mark": "", "fence": "quoted", "max_new_tokens": 5}
    diagnostics = [
        {"name": "master_keys", **asked, "template": "copy {response}"},
        {"name": "master_keys", **asked, "template": "copy {response}", "reading": "probability", "min_mass": 0},
    ]
    inputs = {
        "model": toy_models().both,
        "dataset": [write_jsonl(tmp_path / "rows", prompt_rows("copy"))],
        "judges": [toy_models().both],
    }
    unread, read = [
        run_stage(COMPONENT, tmp_path / str(at), params=PARAMS | {"diagnostics": [one]}, inputs=inputs)
        for at, one in enumerate(diagnostics)
    ]
    assert unread.metrics["judge_unread_copy"] == len(WORDS) * (len(KEYS) + 2)
    assert "key_rate_worst_copy" not in unread.metrics
    assert read.metrics["judge_unread_copy"] == 0 and 0 <= read.metrics["key_rate_worst_copy"] <= 1
    views = json.loads((read.outputs["metrics"] / "views.json").read_text())
    assert [table["title"] for table in next(iter(views.values()))["tables"]] == [
        "keys marked right",
        "judge and verifier",
    ]


def test_the_port_is_asked_for() -> None:
    params = EvaluateParams.model_validate({**PARAMS, "diagnostics": ["master_keys", "pairwise_judge"]})
    assert len(asks(params)["judges"]) == 2
