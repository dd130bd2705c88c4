"""One finished run of the micro recipe, shared by the tests that only look at it or build on its cache."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from tests.support.command_line import MICRO, Project
from tests.support.mlflow_server import closed_port

Finished = tuple[Project, dict[str, Any]]
UNTOUCHED = "untouched"
"""A copy of the store that no test writes to: copying one that others write to would miss or tear files."""


@pytest.fixture(scope="session")
def away(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, dict[str, Any], str]:
    """A run of the micro recipe from an empty cache while the tracking server was down: its project, its `show --json`
    and what it printed. All workers of a parallel test run share the one that the first of them makes."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "away"
    told = folder / "told.json"
    with FileLock(f"{folder}.lock"):
        if not told.exists():
            shutil.rmtree(folder, ignore_errors=True)  # what a worker left that failed
            folder.mkdir()
            uri = f"http://127.0.0.1:{closed_port()}"
            project = _away(folder, uri)
            printed = project.call("run", str(MICRO))
            runs = project.json("list", "runs")["runs"]
            assert len(runs) == 1
            shutil.copytree(project.store, folder / UNTOUCHED)
            told.write_text(json.dumps([uri, project.json("show", runs[0]["run_id"]), printed]))
    uri, shown, printed = json.loads(told.read_text())
    return _away(folder, uri), shown, printed


def _away(folder: Path, uri: str) -> Project:
    return Project(folder, str(folder / "store"), {"POSTTRAIN_LINEAGE": "live", "MLFLOW_TRACKING_URI": uri})


@pytest.fixture(scope="session")
def finished(away: tuple[Project, dict[str, Any], str]) -> Finished:
    """A project in which the micro recipe ran from an empty cache, and that run's `show --json`."""
    project, shown, _ = away
    return replace(project, environment={}), shown


@pytest.fixture
def copied(finished: Finished, tmp_path: Path) -> Iterator[Finished]:
    """The same with a store of its own, which a test may change."""
    project, shown = finished
    store = tmp_path / "store"
    shutil.copytree(project.folder / UNTOUCHED, store)
    yield replace(project, folder=tmp_path, store=str(store)), shown
