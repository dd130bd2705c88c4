"""The store of a command that names none: of the folder, of the project around it, or of the user's setting."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pipelines.runs.default_store import chosen_store, default_store, store_option
from tests.support.toy_command import ROOT

HERE = ".posttrain/store"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without settings, and a project in it, in whose sub-folder the command runs."""
    monkeypatch.delenv("POSTTRAIN_STORE", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    deep = tmp_path / "project" / "recipes" / "own"
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)
    return tmp_path


def setting(home: Path, text: str) -> None:
    (home / ".config").mkdir(exist_ok=True)
    (home / ".config" / "posttrain").write_text(text)


def test_the_nearest_store_above_is_taken_and_said(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert default_store() == HERE
    (home / HERE).mkdir(parents=True)
    assert default_store() == str(home / HERE)
    project = home / "project"
    (project / HERE).mkdir(parents=True)
    store = chosen_store(None)
    assert (store.uri, store_option(store)) == (str(project / HERE), "")
    assert capsys.readouterr().err == f"posttrain: store {project / HERE} (of the project in {project})\n"
    (project / "recipes" / "own" / HERE).mkdir(parents=True)
    assert default_store() == HERE
    chosen_store(None)
    assert capsys.readouterr().err == "", "one's own folder needs no word"


def test_the_users_setting_comes_last(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    setting(home, "\n  ~/models/store  \n")
    assert chosen_store(None).uri == str(home / "models" / "store")
    assert capsys.readouterr().err.endswith(f"(named by {home / '.config' / 'posttrain'})\n")
    setting(home, "s3://bucket/prefix\n")
    assert default_store() == "s3://bucket/prefix"
    (home / "project" / HERE).mkdir(parents=True)
    assert default_store() == str(home / "project" / HERE)
    monkeypatch.setenv("POSTTRAIN_STORE", "elsewhere")
    assert default_store() == "elsewhere"


def test_a_store_that_another_user_planted_is_not_taken(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / HERE).mkdir(parents=True)
    if os.getuid() == 0:
        os.chown(home / HERE, 12345, 12345)
    else:
        monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert default_store() == HERE


def test_a_command_in_a_sub_folder_lists_the_projects_runs(home: Path) -> None:
    (home / "project" / HERE).mkdir(parents=True)
    environment: dict[str, Any] = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "pipelines.cli", "list", "runs", "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, json.loads(done.stdout)["runs"]) == (0, [])
    assert done.stderr.startswith(f"posttrain: store {home / 'project' / HERE} (of the project")
