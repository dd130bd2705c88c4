"""Pages of matrices: arms are side by side and never a sequence; chains, seeds and repeats are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from pipelines.report.evaluations import result_tables
from pipelines.report.labels import ELLIPSIS
from pipelines.report.page import render_page
from tests.pipelines.report.made import MadeRun

HOSTILE = "<script>alert(1)</script>\"'&{{ 7 * 7 }}"
LONG = "a-rate-whose-name-is-far-too-long-for-the-room-below-a-chart-or-in-a-box-of-the-graph"


def section(page: str, title: str) -> str:
    """Return what stands below a title of the page; "" if it is not there."""
    found = re.search(rf"<section id=[^>]*><h2>{re.escape(title)}</h2>(.*?)</section>", page, re.DOTALL)
    return re.sub(r">\s+<", "><", found[1]).strip() if found else ""


def matrix(folder: Path, values: Sequence[object], axis: str = "rate") -> MadeRun:
    """Return a run of SFT with a matrix of one axis, and a base that all arms share."""
    run = MadeRun(folder)
    run.train([3.0, 2.0], group="base")
    run.evaluate({"sums": [0, 1, 0]}, group="eval-base", source="base")
    for place, value in enumerate(values, start=1):
        made = run.train([3.0, 2.0], {axis: value}, source="base", params={"rate": value, "steps": 5})
        run.evaluate({"sums": [min(place, 4), min(place, 4), 0]}, {axis: value}, source=made.name)
    return run


def test_a_matrix_is_told_as_arms(tmp_path: Path) -> None:
    page = render_page(matrix(tmp_path, [0.001, 0.01]).data)
    skills = section(page, "Skills after each stage")
    assert "of each arm of the matrix over rate" in skills and "Lines join the models" not in skills
    bars = re.findall(r'<span class="named">(.*?)</span><span class="amount">([\d.+-]+)', skills)
    assert bars == [("base", "8.3"), ("rate=0.001", "16.7"), ("rate=0.01", "33.3"), ("rate=0.01", "+16.7")]
    assert "<h3>Minus rate=0.001</h3>" in skills and "Differences on the same prompts" in skills
    assert "<th>rate</th><th>model</th>" in skills and "<td>all</td><td>base</td>" in skills
    ways = re.findall(r'<path class="line c(\d)" d="M([^"]*)"><title>(.*?)</title>', skills)
    assert [(colour, title, path.count("L")) for colour, path, title in ways] == [
        ("5", "all arms", 0),
        ("0", "rate=0.001", 1),
        ("1", "rate=0.01", 1),
    ], "each arm's line goes from the shared base to its own model; none goes from arm to arm"
    assert "<td>rate=0.01</td><td>0.01</td>" in section(page, "What the arms set")
    assert "steps" not in section(page, "What the arms set"), "only what differs"


def test_seeds_are_pooled_and_stay_a_chain(tmp_path: Path) -> None:
    run = MadeRun(tmp_path)
    for seed in (0, 1, 2):
        for number, group in enumerate(("sft", "rl")):
            made = run.train([3.0, 2.0], {"seed": seed}, group=group)
            run.evaluate({"sums": [seed, number]}, {"seed": seed}, group=f"eval-{group}", source=made.name)
    page = render_page(run.data)
    skills = section(page, "Skills after each stage")
    assert "Lines join the models in the order of the recipe; small dots are single seeds" in skills
    assert re.findall(r"<tr><td>(.*?)</td>", skills) == ["sft", "rl"]
    assert not section(page, "What the arms set")


def test_rounds_of_a_repeat_are_a_chain(tmp_path: Path) -> None:
    run = MadeRun(tmp_path)
    for number in (1, 2, 3):
        run.train([3.0, 2.0], {"round": number}, group="loop.sft", name=f"loop-{number}-sft")
        source = f"loop-{number}-sft"
        run.evaluate(
            {"sums": [number]}, {"round": number}, group="loop.eval", name=f"loop-{number}-eval", source=source
        )
    skills = section(render_page(run.data), "Skills after each stage")
    assert "Lines join the models" in skills
    assert re.findall(r"<tr><td>(.*?)</td>", skills) == ["loop-1-sft", "loop-2-sft", "loop-3-sft"]


def test_an_arm_without_a_result_is_there_with_the_reason(tmp_path: Path) -> None:
    run = matrix(tmp_path, [0.001])
    run.add("evaluate", "evaluate", {"rate": 10}, ended=False, error="the loss is not finite")
    run.add("evaluate", "evaluate", {"rate": 20}, ended=False)
    skills = section(render_page(run.data), "Skills after each stage")
    assert '<span class="named">rate=10</span><span class="amount">failed</span>' in skills
    assert '<span class="named">rate=20</span><span class="amount">not run</span>' in skills
    assert "Minus" not in skills, "one arm alone differs from nothing"


def test_a_stage_that_waits_for_a_person_says_what_to_do(tmp_path: Path) -> None:
    run = MadeRun(tmp_path)
    run.train([3.0, 2.0])
    run.add("publish", "evaluate", ended=False).question = f"Publish {HOSTILE}?"
    run.add("later", "evaluate", ended=False)
    graph = section(render_page(run.data), "The run")
    assert [stage.status for stage in run.data.stages] == ["done", "waiting", "not run"]
    assert 'class="stage waiting"' in graph and "posttrain approve made-1 publish    # or with --reject" in graph
    assert "waits for approval: Publish" in graph and "<script" not in graph


def test_evaluations_outside_of_the_matrix_belong_to_the_arm_whose_model_they_measure(tmp_path: Path) -> None:
    run = MadeRun(tmp_path)
    for place, method in enumerate(("grpo", "dapo")):
        made = run.train([3.0, 2.0], {"method": method}, group="rl")
        run.evaluate({"sums": [place, 3]}, group=f"eval-{method}", source=made.name)
    (table,) = result_tables(run.data)
    assert [item.model for item in table.evaluations] == ["rl [method=grpo]", "rl [method=dapo]"]
    assert "of each arm of the matrix over method" in section(render_page(run.data), "Skills after each stage")


@pytest.mark.parametrize("shown", [HOSTILE, LONG, "x" * 300, "\u8bcd" * 60])
def test_values_of_axes_are_text_and_fit(tmp_path: Path, shown: str) -> None:
    page = render_page(matrix(tmp_path, [shown, "other"]).data)
    assert "<script" not in page and ">49<" not in page
    for text in re.findall(r"<text[^>]*>(.*?)</text>", page):
        label = re.sub(r"<title>.*?</title>|<[^>]*>|&[#\w]+;", "", text)
        assert len(label) < 60, "what does not fit ends in an ellipsis"


def test_a_matrix_of_many_arms_is_drawn_as_bars_alone(tmp_path: Path) -> None:
    skills = section(render_page(matrix(tmp_path, list(range(39))).data), "Skills after each stage")
    assert skills.count('<span class="named">rate=') == 39 + 38 and "Along the recipe" not in skills


def test_a_box_of_the_graph_has_room_for_its_words(tmp_path: Path) -> None:
    run = MadeRun(tmp_path)
    run.add("evaluate", "evaluate")
    run.add("later", "evaluate", ended=False)
    run.add("cell", "evaluate", {"peak_learning_rate": 0.001})
    page = section(render_page(MadeRun(tmp_path / "chain", stages=run.stages[:2]).data), "The run")
    small = re.findall(r'<text class="kind"[^>]*>(.*?)</text>', page)
    assert small == ["evaluate", "1.5 s", f"evalua{ELLIPSIS}", "not run"] and 'width="96"' in page
    assert ">peak_learning_rate 0.001</text>" in section(render_page(run.data), "The run"), "a wider box, not clipped"


def test_a_winner_that_is_measured_once_more_stays_beside_its_rivals(tmp_path: Path) -> None:
    run = MadeRun(tmp_path)
    for trial in (1, 2):
        made = run.train([3.0, 2.0], {"trial": trial})
        run.evaluate({"sums": [trial, trial]}, {"trial": trial}, group="eval-sft", source=made.name)
    run.evaluate({"sums": [1, 2]}, group="evaluate", source=made.name, params={"temperature": 0.5, "rows": 9, "x": 1})
    skills = section(render_page(run.data), "Skills after each stage")
    bars = re.findall(r'<span class="named">(.*?)</span><span class="amount">([\d.+-]+)', skills)
    assert bars == [("trial=1", "25.0"), ("trial=2", "50.0"), ("trial=2", "+25.0")]
    assert "<h3>Minus trial=1</h3>" in skills and "<td>sft (evaluate)</td>" in skills


def test_what_an_arm_lost_is_told_for_each_arm(tmp_path: Path) -> None:
    run = MadeRun(tmp_path)
    run.train([3.0, 2.0], group="base")
    run.evaluate({"sums": [4, 4]}, group="eval-base", source="base")
    for arm, counts in (("a", (2, 3)), ("b", (0, 4))):
        for group, count in zip(("rl", "replay"), counts, strict=True):
            made = run.train([3.0, 2.0], {"arm": arm}, group=group)
            run.evaluate({"sums": [count, count]}, {"arm": arm}, group=f"eval-{group}", source=made.name)
    rows = re.findall(r"<tr>(<td.*?)</tr>", section(render_page(run.data), "Forgetting and recovery"))
    told = [re.findall(r">([^<]*)</td>", row) for row in rows]
    assert told == [
        ["a", "sums", "base", "rl", "-50.0", "+25.0", "50 %"],
        ["b", "sums", "base", "rl", "-100.0", "+100.0", "100 %"],
    ]


def test_everything_that_scrolls_is_reached_by_keyboard(tmp_path: Path) -> None:
    page = render_page(matrix(tmp_path, [0.001, 0.01]).data)
    scrolling = re.findall(r'<div class="scroll"[^>]*>|<pre[^>]*>', page)
    assert len(scrolling) >= 5 and all('tabindex="0"' in tag for tag in scrolling)
    assert all('aria-label="' in tag for tag in scrolling if tag.startswith("<div"))
    drawings = re.findall(r"<svg(?! class=\"dag\")[^>]*>", page)
    assert all('role="img" aria-label="' in tag or 'aria-hidden="true"' in tag for tag in drawings)


def test_no_two_rows_have_the_same_label(tmp_path: Path) -> None:
    """Not in rounds that measure one model again, nor where a temperature alone differs."""
    run = MadeRun(tmp_path)
    run.train([1.0], group="rl")
    for number in (1, 2):
        run.evaluate({"sums": [1]}, {"round": number}, group="loop.eval", name=f"loop-{number}-eval", source="rl")
    for temperature in (0.2, 1.0):
        run.evaluate({"sums": [1]}, group=f"eval-{temperature}", source="rl", params={"temperature": temperature})
    (table,) = result_tables(run.data)
    names = [item.model for item in table.evaluations]
    assert len(set(names)) == 4, names
