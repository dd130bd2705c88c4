"""A finished run as a person looks at it: tables of pandas, lineage, the report; the facts that commands show."""

from __future__ import annotations

import html
import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import posttrain
import pytest

from tests.support.toy_command import RECIPE, toy_command


@pytest.fixture
def run(toy_store: Path) -> posttrain.Run:
    return posttrain.Run(store=toy_store)


def test_a_run_is_found_as_by_the_commands(toy_store: Path, run: posttrain.Run) -> None:
    names = ["latest", "toy-run", run.id, run.id[:-2]]
    assert {posttrain.Run(name, store=str(toy_store)).id for name in names} == {run.id}
    assert (run.recipe, run.status, run.params) == ("toy-run", "succeeded", {"factor": 3, "fail": False})
    assert run.command == f"posttrain run {RECIPE}" and repr(run) == f"<Run {run.id}: succeeded>"
    found = posttrain.runs(store=toy_store)
    assert found[["run", "recipe", "status", "stages"]].to_numpy().tolist() == [[run.id, "toy-run", "succeeded", 4]]


def test_stages_are_what_show_shows(toy_store: Path, run: posttrain.Run) -> None:
    shown = json.loads(toy_command(toy_store)("show", "latest", "--json").stdout)
    table = run.stages
    assert list(table.index) == [stage["name"] for stage in shown["stages"]] == ["base", "train", "again", "score"]
    assert table["status"].tolist() == ["done", "done", "skipped", "done"]
    assert not table["cached"].any() and table.loc["score", "pool"] == "h100x8"
    assert table.loc["train", "outputs"] == {"model": shown["stages"][1]["outputs"]["model"]["digest"]}
    assert table.loc["again", "error"] == shown["stages"][2]["reason"]


def test_metrics_and_history_are_tables_of_what_was_measured(run: posttrain.Run) -> None:
    metrics = run.metrics()
    assert isinstance(metrics, pd.DataFrame)
    assert list(metrics.columns) == ["stage", "metric", "value", "low", "high", "n"]
    values = metrics.set_index(["stage", "metric"])["value"].to_dict()
    assert values == {("base", "number"): 2.0, ("train", "number"): 6.0, ("score", "total"): 8.0}
    assert run.metrics("train")["value"].tolist() == [6.0]
    history = run.history("score")
    assert history.to_dict("records") == [
        {"stage": "score", "step": 1, "sum": 2.0},
        {"stage": "score", "step": 2, "sum": 8.0},
    ]
    assert run.history("base").empty and list(run.history("base").columns) == ["stage", "step"]


def test_lineage_leads_from_the_last_model_to_what_made_it(run: posttrain.Run) -> None:
    lineage = run.lineage()
    assert {node["stage"] for node in lineage.graph.of_kind("stage")} == {"train", "base"}
    assert lineage.to_json()["root"] == run.stages.loc["train", "outputs"]["model"]
    assert "train" in repr(lineage) and "\x1b" not in repr(lineage)
    assert "<pre" in lineage._repr_html_()
    later = run.lineage("base.model", descendants=True)
    assert {node["stage"] for node in later.graph.of_kind("stage")} == {"train", "score"}


def test_the_report_is_the_page_of_the_command_in_a_frame_of_its_own(
    toy_store: Path, run: posttrain.Run, tmp_path: Path
) -> None:
    page = Path(toy_command(toy_store)("report", "latest").stdout.strip()).read_text()
    assert run.report().html == page
    inline = run._repr_html_()
    assert inline.startswith("<iframe") and 'sandbox="allow-scripts"' in inline
    assert html.unescape(inline).count("<!doctype html>") == 1 and "<!doctype" not in inline.lower()
    assert run.report().save(tmp_path).read_text() == page
    with pytest.raises(posttrain.InputError, match="nowhere"):
        run.report().save(tmp_path / "nowhere" / "page.html")


def test_a_plan_says_what_is_cached_and_why(toy_store: Path, tmp_path: Path) -> None:
    """In a process of its own: the toy components are a package that only it has."""
    code = (
        "import posttrain, json\n"
        f"plan = posttrain.plan({RECIPE!r}, store={str(toy_store)!r}, set={{'factor': 4}})\n"
        "print(json.dumps([plan.stages['outlook'].to_dict(), repr(plan), plan.to_json()['params']]))\n"
        "page = plan._repr_html_()\n"
        "assert '<table' in page and '&lt;table' not in page and '<td>cached</td>' in page, page\n"
        f"posttrain.validate({RECIPE!r})\n"
    )
    done = _python(toy_store, code)
    assert done.returncode == 0, done.stderr
    outlooks, text, params = json.loads(done.stdout)
    assert outlooks == {"base": "cached", "train": "run", "again": "run", "score": "run"}
    assert text == "<Plan of toy-run: 3 run, 1 cached, 0 skip>" and params == {"factor": 4, "fail": False}


def test_a_script_without_a_guard_runs_once_and_a_failure_ends_in_one_message(toy_store: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import posttrain\n"
        "print('begins', flush=True)\n"
        f"run = posttrain.run({RECIPE!r}, store={str(tmp_path / 'store')!r})\n"
        "print(run.status)\n"
        f"posttrain.run({RECIPE!r}, store={str(tmp_path / 'store')!r}, set={{'fail': True}})\n"
    )
    done = _python(toy_store, str(script))
    assert done.stdout.splitlines() == ["begins", "succeeded"], done.stderr
    shown = done.stderr.rpartition("Traceback")[2]
    assert "RunFailed: run toy-run-" in shown and "train failed: ValueError: told to fail" in shown
    assert "run the same code to try again; finished work is kept" in shown
    assert shown.count("  File ") == 2, "the script's line, and the one that raises"
    assert "train" in done.stderr.partition("Traceback")[0], "progress goes to standard error"


def test_what_is_not_there_is_named_with_what_is(toy_store: Path, run: posttrain.Run) -> None:
    with pytest.raises(posttrain.UnknownName, match="did you mean 'train'"):
        run.history("trian")
    with pytest.raises(posttrain.UnknownName, match=r"did you mean 'train\.model'"):
        run.lineage("train.modle")
    with pytest.raises(posttrain.InputError, match="not a model folder"):
        run.model("train.model")
    with pytest.raises(posttrain.InputError, match="no samples"):
        run.samples()
    with pytest.raises(posttrain.InputError, match="needs no approval"):
        run.approve("train")
    with pytest.raises(posttrain.InputError, match="unknown run 'nothing'"):
        posttrain.Run("nothing", store=toy_store)
    with pytest.raises(TypeError):
        run.samples(colour="red")


def _python(store: Path, code: str) -> subprocess.CompletedProcess[str]:
    from tests.support.kernel import kernel_environment
    from tests.support.toy_command import PLUGIN, ROOT

    environment = kernel_environment(store.parent)
    environment["PYTHONPATH"] = f"{PLUGIN}:{environment['PYTHONPATH']}"
    command = [sys.executable, code] if code.endswith(".py") else [sys.executable, "-c", code]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
