"""One finished run of the micro recipe, shared by the tests that only look at it or build on its cache."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import Project


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, dict[str, Any]]:
    """A project in which the micro recipe ran from an empty cache, and that run's `show --json`."""
    folder = tmp_path_factory.mktemp("finished")
    project = Project(folder, str(folder / "store"))
    return project, project.run()


@pytest.fixture
def copied(finished: tuple[Project, dict[str, Any]], tmp_path: Path) -> Iterator[tuple[Project, dict[str, Any]]]:
    """The same with a store of its own, which a test may change."""
    project, shown = finished
    store = tmp_path / "store"
    shutil.copytree(project.store, store)
    yield replace(project, folder=tmp_path, store=str(store)), shown
