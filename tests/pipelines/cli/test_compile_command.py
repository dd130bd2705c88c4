"""`posttrain compile` where Kubeflow's libraries are not installed: one line that says where they are."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from pipelines.cli import main

pytestmark = pytest.mark.skipif(find_spec("kfp") is not None, reason="this environment has Kubeflow's libraries")


@pytest.mark.parametrize("command", [["compile", "quickstart", "-o"], ["run", "quickstart", "--engine", "kubeflow"]])
def test_another_environment_is_named(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("POSTTRAIN_STORE", str(tmp_path / "store"))
    target = tmp_path / "pipeline.yaml"
    assert main([*command, *([str(target)] if command[-1] == "-o" else [])]) == 2
    assert "Kubeflow's libraries have an environment of their own: make .venv-kubeflow" in capsys.readouterr().err
    assert not target.exists()
