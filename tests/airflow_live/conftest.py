"""One Airflow of the tests' own for all of them: `make test-airflow`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.live_airflow import Live

ROOT = Path(__file__).parents[2]
FOLDERS = ("tests/airflow_live/recipes", "tests/pipelines/engines/airflow/recipes", "tests/end_to_end/recipes")


def settings(folder: Path) -> dict[str, str]:
    """Return the variables of a store of the tests' own, with the toy package and the recipes of the tests."""
    plugin = ROOT / "tests" / "pipelines" / "plugin"
    return {
        **os.environ,
        "POSTTRAIN_STORE": str(folder / "store"),
        "POSTTRAIN_RECIPES": os.pathsep.join(str(ROOT / name) for name in FOLDERS),
        "PYTHONPATH": os.pathsep.join([str(plugin), str(ROOT)]),
    }


@pytest.fixture(scope="session")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """An Airflow that is there for all tests; a test that ends it starts it again."""
    folder = tmp_path_factory.mktemp("live")
    airflow = Live(folder, settings(folder))
    airflow.start()
    yield airflow
    airflow.stop()
