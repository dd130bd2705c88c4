"""`posttrain schedule --engine airflow` against a server that speaks Airflow's REST interface."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.cli import main
from tests.support.airflow_api import AirflowApi, airflow_api

RECIPE = """
name: nightly
schedule: {cron: "0 3 * * *"}
params: {seed_of_data: 1}
stages:
  data:
    uses: curate
    with: {kind: prompts, sources: [{domain: sums, count: 8, source: {name: reasoning_gym, task: chain_sum}}]}
"""
OFF = {"dag_id": "nightly", "is_paused": True, "timetable_summary": "0 3 * * *", "timetable_description": "At 03:00"}
ON = {**OFF, "is_paused": False, "next_dagrun_run_after": "2026-01-02T03:00:00Z"}


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AirflowApi]:
    """An Airflow that reads the recipe's folder."""
    (tmp_path / "nightly.yaml").write_text(RECIPE)
    with airflow_api() as served:
        for name, value in (("URL", served.url), ("USER", "me"), ("PASSWORD", "secret")):
            monkeypatch.setenv(f"POSTTRAIN_AIRFLOW_{name}", value)
        monkeypatch.setenv("POSTTRAIN_RECIPES", str(tmp_path))
        monkeypatch.setenv("POSTTRAIN_STORE", str(tmp_path / "store"))
        yield served


def schedule(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Run the command; return its exit code, and what it said."""
    code = main(["schedule", *arguments, "--engine", "airflow"])
    said = capsys.readouterr()
    return code, said.out + said.err


def test_a_schedule_is_switched_on_and_off_and_listed(api: AirflowApi, capsys: pytest.CaptureFixture[str]) -> None:
    api.answers["dags/nightly"] = ON
    code, said = schedule(capsys, "nightly", "--json")
    assert (code, api.sent) == (0, [("PATCH", "dags/nightly", {"is_paused": False})])
    when = "0 3 * * * At 03:00"
    page = f"{api.url}/dags/nightly"
    assert json.loads(said) == [
        {"name": "nightly", "on": True, "when": when, "next": ON["next_dagrun_run_after"], "page": page}
    ]
    api.answers["dags/nightly"] = OFF
    code, said = schedule(capsys, "nightly", "--off")
    assert code == 0 and api.sent[-1][2] == {"is_paused": True}
    assert "nightly" in said and " off " in said
    api.answers["dags"] = {"dags": [ON, {**OFF, "dag_id": "quickstart", "timetable_summary": None}], "total_entries": 2}
    code, said = schedule(capsys)
    assert code == 0 and " on " in said and "quickstart" not in said, "a DAG without a schedule is none"


def test_what_it_cannot_do_is_said_in_a_line(api: AirflowApi, capsys: pytest.CaptureFixture[str]) -> None:
    api.answers["importErrors"] = {"import_errors": [], "total_entries": 0}
    code, said = schedule(capsys, "nightly")
    assert code == 2 and "has no DAG 'nightly'" in said and not api.sent
    code, said = schedule(capsys, "nightly", "--set", "seed_of_data=2")
    assert code == 2 and "without --set: write a recipe that extends 'nightly'" in said
    code, said = schedule(capsys, "nightly", "--delete")
    assert code == 2 and "take 'schedule' out of the file, or pause it (--off)" in said
    code, said = schedule(capsys, "quickstart")
    assert code == 2 and "has no 'schedule'" in said
    assert not api.sent
