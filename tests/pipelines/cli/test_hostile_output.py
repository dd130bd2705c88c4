"""What commands print of records that hold hostile text: nothing of it acts on the terminal."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from components.contract.job import Job
from components.runtime.ledger.records import alarms_key, failure_key, run_key
from components.runtime.store import Store, open_store
from pipelines.cli import main
from pipelines.runs.runs import RunResult
from pipelines.runs.summary import print_ending
from pipelines.runs.view import PlainView, StageState, stage_row

HOSTILE = "\x1b]0;owned\x07\x1b[2J\u202egnp.exe [bold]\x9b1m[/nothing]"
ALARM = {"name": "odd", "since": 1, "raised": 1, "bound": 0.0, "cleared": None, "text": HOSTILE, "helps": HOSTILE}
JOB = Job(run_id="r", recipe="x", stage="sft", component="sft", params={}, inputs={}, seed=0, store="s")
EVENTS: list[dict[str, Any]] = [
    {"event": "alarm", "alarm": ALARM},
    {"event": "warning", "text": HOSTILE, "kept": True},
    {"event": "retry", "attempt": 2, "seconds": 1.0, "error": HOSTILE},
    {"event": "failed", "error": HOSTILE},
]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store with a run that failed, whose records hold hostile text wherever a stage may have written it."""
    store = open_store(str(tmp_path / "store"))
    stages = [{"name": "sft", "component": "sft", "after": []}]
    run = {"run_id": "r", "recipe": HOSTILE, "stages": stages, "command": HOSTILE, "created": 0.0}
    store.put(run_key("r"), run)
    store.put(failure_key("r", "sft"), {"stage": "sft", "error": HOSTILE, "metrics": {}, "time": 0.0})
    store.put(alarms_key("r", "sft"), {"run_id": "r", "stage": "sft", "alarms": [ALARM], "kept": {}})
    return store


def harmless(text: str) -> None:
    assert "owned" in text
    bad = {char for char in text if not char.isprintable() and char not in "\n\t"}
    assert not bad, f"{bad} in {text!r}"


@pytest.mark.parametrize("command", [["show", "r"], ["list"]], ids=lambda words: words[0])
def test_records_of_a_run(command: list[str], store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    main([*command, "--store", store.uri])
    out = capsys.readouterr()
    harmless(out.out + out.err)


def test_the_end_of_a_run(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    result = RunResult("r", "failed", 1, {"sft": HOSTILE}, None, lineage_problem=HOSTILE, report_problem=HOSTILE)
    print_ending(store, result)
    harmless(capsys.readouterr().out)


def test_the_plain_view() -> None:
    stream = io.StringIO()
    view = PlainView([JOB], stream)
    for event in EVENTS:
        view.event({"stage": "sft", "time": 0.0, **event})
    assert stream.getvalue().count("owned") == 5  # the alarm has two lines
    harmless(stream.getvalue())


def test_the_live_view() -> None:
    state = StageState("sft", "sft")
    state.take({"stage": "sft", "time": 0.0, **EVENTS[-1]})
    console = Console(file=io.StringIO(), width=200)
    console.print(stage_row(state, "")[3])
    harmless(console.file.getvalue())  # type: ignore[attr-defined]


def test_a_recipe_that_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = tmp_path / "bad.yaml"
    recipe.write_text('name: "owned\\e[2J\\u202e"\nstages: {"owned\\e[2J": {uses: "owned\\x9b"}}\n')
    assert main(["validate", str(recipe)]) == 2
    harmless(capsys.readouterr().err)
