"""Views of diagnostics and the reward audit on the page: tables and charts are there, and hostile text is only text."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from components.measure.harness.views import Chart, Line, View, ViewTable, write_views
from components.measure.intervals import Interval
from pipelines.report.page import render_page
from tests.pipelines.report.made import MadeRun, lines

HOSTILE = "<img src=x onerror=alert(1)>\x1b[2J\u202e"


def view(name: str = "sums") -> View:
    rows: list[list[Any]] = [[name, Interval(0.25, 0.2, 0.3, 9), 3.0, None, 0.5]]
    line = Line(name, [(0.1, 0.2), (0.9, 0.7)], [(0.0, 0.4), (0.6, 0.8)], marks=True)
    table = ViewTable("calibration", ["domain", "ECE", "unstated", "none", "plain"], rows)
    return View("How to read it.", {}, [table], [Chart("reliability", [line], "stated", "right, %", diagonal="even")])


def page(folder: Path, shown: View) -> str:
    run = MadeRun(folder)
    stage = run.evaluate({"sums": [1, 2]}, source="sft")
    write_views(stage.files["metrics"], {"verbal confidence": shown})
    return render_page(run.data)


def test_a_view_is_drawn_whole(tmp_path: Path) -> None:
    text = page(tmp_path, view())
    assert "<h2>Diagnostics</h2>" in text and "verbal confidence: evaluate" in text and "How to read it." in text
    assert "0.250 <small>[0.200, 0.300]</small>" in text and ">3<" in text and ">0.500<" in text
    assert "reliability" in text and "even" in text and text.count('class="whisker') >= 2


def test_a_hostile_domain_is_text(tmp_path: Path) -> None:
    text = page(tmp_path, view(HOSTILE))
    assert "<img" not in text and "&lt;img src=x" in text


def test_a_view_that_is_none_is_told_and_hides_no_other(tmp_path: Path) -> None:
    run = MadeRun(tmp_path)
    stage = run.evaluate({"sums": [1, 2]}, source="sft")
    (stage.files["metrics"] / "views.json").write_text('{"broken": {"text": 1}}')
    text = render_page(run.data)
    assert "cannot be shown" in text and "Skills after each stage" in text


def trained(folder: Path, *, praised: bool) -> str:
    run, rng = MadeRun(folder), random.Random(0)
    history = [
        {"step": step, "reward_mean": 0.1 * step, "pass_rate": 0.5, "reward_score": 0.5, "reward_praise": 0.1 * step}
        for step in range(1, 21)
    ]
    if not praised:
        history = [{"step": row["step"], "reward_mean": 0.5, "pass_rate": 0.5} for row in history]
    rows = []
    for place in range(120):
        has = place % 3 == 0
        response = " ".join(rng.choice("abcdef") for _ in range(5)) + (f" {HOSTILE}" if has else "")
        row = {
            "step": 1,
            "outcome": "wrong",
            "response": response,
            "num_tokens": 5 + has,
            "prompt_id": "p",
            "domain": "d",
        }
        rows.append(row | {"reward": 1.0 * (has and praised)})
    stage = run.add("rl", "rl", files={"history.jsonl": lines(history), "rows.jsonl": lines(rows)})
    stage.files["rollouts"] = stage.files["metrics"]
    return render_page(run.data)


def test_the_audit_shows_what_pays_and_what_moves(tmp_path: Path) -> None:
    text = trained(tmp_path, praised=True)
    assert "<h2>Reward audit</h2>" in text and "praise" in text and "pass rate" in text
    assert "<img" not in text and "\x1b" not in text and "\u202e" not in text
    assert "onerror = alert" in text, "the phrase itself, as text"


def test_a_reward_that_is_its_verdict_has_no_audit(tmp_path: Path) -> None:
    assert "<h2>Reward audit</h2>" not in trained(tmp_path, praised=False)
