"""A recipe's schedule as a recurring run, against a server that answers as Kubeflow's v2beta1 API does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from components.contract.errors import InputError
from components.runtime.ledger.records import run_key
from components.runtime.store import open_store
from pipelines.cli import main
from pipelines.engines.kubeflow.begin import begin, trigger_of
from pipelines.engines.kubeflow.client.account import Account
from pipelines.engines.kubeflow.client.api import Client
from pipelines.engines.kubeflow.client.recurring import TIMEZONE, end, keep, kubeflow_cron, listed
from pipelines.engines.kubeflow.client.rest import KubeflowUnavailable
from pipelines.engines.kubeflow.compiler.bundle import Bundle
from pipelines.engines.kubeflow.compiler.settings import Settings
from pipelines.recipe.recipe import Recipe, load_recipe
from pipelines.recipe.schedule.cron import Cron
from pipelines.recipe.schedule.section import Schedule
from tests.support.kubeflow_api import KubeflowApi, kubeflow_api

STORE = "s3://bucket/store"
RECIPE = """\
name: nightly
schedule: {cron: "0 3 * * mon-fri"}
params: {layers: 2}
stages: {base: {uses: pretrain, with: {layers: "${params.layers}"}}}
"""
pytestmark = pytest.mark.usefixtures("toy_catalog")


@pytest.fixture
def api(tmp_path: Path) -> Iterator[KubeflowApi]:
    with kubeflow_api(tmp_path) as api:
        yield api


@pytest.fixture
def client(api: KubeflowApi, cluster: None) -> Client:
    return Client(Account(api.url))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "nightly.yaml"
    path.write_text(RECIPE)
    return path


def kept(path: Path, client: Client, *overrides: str) -> Recipe:
    """Keep the schedule of a recipe; return the recipe."""
    recipe = load_recipe(str(path), overrides)
    keep(recipe, open_store(STORE), client, Settings.read())
    return recipe


def test_the_recurring_run_has_the_times_one_run_at_a_time_and_no_catch_up(
    api: KubeflowApi, client: Client, path: Path
) -> None:
    kept(path, client, "layers=3")
    [made] = api.recurring.values()
    assert made["display_name"] == "nightly" and made["mode"] == "ENABLE"
    assert made["trigger"] == {"cron_schedule": {"cron": "0 0 3 * * 1,2,3,4,5"}}
    assert int(made["max_concurrency"]) == 1 and made["no_catchup"] is True
    given = {"layers": 3, "posttrain_store": STORE, "posttrain_trigger": "[[ScheduledTime]]"}
    assert made["runtime_config"]["parameters"] == given
    assert made["description"] == f"posttrain schedule: cron 0 3 * * mon-fri (UTC), store {STORE}"
    assert made["experiment_id"] == api.experiments["nightly"]


def test_a_second_call_replaces_the_first_and_leaves_others_alone(api: KubeflowApi, client: Client, path: Path) -> None:
    api.page_size = 1
    api.recurring["theirs"] = {"recurring_run_id": "theirs", "display_name": "nightly", "description": "by hand"}
    other = path.with_name("other.yaml")
    other.write_text(RECIPE.replace("name: nightly", "name: other"))
    kept(other, client)
    kept(path, client)
    kept(path, client, "schedule.cron=0 4 * * *")
    names = [(one["display_name"], one.get("trigger", {}).get("cron_schedule")) for one in api.recurring.values()]
    assert names == [
        ("nightly", None),
        ("other", {"cron": "0 0 3 * * 1,2,3,4,5"}),
        ("nightly", {"cron": "0 0 4 * * *"}),
    ]
    verbs = [verb for verb, _ in api.verbs]
    assert verbs == ["create", "create", "create", "delete"], "the new one is there before the old one goes"
    assert [one.name for one in listed(client)] == ["other", "nightly"]


def test_an_interrupted_replacement_leaves_one_after_the_next_call(
    api: KubeflowApi, client: Client, path: Path
) -> None:
    recipe = kept(path, client)
    api.recurring["half"] = {**next(iter(api.recurring.values())), "recurring_run_id": "half"}
    keep(recipe, open_store(STORE), client, Settings.read())
    assert len(api.recurring) == 1


def test_switching_off_and_deleting(api: KubeflowApi, client: Client, path: Path) -> None:
    recipe = kept(path, client)
    assert not end(recipe, client, delete=False).on
    [one] = listed(client)
    assert (one.on, one.next) == (False, None) and api.verbs[-1][0] == "disable"
    kept(path, client)
    assert [one.on for one in listed(client)] == [True]
    end(recipe, client, delete=True)
    assert api.recurring == {}
    with pytest.raises(InputError, match="has no schedule of recipe 'nightly'"):
        end(recipe, client, delete=True)


def test_a_server_that_fails_while_creating_leaves_the_old_one(api: KubeflowApi, client: Client, path: Path) -> None:
    kept(path, client)
    before = dict(api.recurring)
    api.broken = [200, 503]
    with pytest.raises(KubeflowUnavailable, match="503"):
        kept(path, client)
    assert api.recurring == before


def test_a_time_zone_that_is_not_kubeflows_is_refused() -> None:
    berlin = Schedule(Cron("0 3 * * *", "Europe/Berlin"))
    with pytest.raises(InputError, match="Kubeflow reads all cron expressions in one time zone, UTC"):
        kubeflow_cron(berlin, {})
    assert kubeflow_cron(berlin, {TIMEZONE: "Europe/Berlin"}) == "0 0 3 * * *"
    with pytest.raises(InputError, match="starts runs by time alone"):
        kubeflow_cron(Schedule(), {})


def test_a_recurring_run_says_which_time_started_it() -> None:
    schedule = Schedule(Cron("0 3 * * *", "Europe/Berlin"))
    assert trigger_of(schedule, "20261123020000")["text"] == ("cron 0 3 * * * (Europe/Berlin), 2026-11-23T03:00+01:00")
    assert trigger_of(schedule, "[[ScheduledTime]]")["text"] == "cron 0 3 * * * (Europe/Berlin)"
    assert trigger_of(schedule, "") is None and trigger_of(None, "20261123020000") is None


def test_the_first_task_records_what_started_the_run(path: Path, tmp_path: Path, cluster: None) -> None:
    store = open_store(str(tmp_path / "store"))
    bundle = Bundle.of(load_recipe(str(path), whole=True))
    texts = []
    for kubeflow_run, due in (("one", "20261123030000"), ("two", "")):
        (folder := tmp_path / kubeflow_run).mkdir()
        run_id = begin(bundle, {"posttrain_store": store.uri, "posttrain_trigger": due}, kubeflow_run, folder)
        texts.append((store.get(run_key(run_id)) or {}).get("trigger", {}).get("text"))
    assert texts == ["cron 0 3 * * mon-fri (UTC), 2026-11-23T03:00+00:00", None]


def test_the_command_keeps_lists_and_ends(
    api: KubeflowApi, path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("POSTTRAIN_KUBEFLOW_URL", api.url)
    options = ["--engine", "kubeflow", "--store", STORE]
    assert main(["schedule", str(path), *options, "--json"]) == 0
    [made] = json.loads(capsys.readouterr().out)
    following = datetime.fromisoformat(made["next"])
    assert made["on"] and following > datetime.now(UTC) and (following.hour, following.minute) == (3, 0)
    assert made["page"] == f"{api.url}/#/recurringrun/details/recurring-0"
    assert main(["schedule", *options]) == 0
    assert "nightly  on        cron 0 3 * * mon-fri (UTC), store s3://bucket/store" in capsys.readouterr().out
    assert main(["schedule", str(path), *options, "--off"]) == 0
    assert "nightly  off" in capsys.readouterr().out
    assert main(["schedule", str(path), *options, "--delete"]) == 0
    assert "nightly  deleted" in capsys.readouterr().out and api.recurring == {}
    assert main(["schedule", *options]) == 0
    assert "keeps no schedule of a recipe" in capsys.readouterr().out


@pytest.mark.parametrize(
    "change, words",
    [
        ("schedule.on=s3://bucket/rows/", "cannot start runs when data change (s3://bucket/rows/); use --engine local"),
        ("schedule.on={asset: a}", "cannot start runs by assets (a); use --engine airflow"),
        ("schedule.timezone=Europe/Berlin", "Kubeflow reads all cron expressions in one time zone, UTC"),
    ],
)
def test_what_kubeflow_cannot_do_is_refused_by_name(
    api: KubeflowApi,
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    change: str,
    words: str,
) -> None:
    monkeypatch.setenv("POSTTRAIN_KUBEFLOW_URL", api.url)
    arguments = ["schedule", str(path), "--engine", "kubeflow", "--store", STORE, "--set", change]
    assert main(arguments) == 2
    assert words in capsys.readouterr().err and api.recurring == {}
    assert main([*arguments[:4], "--store", "/tmp/folder"]) == 2
    assert "pods cannot see it; use a bucket" in capsys.readouterr().err
