"""MLflow as the cluster's manifest runs it asks for a user: who may what, and what delivery says when it is refused."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from components.contract.errors import InputError
from components.runtime.lineage.delivery.accounts import Accounts
from components.runtime.lineage.delivery.deliver import deliver, sync
from components.runtime.lineage.spool import spooled_keys
from components.runtime.store import Store
from components.runtime.upkeep.registered import registered_digests
from tests.runtime.lineage.conftest import Story, rows_of, tell
from tests.support.mlflow_manifest import ACCOUNTS, SERVER, container, secrets
from tests.support.mlflow_server import closed_port, serving_command

USER, PASSWORD = "mlflow-stage/MLFLOW_TRACKING_USERNAME", "mlflow-stage/MLFLOW_TRACKING_PASSWORD"
ANN = ("ann", "a-person's-password")


@dataclass(frozen=True)
class Server:
    """A server as in the cluster, on this machine."""

    uri: str
    database: Path
    secrets: dict[str, str]
    folders: dict[str, Path]

    def ask(self, path: str, user: tuple[str, str] | None = None, body: Any = None) -> int:
        """Return the status of an answer, to somebody who gives this name and password."""
        request = urllib.request.Request(self.uri + path, json.dumps(body).encode() if body else None)
        request.add_header("Content-Type", "application/json")
        if user:
            request.add_header("Authorization", "Basic " + base64.b64encode(":".join(user).encode()).decode())
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Make the accounts and run the server, each with the manifest's command and variables."""
    folder, port = tmp_path_factory.mktemp("served"), closed_port()
    database = folder / "mlflow.db"
    given = secrets(f"sqlite:///{database}", str(folder / "artifacts"))
    made = Server(f"http://localhost:{port}", database, given, {"/run/mlflow": folder})
    accounts = container(ACCOUNTS, given, made.folders)
    done = subprocess.run(
        [sys.executable, *accounts.command[1:]],
        env={**os.environ, **accounts.variables},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert given["mlflow-stage/MLFLOW_TRACKING_PASSWORD"] not in done.stdout + done.stderr
    found = container(SERVER, given, made.folders)
    moved = {"0.0.0.0": "127.0.0.1", "5000": str(port)}
    command = [sys.executable, "-m", *(moved.get(part, part) for part in found.command)]
    with serving_command(command, found.variables, folder, port):
        yield made


def test_only_the_address_of_the_probes_answers_without_a_user(server: Server) -> None:
    spec = container(SERVER, server.secrets).spec
    probes = {spec[kind]["httpGet"]["path"] for kind in ("startupProbe", "readinessProbe", "livenessProbe")}
    assert {path: server.ask(path) for path in probes} == {"/health": 200}
    search, everybody = "/api/2.0/mlflow/experiments/search", {"max_results": 5}
    closed = ["/", "/ajax-api/2.0/mlflow/runs/search", "/graphql", "/signup", "/api/2.0/mlflow-artifacts/artifacts"]
    assert {path: server.ask(path) for path in closed} == dict.fromkeys(closed, 401)
    assert server.ask(search, body=everybody) == 401
    assert server.ask(search, ("admin", "password1234"), everybody) == 401  # what older versions shipped
    assert server.ask(search, (server.secrets[USER], server.secrets[PASSWORD]), everybody) == 200


def test_lineage_waits_for_the_right_password_and_then_arrives_whole(
    server: Server, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(store, "quick-1", rows=2)
    events = len(spooled_keys(store, "quick-1"))
    for name in ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"):
        monkeypatch.delenv(name, raising=False)
    nobody = deliver(store, "quick-1", server.uri)
    assert (nobody.delivered, nobody.pending, nobody.refused) == (0, events, {})
    assert nobody.problem == (
        f"{server.uri}: asks for a user and a password (HTTP 401): set MLFLOW_TRACKING_USERNAME and "
        "MLFLOW_TRACKING_PASSWORD to those of an account there"
    )
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", server.secrets[USER])
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "not-the-password")
    wrong = deliver(store, "quick-1", server.uri)
    assert (wrong.delivered, wrong.pending, wrong.refused) == (0, events, {})
    assert wrong.problem and "refuses the user 'stage' with this password" in wrong.problem
    assert "\n" not in wrong.problem and "not-the-password" not in wrong.problem
    assert rows_of(server.database, "select count(*) from runs") == [(0,)]

    with pytest.raises(InputError, match="refuses the user 'stage' with this password"):
        registered_digests(server.uri)  # gc does not take a refusal for an empty registry

    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", server.secrets[PASSWORD])
    results = sync(store, server.uri)
    assert {run: (one.delivered, one.pending, one.refused) for run, one in results.items()} == {
        "quick-1": (events, 0, {})
    }
    assert sync(store, server.uri) == {}
    assert registered_digests(server.uri)


def test_a_person_reads_what_stages_wrote_and_cannot_write_there(
    server: Server, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = (server.secrets[USER], server.secrets[PASSWORD])
    admin = ("admin", server.secrets["mlflow-server/admin-password"])
    account = {"username": ANN[0], "password": ANN[1]}
    create = "/api/2.0/mlflow/users/create"
    assert [server.ask(create, who, account) for who in (None, stage, admin)] == [401, 403, 200]
    assert [server.ask("/signup", who) for who in (None, admin)] == [401, 200]  # the page for it
    assert server.ask("/api/2.0/mlflow/experiments/create", stage, {"name": "theirs"}) == 200
    name = "/api/2.0/mlflow/experiments/get-by-name?experiment_name=theirs"
    (found,) = rows_of(server.database, "select experiment_id from experiments where name = 'theirs'")
    update = {"experiment_id": str(found[0]), "new_name": "mine"}
    assert (server.ask(name, ANN), server.ask("/api/2.0/mlflow/experiments/update", ANN, update)) == (200, 403)

    Story(store, "quick-9", recipe="theirs").begin("base")
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", ANN[0])
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", ANN[1])
    refused = deliver(store, "quick-9", server.uri)
    assert refused.delivered == 0 and refused.pending and not refused.refused
    assert refused.problem and "the user 'ann' may not write what lineage needs (HTTP 403)" in refused.problem


def test_a_password_that_was_changed_holds_after_the_pod_has_started_again(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_AUTH_CONFIG_PATH", str(server.folders["/run/mlflow"] / "basic_auth.ini"))
    from mlflow.server.auth.sqlalchemy_store import SqlAlchemyStore

    users, new = SqlAlchemyStore(), "another-password"
    users.init_db(f"sqlite:///{server.database}")
    users.update_user("stage", is_admin=True)
    changed = Accounts.read(container(ACCOUNTS, server.secrets | {PASSWORD: new}, server.folders).variables)
    assert changed.make() == ["user 'stage' has the password and the rights that its Secret says"]
    assert [users.authenticate_user("stage", one) for one in (server.secrets[PASSWORD], new)] == [False, True]
    assert not users.get_user("stage").is_admin
    assert changed.make() == []
    assert Accounts.read(container(ACCOUNTS, server.secrets, server.folders).variables).make()


def test_accounts_name_all_that_is_wrong_and_no_secret(tmp_path: Path) -> None:
    given = secrets("sqlite:///x.db", "x") | {PASSWORD: "short", USER: "admin", "mlflow-server/admin-password": ""}
    variables = container(ACCOUNTS, given).variables | {"POSTTRAIN_MLFLOW_PERMISSION": "ALL"}
    with pytest.raises(InputError) as raised:
        Accounts.read(variables)
    for told in (
        "MLFLOW_AUTH_ADMIN_PASSWORD is not set",
        "POSTTRAIN_MLFLOW_PERMISSION='ALL' (known: READ",
        "MLFLOW_TRACKING_PASSWORD has fewer than 12 characters",
        "stages need a user of their own",
    ):
        assert told in str(raised.value)
    assert "short" not in str(raised.value)


def test_the_settings_file_is_for_its_user_alone_and_keeps_any_password(tmp_path: Path) -> None:
    import configparser

    address = "postgresql+psycopg2://mlflow:p%40ss%25word@database/mlflow"
    found = container(ACCOUNTS, secrets(address, "x"), {"/run/mlflow": tmp_path})
    Accounts.read(found.variables).write_config()
    (written,) = tmp_path.iterdir()
    assert str(written) == found.variables["MLFLOW_AUTH_CONFIG_PATH"]
    assert written.stat().st_mode & 0o777 == 0o600
    parser = configparser.ConfigParser()
    parser.read(written)
    assert dict(parser["mlflow"]) == {
        "default_permission": "READ",
        "database_uri": address,
        "admin_username": "admin",
        "auth_cache_ttl_seconds": "60",
    }
