"""Random sequences by way of Airflow: what befalls a stage, its workers and triggerers, and what people do."""

from __future__ import annotations

import pytest

from tests.pipelines.engines.airflow.driven import ACTS, airflow_drive_of
from tests.pipelines.engines.driver.conftest import training  # noqa: F401 - a fixture

pytest.importorskip("hypothesis", reason="airflow.lock has it: make test-airflow installs it")
from tests.pipelines.engines.driver import test_sequences as sequences


@pytest.fixture(autouse=True)
def through_airflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Airflow drive the stages of the sequences."""
    monkeypatch.setattr(sequences, "drive_of", airflow_drive_of)
    monkeypatch.setattr(sequences, "NAMES", [*sequences.NAMES, *ACTS])


def test_some_sequences() -> None:
    sequences.test_some_sequences()


@pytest.mark.slow
def test_many_sequences() -> None:
    sequences.test_many_sequences()
