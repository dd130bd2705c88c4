"""Airflow on a cluster: what infra/airflow says fits what stages' pods, and the rights in infra/kubernetes, need."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from pipelines.engines.airflow.tasks.stage_run import STORE
from pipelines.engines.driver.kinds import KINDS
from pipelines.engines.shared.pod import (
    CONFIG_MAPS,
    IMAGES,
    NAMESPACE,
    SECRETS,
    SERVICE_ACCOUNT,
    PodSettings,
    refusals,
)
from pipelines.recipe.pools import load_pools
from tests.pipelines.engines.airflow.test_pod import job, spec

INFRA = Path(__file__).parents[4] / "infra"
VALUES = yaml.safe_load((INFRA / "airflow" / "values.yaml").read_text())
PINNED = re.compile(r"==[^=]+$")
NEEDED = {
    "pods": {"list"},
    "pods/log": {"get"},
    "events": {"list"},
    **{kind.place.plural: {"create", "get", "list", "watch", "delete"} for kind in KINDS.values()},
    "leases": {"create", "get", "list", "update", "delete"},
}
"""What the driver calls, in a task and in its trigger."""


def kubernetes(name: str) -> list[dict[str, Any]]:
    """Return the manifests of a file of the base."""
    return list(yaml.safe_load_all((INFRA / "kubernetes" / "base" / name).read_text()))


def environment() -> dict[str, str]:
    """Return the variables that the chart gives to all of Airflow's processes, its placeholders filled in."""
    filled = {"BUCKET": "bucket", "0" * 64: "5" * 64}
    found = {item["name"]: item["value"] for item in VALUES["env"]}
    settings = INFRA / "kubernetes" / "overlays" / "aws" / "settings" / "posttrain.env"  # the ConfigMap of extraEnvFrom
    found |= dict(line.split("=", 1) for line in settings.read_text().splitlines())
    for placeholder, real in filled.items():
        found = {name: value.replace(placeholder, real) for name, value in found.items()}
    return found


def test_pods_of_the_chart_are_complete() -> None:
    values = environment()
    settings = PodSettings.read(values)
    assert {STORE, NAMESPACE, SERVICE_ACCOUNT, SECRETS, CONFIG_MAPS, *IMAGES.values()} <= values.keys()
    pools = load_pools()
    for name in pools:
        assert not list(refusals(job("rl", "rl", name, pools, store=values[STORE]), pools[name], settings))


def test_pods_find_their_namespace_account_priority_and_network() -> None:
    (namespace,) = kubernetes("namespace.yaml")
    accounts = {one["metadata"]["name"] for one in kubernetes("accounts.yaml") if one["kind"] == "ServiceAccount"}
    classes = {one["metadata"]["name"] for one in kubernetes("priorities.yaml")}
    reaching = next(one for one in kubernetes("network.yaml") if one["metadata"]["name"] == "stage-to-mlflow")
    pools = load_pools()
    settings = PodSettings.read(environment())
    for name, pool in pools.items():
        pod = spec(job("rl", "rl", name, pools), pool, settings)
        assert pod["metadata"]["namespace"] == namespace["metadata"]["name"]
        assert pod["spec"]["serviceAccountName"] in accounts
        assert pod["spec"].get("priorityClassName", "posttrain-cpu") in classes
        (selected,) = reaching["spec"]["podSelector"]["matchExpressions"]
        assert selected["operator"] == "In" and pod["metadata"]["labels"][selected["key"]] in selected["values"]


def test_airflow_may_do_with_pods_what_it_needs_and_no_more() -> None:
    binding = yaml.safe_load((INFRA / "airflow" / "rbac.yaml").read_text())
    kubernetes_validate.validate(binding, "1.35", strict=True)
    role = next(one for one in kubernetes("accounts.yaml") if one["kind"] == "Role")
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    granted = {resource: set(rule["verbs"]) for rule in role["rules"] for resource in rule["resources"]}
    assert granted == NEEDED
    assert VALUES["allowPodLaunching"] is False
    started = {subject["name"] for subject in binding["subjects"]}
    # a deferred pod is watched by the triggerer; other executors run tasks as a worker's account
    assert started == {"airflow-scheduler", "airflow-triggerer", "airflow-worker"}


@pytest.mark.parametrize("name", ["kubernetes-executor", "celery"])
def test_other_executors_run_tasks_as_the_account_that_may_start_pods(name: str) -> None:
    own = yaml.safe_load((INFRA / "airflow" / f"values-{name}.yaml").read_text())
    binding = yaml.safe_load((INFRA / "airflow" / "rbac.yaml").read_text())
    assert own["executor"] != VALUES["executor"] == "LocalExecutor"
    assert own["workers"]["serviceAccount"]["name"] in {one["name"] for one in binding["subjects"]}
    on_aws = yaml.safe_load((INFRA / "kubernetes" / "overlays" / "aws" / "airflow" / "values.yaml").read_text())
    role = on_aws["scheduler"]["serviceAccount"]["annotations"]
    assert on_aws["workers"]["serviceAccount"]["annotations"] == role, "tasks read and write the store"
    capabilities = own["workers"]["securityContexts"]["container"]
    assert capabilities == VALUES["scheduler"]["securityContexts"]["container"]
    assert "env" not in own and "images" not in own, "the first file has them"
    assert own["config"]["scheduler"]["task_queued_timeout"] >= 600, "a trigger that fired waits for a worker"


def test_recipes_are_read_again_more_seldom_than_it_takes() -> None:
    config = VALUES["config"]
    assert config["dag_processor"]["min_file_process_interval"] >= 300
    assert config["dag_processor"]["dag_file_processor_timeout"] > config["core"]["dagbag_import_timeout"]


def test_the_values_hold_no_secret_and_no_default_user() -> None:
    secrets = [VALUES["fernetKeySecretName"], VALUES["apiSecretKeySecretName"], VALUES["jwtSecretName"]]
    assert all(secrets) and VALUES["data"] == {"metadataSecretName": "airflow-database"}
    assert VALUES["createUserJob"] == {"enabled": False}
    text = (INFRA / "airflow" / "values.yaml").read_text().lower()
    assert not re.search(r"^\s*(password|fernetkey|apisecretkey|jwtsecret|pass):", text, re.MULTILINE)


def test_the_image_pins_what_the_tests_run_with() -> None:
    locks = INFRA / "requirements"
    tested = (locks / "airflow.lock").read_text().splitlines()[1:]
    shipped = (locks / "airflow-cluster.lock").read_text().splitlines()[1:]
    assert all(PINNED.search(line) for line in shipped)
    other = {line.partition("==")[0] for line in set(shipped) ^ set(tested)}
    both = {line.partition("==")[0] for line in tested} & {line.partition("==")[0] for line in shipped}
    assert other & both <= {"python-dateutil"}  # the provider of users wants an older one
    assert VALUES["airflowVersion"] == next(line for line in shipped if line.startswith("apache-airflow=="))[16:]
