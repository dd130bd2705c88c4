"""Headline metrics: as their component declares them, whether a stage ran or its result was stored."""

from __future__ import annotations

import io
import time

import pytest

from components.contract.headlines import in_order
from components.contract.job import Job
from pipelines.runs.view import PlainView, StageState, stage_row

pytestmark = pytest.mark.usefixtures("toy_catalog")

STORED = {"a_time": 3.0, "kl": 0.25, "pass_rate": 0.5}
"""By the alphabet, as the store keeps them."""
TOLD = "pass_rate 0.5  kl 0.25  a_time 3"


def test_declared_metrics_come_first_in_their_order() -> None:
    assert list(in_order("rl", STORED)) == ["pass_rate", "kl", "a_time"]
    assert list(in_order("evaluate", {"entropy": 1.0, "pass_at_16": 0.5, "pass_at_2": 0.25})) == [
        *["pass_at_16", "pass_at_2"],
        "entropy",
    ]
    assert list(in_order("not-installed", STORED)) == list(STORED)


def test_real_components_tell_what_matters_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    stored = ["entropy", "finished_share_sums", "maj_at_2_sums", "pass_at_1", "pass_at_1_sums", "pass_at_2_sums"]
    assert list(in_order("evaluate", dict.fromkeys(stored, 0.5))) == [
        *["pass_at_1", "pass_at_1_sums", "pass_at_2_sums", "maj_at_2_sums", "entropy", "finished_share_sums"],
    ]


def test_a_cached_stage_shows_them_as_its_first_run_did() -> None:
    job = Job(run_id="r", recipe="r", stage="rl", component="rl", params={}, inputs={}, seed=0, store="s")
    stream = io.StringIO()
    event = {"event": "finished", "stage": "rl", "time": time.time(), "status": "done", "seconds": 0.0}
    PlainView([job], stream).event({**event, "cache": "hit", "metrics": STORED})
    assert stream.getvalue().rstrip().endswith(f"cached    0.0 s  {TOLD}")
    state = StageState("rl", "rl")
    state.take({**event, "cache": "hit", "metrics": STORED})
    assert str(stage_row(state, "")[-1]) == f"cached  {TOLD}"
