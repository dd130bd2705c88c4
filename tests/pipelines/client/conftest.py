"""One finished run of the toy recipe, to look at."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.toy_command import RECIPE, toy_command


@pytest.fixture(scope="session")
def toy_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one run."""
    store = tmp_path_factory.mktemp("toys") / "store"
    done = toy_command(store)("run", RECIPE)
    assert done.returncode == 0, done.stderr
    return store
