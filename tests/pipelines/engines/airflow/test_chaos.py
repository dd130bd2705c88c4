"""The driver's chaos table by way of Airflow: tasks that defer, triggers that follow, and both killed at any moment."""

from __future__ import annotations

import pytest

from tests.pipelines.engines.airflow.driven import airflow_drive_of
from tests.pipelines.engines.driver import test_chaos
from tests.pipelines.engines.driver.conftest import training  # noqa: F401 - a fixture
from tests.pipelines.engines.driver.test_chaos import *  # noqa: F403 - the table

OF_ONE_PROCESS = (
    "test_whoever_stops_the_driver_frees_the_nodes",
    "test_a_driver_that_is_lost_for_good_leaves_nothing_that_runs",
    "test_one_driver_at_a_time",
    "test_a_driver_is_refused_for_good_after_an_hour",
    "test_a_driver_that_is_stopped_while_another_one_has_the_stage_leaves_it_alone",
)
"""About the long-running driver's process; test_pod_life has what Airflow's tasks and triggers do instead."""
for _name in OF_ONE_PROCESS:
    del globals()[_name]


@pytest.fixture(autouse=True)
def through_airflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Airflow drive the stages of the table."""
    monkeypatch.setattr(test_chaos, "drive_of", airflow_drive_of)
