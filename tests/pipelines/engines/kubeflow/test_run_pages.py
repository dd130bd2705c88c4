"""What Kubeflow's page of a run shows at its end: hostile text stays text, links are those of MLflow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.contract.artifacts import ArtifactType
from components.runtime.ledger.records import run_key, stage_key
from components.runtime.lineage.delivery.cursor import Cursor
from components.runtime.lineage.delivery.target import tracking_uri
from components.runtime.store import Store, open_store
from pipelines.engines.kubeflow.executor import ExecutorInput
from pipelines.engines.kubeflow.run_pages import _escaped, show_refusal, show_run
from pipelines.engines.kubeflow.stage_run import StageRun

HOSTILE = "<script>alert(1)</script> [x](javascript:alert(1)) | `a` \x1b[2J\n# head"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A run with one stage that was done and one that was not."""
    store = open_store(str(tmp_path / "store"))
    stages = [{"name": name, "after": []} for name in ("base", "tuned")]
    store.put(run_key("r-1"), {"run_id": "r-1", "recipe": "r", "stages": stages, "started": "2026-11-23T08:00:00Z"})
    entry = {"run_id": "r-1", "stage": "base", "status": "done", "cache": "miss", "outputs": {}, "metrics": {}}
    store.put(stage_key("r-1", "base"), entry)
    return store


def shown(store: Store, folder: Path) -> str:
    """Return the links of the run, after its report was checked to be the page."""
    (folder / "index.html").write_text("<!doctype html>the report")
    show_run(store, "r-1", folder / "index.html", report=folder / "out" / "report", links=folder / "out" / "links")
    assert (folder / "out" / "report").read_text() == "<!doctype html>the report"
    return (folder / "out" / "links").read_text()


def test_stages_lead_to_their_pages_in_mlflow(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://mlflow.test:5000")
    cursor = Cursor.load(store, "r-1", tracking_uri(store))
    cursor.places |= {"experiment": "7", "run": "aa", "stage:base": "bb"}
    cursor.save()
    page = "http://mlflow.test:5000/#/experiments/7/runs/{}?workflowType=machine_learning"
    lines = shown(store, tmp_path).splitlines()
    assert lines[0].startswith(f"**[r\\-1]({page.format('aa')})**: ")
    assert f"| [base]({page.format('bb')}) | done | miss |" in lines
    assert "| tuned | not run |  |" in lines


def test_an_address_that_could_leave_its_link_is_none(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://mlflow.test:5000")
    monkeypatch.setenv("POSTTRAIN_MLFLOW_URL", "javascript:alert(1)//")
    cursor = Cursor.load(store, "r-1", tracking_uri(store))
    cursor.places |= {"experiment": "7", "run": "aa", "stage:base": "bb"}
    cursor.save()
    text = shown(store, tmp_path)
    assert "javascript" not in text and "| base | done | miss |" in text


def test_a_refusal_is_text_on_both_pages(tmp_path: Path) -> None:
    show_refusal(HOSTILE, report=tmp_path / "report", links=tmp_path / "links")
    report, links = (tmp_path / "report").read_text(), (tmp_path / "links").read_text()
    assert "<script" not in report and "&lt;script&gt;" in report
    assert "<script" not in links.replace("\\<", "") and "](" not in links
    assert "\x1b" not in report + links and links.count("\n") == 1


@given(st.text())
def test_what_is_escaped_is_one_line_without_markup(text: str) -> None:
    escaped = _escaped(text)
    assert "\n" not in escaped
    bare = escaped.replace("\\\\", "")
    assert all(bare[at - 1] == "\\" for at, letter in enumerate(bare) if letter in "<>[]()`|*_#")


def test_metrics_of_kubeflow_are_numbers_alone(store: Store, tmp_path: Path) -> None:
    metrics: dict[str, Any] = {"pass_at_1": 0.5, "rows": 3, "sure": True, "told": "x"}
    output = {"type": ArtifactType.METRICS, "digest": "d" * 64, "uri": "s3://b/d", "size": 3}
    entry = {"status": "done", "cache": "hit", "outputs": {"metrics": output}, "metrics": metrics}
    store.put(stage_key("r-1", "base"), entry, overwrite=True)
    answer = tmp_path / "answer.json"
    kind = {"schemaTitle": "system.Metrics", "schemaVersion": "0.0.1"}
    told = ExecutorInput({}, {"metrics": {"name": "metrics", "type": kind, "uri": "minio://a"}}, answer)
    StageRun(store, "r-1", "base", None).point(told, [("metrics", str(tmp_path / "pointer"))])
    assert '"metadata": {"pass_at_1": 0.5, "rows": 3}' in answer.read_text()
    assert f'"digest": "{"d" * 64}"' in (tmp_path / "pointer").read_text()
