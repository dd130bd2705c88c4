"""The samples section of a report: bounded, escaped, whole without its script, models side by side."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from components.contract.terminal import visible
from pipelines.report.collect import RunData, Stage
from pipelines.report.evaluations import result_tables
from pipelines.report.page import render_page
from pipelines.report.sample_content import SampleBrowser
from pipelines.report.samples import MAX_SAMPLES, ROOM, sample_section

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</pre></details><h1>Passed</h1>",
    "</script><script>alert(2)</script>",
    "\x1b[31mred\x07 \u202egnp.exe \ud800 \x00",
    "{{ 7 * 7 }}{% raw %}",
    "x" * 1_000_000,
]
RUN = {
    "run_id": "r",
    "recipe": "r",
    "summary": "",
    "engine": "local",
    "seed": 0,
    "started": "2026-01-01T00:00:00",
    "code": {"version": "1", "dirty": False},
    "plan_digest": "ab",
    "store": "s",
    "command": "c",
    "recipe_text": "name: r",
}


def stage(name: str, folder: Path, rows: Sequence[dict[str, Any]], component: str = "evaluate") -> Stage:
    """Return an ended stage with these samples; an evaluation is of the model of the stage after its "eval-"."""
    (folder / name).mkdir(parents=True)
    (folder / name / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / name / "metrics.json").write_text('{"pass_at_1_sums": {"value": 0.5}}')
    model = f"{name.removeprefix('eval-')}.model"
    entry = {
        "status": "done",
        "cache": "miss",
        "seconds": 1.0,
        "params": {},
        "seed": 0,
        "inputs": {"model": [{"source": model, "digest": "ab", "type": "Model"}]},
        "outputs": {"metrics": {"type": "Metrics", "digest": "cd"}},
        "metrics": {},
    }
    return Stage(name, component, name, {}, [], entry, files={"metrics": folder / name})


def row(prompt: int, response: str, outcome: str, **fields: Any) -> dict[str, Any]:
    reward = {"right": 1.0, "wrong": 0.0}.get(outcome)
    return {"prompt_id": f"p{prompt}", "prompt": f"say {prompt}", "response": response, "outcome": outcome} | {
        "domain": "sums",
        "reward": reward,
        **fields,
    }


def browser_of(*stages: Stage) -> SampleBrowser:
    data = RunData(RUN, None, list(stages))
    (part,) = sample_section(data, result_tables(data)).parts
    assert isinstance(part, SampleBrowser)
    return part


class Tags(HTMLParser):
    """Collects the tags of a page and the text of its pre elements."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.texts: list[str] = []
        self._inside = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}
        self._inside = tag == "pre"

    def handle_endtag(self, tag: str) -> None:
        self._inside = self._inside and tag != "pre"

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.texts.append(data)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_texts_are_text(text: str, tmp_path: Path) -> None:
    fields = ("prompt", "response", "domain", "detail", "answer", "outcome", "prompt_id")
    rows = [row(0, "5", "right") | {field: text} for field in fields]
    rows += [row(0, text, "right", parts={text: 1.0, "other": 0.0})]
    page = render_page(RunData(RUN, None, [stage("eval-sft", tmp_path, rows), stage("eval-rl", tmp_path, rows)]))
    seen = Tags(page)
    assert (seen.tags.count("script"), seen.tags.count("img"), seen.tags.count("h1")) == (1, 0, 1)
    assert not [name for name in seen.attributes if name.startswith("on")]
    assert all(char.isprintable() or char in "\n\t" for char in page)
    shown = "x" * 700 if text.startswith("xx") else visible(text)
    assert seen.texts.count(shown) >= 4, "as prompt and as response, of both stages"


def test_the_page_stays_small(tmp_path: Path) -> None:
    rows = [row(i, "y" * 200_000, "wrong", step=i) for i in range(100)]
    stages = [stage(f"eval-{i}", tmp_path, rows) for i in range(4)]
    found = browser_of(*stages)
    assert found.total == 400 and len(found.samples) <= MAX_SAMPLES
    assert len(render_page(RunData(RUN, None, stages)).encode()) < 2 * ROOM
    piece = found.samples[0].said[-1]
    assert len(piece.text) == 700 and piece.rest and piece.missing == 200_000 - 6500


def test_every_stage_step_and_degree_is_there(tmp_path: Path) -> None:
    rows = [row(0, f"{i}", "wrong", step=step, reward=i / 10) for step in range(1, 65) for i in range(8)]
    found = browser_of(stage("rl", tmp_path, rows, "rl"), stage("eval-rl", tmp_path, [row(0, "5", "right")]))
    assert found.values("stage") == ["rl", "eval-rl"]
    steps = [int(step) for step in found.values("step")]
    assert (steps[0], steps[-1]) == (1, 64) and steps == sorted(steps)
    first = [sample.reward for sample in found.samples if sample.step == 1]
    assert (first[0], first[-1]) == (0.0, 0.7) and first == sorted(first)


def test_models_stand_side_by_side_on_the_same_prompts(tmp_path: Path) -> None:
    sft = [row(i, "no", "wrong") for i in range(3)] + [row(9, "only here", "wrong")]
    rl = [row(0, "no", "wrong"), row(1, "yes", "right"), row(2, "no", "wrong")]
    found = browser_of(stage("eval-sft", tmp_path, sft), stage("eval-rl", tmp_path, rl))
    assert list(found.models) == ["sft", "rl"]
    assert [(one.prompt.text, one.differs) for one in found.versus] == [
        ("say 1", True),
        ("say 0", False),
        ("say 2", False),
    ]
    answers = [[item.said[0].text for item in answer.samples] for answer in found.versus[0].answers]
    assert answers == [["no"], ["yes"]]


def test_without_samples_there_is_no_section_and_no_script(tmp_path: Path) -> None:
    page = render_page(RunData(RUN, None, [stage("eval-sft", tmp_path, [])]))
    assert "<script" not in page and 'id="samples"' not in page
