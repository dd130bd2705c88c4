"""Delivery to a real MLflow server over HTTP: away, back again, and with deliverers that are killed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from components.runtime.lineage.delivery.deliver import deliver, sync
from components.runtime.lineage.spool import spooled_keys
from components.runtime.store import Store
from tests.runtime.lineage.conftest import deliver_and_die, forget, in_child, rows_of, tell, uri_of
from tests.support.fault_proxy import FaultProxy
from tests.support.mlflow_server import closed_port, serving

Contents = Callable[[Path], dict[str, list[tuple[Any, ...]]]]


@pytest.fixture(scope="module")
def port() -> int:
    """A port that nobody listens on."""
    return closed_port()


def test_over_http_everything_arrives_once_whatever_dies(
    store: Store, tmp_path: Path, empty_database: Path, contents: Contents, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = f"http://127.0.0.1:{port}"
    monkeypatch.setattr("components.runtime.lineage.delivery.delivery.SAVE_SECONDS", 1e9)  # no help from the cursor
    tell(store, "quick-1", rows=4)
    tell(store, "quick-2", rows=4, salt="2")
    events = len(spooled_keys(store, "quick-1"))

    away = deliver(store, "quick-1", uri)
    assert (away.delivered, away.pending) == (0, events) and away.problem
    assert {result.pending for result in sync(store, uri).values()} == {events}

    straight = Path(shutil.copy(empty_database, tmp_path / "straight.db"))
    assert in_child(lambda: sync(store, uri_of(straight)) and None) == 0
    database = Path(shutil.copy(empty_database, tmp_path / "served.db"))
    with serving(database, port):
        kills = 0
        while deliver_and_die(store, "quick-1", uri, writes=8 * kills + 5, before=bool(kills % 2)):
            kills += 1
        assert kills > 3
        results = sync(store, uri)
        assert {run: (result.delivered, result.pending) for run, result in results.items()} == {"quick-2": (events, 0)}
        assert sync(store, uri) == {}
        assert contents(database) == contents(straight)

        forget(store, "quick-2", spooled_keys(store, "quick-2"))
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
        command = [sys.executable, "-m", "components.runtime.lineage.delivery.deliver", "--store", store.uri]
        done = subprocess.run([*command, "--pending"], capture_output=True, text=True, timeout=60, check=True)
        assert json.loads(done.stdout)["quick-2"]["delivered"] == events
        assert contents(database) == contents(straight)
    assert rows_of(database, "select count(*) from runs")[-1:] == [(12,)]


@pytest.mark.slow
def test_lost_and_broken_answers_leave_nothing_twice(
    store: Store, tmp_path: Path, empty_database: Path, contents: Contents, port: int
) -> None:
    tell(store, "quick-1", rows=4)
    straight = Path(shutil.copy(empty_database, tmp_path / "straight.db"))
    assert in_child(lambda: sync(store, uri_of(straight)) and None) == 0
    database = Path(shutil.copy(empty_database, tmp_path / "served.db"))
    with (
        serving(database, port),
        FaultProxy(f"http://127.0.0.1:{port}", share=0.15, seed=3, hang_seconds=0.3) as proxy,
    ):
        for _ in range(100):
            if not any(result.pending or result.refused for result in sync(store, proxy.url).values()):
                break
        assert proxy.injected["lost"] and len(proxy.injected) > 3
        assert contents(database) == contents(straight)
