"""The end of a run in a pod that was told no tracking server: lineage waits, and is not written into the pod."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.runtime.store import open_store
from pipelines.engines.shared import ending


def test_lineage_is_not_delivered_into_a_file_that_goes_with_the_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    store = open_store(str(tmp_path / "store"))
    ending.deliver_lineage(store, "quick-1")
    assert "MLFLOW_TRACKING_URI is not set in this pod: lineage waits in the store" in capsys.readouterr().out
    assert not list(tmp_path.rglob("mlflow.db"))
    assert not list(store.keys("delivered/"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    ending.deliver_lineage(store, "quick-1")
    assert "MLflow: http://127.0.0.1:9" in capsys.readouterr().out
