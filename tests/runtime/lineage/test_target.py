"""Where lineage goes, and under which names."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.runtime.lineage.delivery.cursor import Cursor
from components.runtime.lineage.delivery.target import artifact_root, prepare_database, tracking_uri, unreachable
from components.runtime.lineage.names import flatten, mlflow_name, mlflow_value
from components.runtime.store import Store, open_store
from tests.runtime.lineage.conftest import in_child, uri_of


def test_the_database_lies_beside_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.chdir(tmp_path)
    for given_uri in (str(tmp_path / "x" / "store"), f"file://{tmp_path}/x/store", "x/store"):
        assert tracking_uri(open_store(given_uri)) == f"sqlite:///{tmp_path}/x/mlflow.db"
    assert tracking_uri(open_store("s3://bucket/runs")) == f"sqlite:///{tmp_path}/.posttrain/mlflow.db"
    assert artifact_root(f"sqlite:///{tmp_path}/x/mlflow.db") == f"file://{tmp_path}/x/mlflow-artifacts"
    assert artifact_root("http://tracking:5000") is None
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://tracking:5000")
    assert tracking_uri(open_store("x/store")) == "http://tracking:5000"


def test_a_server_that_is_away_is_told_without_its_password() -> None:
    problem = unreachable("http://me:secret@127.0.0.1:9")
    assert problem and "127.0.0.1:9" in problem and "secret" not in problem
    assert unreachable("sqlite:////nowhere/mlflow.db") is None


def test_what_can_never_work_is_told_without_mlflow(tmp_path: Path) -> None:
    problem = unreachable("foo://me:secret@bar")
    assert problem and "MLflow takes no foo: address" in problem and "secret" not in problem
    for known in ("mlruns", "file:///x/mlruns", "postgresql+psycopg2://me:x@host/db", "databricks"):
        assert unreachable(known) is None
    database = tmp_path / "mlflow.db"
    database.write_text("")
    assert unreachable(uri_of(database)) is None, "SQLite makes a database of an empty file"
    database.write_text("garbage")
    told = f"{database} is not a database; move it away and run posttrain lineage sync"
    assert unreachable(uri_of(database)) == told


def test_the_record_of_what_was_delivered_holds_no_password(store: Store) -> None:
    cursor = Cursor.load(store, "r", "http://me:secret@tracking:5000")
    cursor.delivered.add("spool/r/run-started.json")
    cursor.save()
    assert "secret" not in str(store.get(cursor.key))
    assert Cursor.load(store, "r", "http://tracking:5000").delivered == cursor.delivered
    assert Cursor.load(store, "r", "http://other:5000").delivered == set()


def test_a_kill_while_the_database_is_made_leaves_none(tmp_path: Path) -> None:
    database = tmp_path / "mlflow.db"

    def die(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def make_and_die() -> None:
        os.link = die
        prepare_database(uri_of(database))

    assert in_child(make_and_die) == -signal.SIGKILL
    assert not database.exists()  # so that the next deliverer begins anew


@given(st.text(min_size=1, max_size=400))
def test_mlflow_takes_every_name_and_value(text: str) -> None:
    from mlflow.utils.validation import _validate_metric, _validate_param, _validate_tag

    name = mlflow_name(text)
    _validate_metric(name, 1.0, 0, 0)
    _validate_param(name, mlflow_value(text * 30))
    _validate_tag(name, mlflow_value(text * 30))
    assert mlflow_name(text) == name


def test_plain_names_stay_and_signs_are_spelled() -> None:
    for name in ("pass_rate", "train/loss", "a b", "x:y", "v1.2-3"):
        assert mlflow_name(name) == name
    assert mlflow_name("pass@8") == "pass_at_8"
    assert mlflow_name("kept%") == "kept_percent_"
    assert mlflow_name("a+b") == "a_x2b_b"
    assert len({mlflow_name(name) for name in ("a//b", "a/./b", "a/b", "/a/b", "a/b/")}) == 5


def test_nested_parameters_become_dotted_leaves() -> None:
    params = {"a": {"b": 1, "c": {}}, "d": [1, 2]}
    assert dict(flatten(params)) == {"a.b": 1, "a.c": {}, "d": [1, 2]}
    assert mlflow_value({"b": 1, "a": None}) == '{"a": null, "b": 1}'
    assert len(mlflow_value("x" * 7000)) <= 6000
