"""Submitting over HTTP: tokens are renewed, and a plan that was submitted is not submitted again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from components.contract.errors import InputError
from components.runtime.ledger.records import run_key as ledger_key
from components.runtime.store import Store, open_store
from pipelines.engines.kubeflow.client.account import Account
from pipelines.engines.kubeflow.client.api import Client
from pipelines.engines.kubeflow.client.rest import KubeflowUnavailable, Refused
from pipelines.engines.kubeflow.client.submit import _submit, _unfinished
from pipelines.engines.kubeflow.compiler.settings import Settings
from pipelines.plan.plan import Plan, build_plan
from pipelines.recipe.recipe import load_recipe
from pipelines.runs.runs import begin_run
from tests.pipelines.engines.kubeflow.examples import FOLDER, POOLS
from tests.support.kubeflow_api import KubeflowApi, kubeflow_api

RECIPE = FOLDER / "recipes" / "base.yaml"


@pytest.fixture
def api(toy_catalog: None, cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubeflowApi]:
    """A Kubeflow without runs."""
    (tmp_path / "pools.yaml").write_text(POOLS)
    monkeypatch.setenv("POSTTRAIN_POOLS", str(tmp_path / "pools.yaml"))
    with kubeflow_api(tmp_path / "pods") as served:
        yield served


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "store"))


def plan(store: Store, *overrides: str) -> Plan:
    """Return a plan as a command makes it: each has a run id of its own."""
    return build_plan(load_recipe(str(RECIPE), overrides), store.uri, f"base-{object()!r}")


def submit(store: Store, api: KubeflowApi, *overrides: str, new: bool = False) -> str:
    """Submit from a command of its own."""
    return _submit(plan(store, *overrides), store, Client(Account(api.url)), Settings.read(), new=new)


def test_a_second_submit_finds_the_first_before_it_has_written_anything(api: KubeflowApi, store: Store) -> None:
    first = submit(store, api)
    assert submit(store, api) == first and len(api.runs) == 1
    api.runs[first].state = "RUNNING"
    assert submit(store, api) == first
    assert submit(store, api, "seed=7") != first, "another plan is another run"
    assert submit(store, api, new=True) != first
    assert len(api.runs) == 3


@pytest.mark.parametrize("state", ["SUCCEEDED", "FAILED", "CANCELED", "ERROR", "SKIPPED"])
def test_a_run_that_ended_before_it_began_is_no_run_to_wait_for(api: KubeflowApi, store: Store, state: str) -> None:
    first = submit(store, api)
    api.runs[first].state = state
    assert submit(store, api) != first


def test_a_submit_whose_answer_was_lost_is_found(api: KubeflowApi, store: Store) -> None:
    api.lose_answers = 1
    with pytest.raises(KubeflowUnavailable, match="does not answer"):
        submit(store, api)
    assert len(api.runs) == 1
    assert submit(store, api) == next(iter(api.runs)) and len(api.runs) == 1


def test_two_commands_at_once_start_one_run(api: KubeflowApi, store: Store) -> None:
    found: list[str] = []
    commands = [Thread(target=lambda: found.append(submit(store, api))) for _ in range(2)]
    for command in commands:
        command.start()
    for command in commands:
        command.join()
    assert len(api.runs) == 1 and len(set(found)) == 1 and len(found) == 2


def test_a_run_that_has_begun_is_found_in_the_ledger(api: KubeflowApi, store: Store) -> None:
    first = submit(store, api)
    begun = plan(store).with_run_id("base-1")
    begin_run(store, begun, engine="kubeflow", kubeflow={"run_id": first})
    assert store.get(ledger_key("base-1")) is not None
    assert _unfinished(plan(store), store, Client(Account(api.url))) == first


def test_a_token_is_read_again_for_each_request(api: KubeflowApi, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("first\n")
    api.token = "first"
    client = Client(Account.read({"POSTTRAIN_KUBEFLOW_URL": api.url, "POSTTRAIN_KUBEFLOW_TOKEN_FILE": str(path)}))
    assert client.going_on("base", "nothing") is None
    api.token = "second"
    with pytest.raises(Refused, match=r"refuses the login: HTTP 401: .*the token in .*/token has expired"):
        client.going_on("base", "nothing")
    path.write_text("second\n")
    assert client.going_on("base", "nothing") is None
    path.unlink()
    with pytest.raises(KubeflowUnavailable, match="No such file"):
        client.going_on("base", "nothing")


def test_a_token_that_cannot_be_read_is_said_at_once(tmp_path: Path) -> None:
    environ = {"POSTTRAIN_KUBEFLOW_URL": "http://k", "POSTTRAIN_KUBEFLOW_TOKEN_FILE": str(tmp_path / "none")}
    with pytest.raises(InputError, match=r"TOKEN_FILE: .*none: No such file"):
        Account.read(environ)
    (tmp_path / "none").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="not a text"):
        Account.read(environ)


@pytest.mark.parametrize(
    ("given", "told"),
    [("", None), ("1", {"mlflow": {"experiment_name": "base"}}), ("0", {"mlflow": {"disabled": True}})],
)
def test_the_mlflow_plugin_is_told_what_was_asked_for(
    api: KubeflowApi, store: Store, given: str, told: dict[str, object] | None
) -> None:
    account = Account.read({"POSTTRAIN_KUBEFLOW_URL": api.url, "POSTTRAIN_KUBEFLOW_MLFLOW_PLUGIN": given})
    made = _submit(plan(store), store, Client(account), Settings.read(), new=False)
    assert api.runs[made].body.get("plugins_input") == told
    with pytest.raises(InputError, match="expected 1 or 0"):
        Account.read({"POSTTRAIN_KUBEFLOW_URL": api.url, "POSTTRAIN_KUBEFLOW_MLFLOW_PLUGIN": "yes"})
