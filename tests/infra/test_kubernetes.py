"""The manifests: every overlay builds, is valid against the strict schemas, denies by default, and fits the pools."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from components.runtime.lineage.delivery.target import CREDENTIALS
from infra.deploy.words import texts
from pipelines.cli.parser import build_parser
from pipelines.recipe.pools import load_pools
from tests.infra.conftest import INFRA
from tests.infra.manifests import KUBERNETES, Manifest, rendered

pytestmark = pytest.mark.infra
OVERLAYS = sorted(path.name for path in (KUBERNETES / "overlays").iterdir())
OVERLAY_PARTS = [p for p in KUBERNETES.glob("overlays/*/*/kustomization.yaml") if p.parent.name != "settings"]
"""What is applied beside an overlay: for Kubeflow, for Airflow."""


@pytest.fixture(scope="module", params=OVERLAYS)
def manifests(request: pytest.FixtureRequest) -> list[Manifest]:
    """What an overlay is made into."""
    return list(rendered(request.param))


def test_there_are_overlays() -> None:
    assert OVERLAYS == ["aws", "gcp", "local"]


@pytest.mark.parametrize("version", ["1.33", "1.34", "1.35"])
def test_every_manifest_is_valid_to_the_letter(manifests: list[Manifest], version: str) -> None:
    import kubernetes_validate

    for manifest in manifests:
        kubernetes_validate.validate(manifest, version, strict=True)


@pytest.mark.parametrize("version", ["1.33", "1.34", "1.35"])
def test_manifests_that_are_applied_by_themselves_are_valid_too(version: str) -> None:
    import kubernetes_validate

    parts = sorted(f"{path.parents[1].name}/{path.parent.name}" for path in OVERLAY_PARTS)
    assert parts == [
        "aws/airflow",
        "aws/autoscaler",
        "aws/kubeflow",
        "aws/storage",
        "gcp/airflow",
        "gcp/kubeflow",
        "local/airflow",
        "local/kubeflow",
    ]
    for part in parts:
        for manifest in rendered(part):
            kubernetes_validate.validate(manifest, version, strict=True)


def test_no_manifest_is_in_no_overlay() -> None:
    """Every file is named by the kustomization beside it, or README says that it is applied by itself."""
    told = (KUBERNETES / "README.md").read_text()
    for path in INFRA.rglob("*.yaml"):
        if re.search(r"^apiVersion: ", path.read_text(), re.MULTILINE) and path.name != "kustomization.yaml":
            beside = path.parent / "kustomization.yaml"
            named = beside.exists() and path.name in yaml.safe_load(beside.read_text())["resources"]
            assert named or f"`{path.parent.name}/{path.name}`" in told, path


def test_nothing_may_talk_unless_it_is_named(manifests: list[Manifest]) -> None:
    policies = {one["metadata"]["name"]: one["spec"] for one in _of(manifests, "NetworkPolicy")}
    assert policies["deny-by-default"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    for name, policy in policies.items():
        peers = [*policy.get("egress", []), *policy.get("ingress", [])]
        assert all(rule for rule in peers), f"{name}: an empty rule allows everything"
        blocks = [peer["ipBlock"] for rule in peers for peer in rule.get("to", []) if "ipBlock" in peer]
        for block in blocks:
            open_to_all = block["cidr"] == "0.0.0.0/0"
            assert not open_to_all or "169.254.0.0/16" in block["except"], f"{name}: the node's metadata is in reach"


def test_every_pod_is_locked_down_and_bounded(manifests: list[Manifest]) -> None:
    pods = _pods(manifests)
    assert {"mlflow", "gc", "lineage"} <= pods.keys()
    for pod in pods.values():
        assert pod["automountServiceAccountToken"] is (pod.get("serviceAccountName") == "engine")
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not pod.keys() & {"hostNetwork", "hostPID", "hostIPC"}
        assert all(volume.keys() == {"name", "emptyDir"} for volume in pod["volumes"])
        for container in _containers(pod):
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert container["resources"]["limits"]["memory"]


def test_accounts_have_the_least_rights(manifests: list[Manifest]) -> None:
    (role,) = _of(manifests, "Role")
    assert not _of(manifests, "ClusterRole")
    for rule in role["rules"]:
        assert "*" not in rule["verbs"] + rule["resources"] + rule["apiGroups"]
        assert "secrets" not in rule["resources"]
    (binding,) = _of(manifests, "RoleBinding")
    assert [subject["name"] for subject in binding["subjects"]] == ["engine"]


def test_no_secret_lies_in_a_manifest(manifests: list[Manifest]) -> None:
    assert not _of(manifests, "Secret")
    for value in texts(manifests):
        assert not re.search(r"AKIA[0-9A-Z]{16}|://[^/@\s]+:[^/@\s]+@", value), value


def test_priority_classes_are_those_of_the_pools_file(manifests: list[Manifest]) -> None:
    made = {one["metadata"]["name"] for one in _of(manifests, "PriorityClass")}
    named = {pool.priority_class for pool in load_pools().values() if pool.priority_class}
    assert named and named <= made
    quota_scopes = {
        value
        for quota in _of(manifests, "ResourceQuota")
        for expression in quota["spec"].get("scopeSelector", {}).get("matchExpressions", [])
        for value in expression["values"]
    }
    assert quota_scopes <= made


def test_the_quota_lets_every_pool_run_its_largest_job(manifests: list[Manifest]) -> None:
    quotas = {one["metadata"]["name"]: one["spec"]["hard"] for one in _of(manifests, "ResourceQuota")}
    for name, pool in load_pools().items():
        everything = {
            "pods": pool.nodes,
            "requests.cpu": pool.cpus * pool.nodes,
            "requests.memory": pool.memory_gib * pool.nodes,
            "requests.nvidia.com/gpu": pool.gpu_count,
        }
        for quota in ["all-stages", *(["spot-stages"] if pool.spot else [])]:
            for resource, limit in quotas[quota].items():
                assert _number(limit) >= everything[resource], f"{quota}: too little {resource} for pool {name}"


def test_nothing_is_open_to_the_outside_or_bound_to_a_disk(manifests: list[Manifest]) -> None:
    kinds = {manifest["kind"] for manifest in manifests}
    assert not kinds & {"Ingress", "PersistentVolumeClaim", "PersistentVolume", "StatefulSet", "DaemonSet", "Pod"}
    assert all(service["spec"].get("type", "ClusterIP") == "ClusterIP" for service in _of(manifests, "Service"))
    (namespace,) = _of(manifests, "Namespace")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_the_tracking_server_has_a_database_and_an_object_store(manifests: list[Manifest]) -> None:
    server = next(one for one in _of(manifests, "Deployment") if one["metadata"]["name"] == "mlflow")
    (container,) = server["spec"]["template"]["spec"]["containers"]
    sources = {item["name"]: item.get("valueFrom", {}) for item in container["env"]}
    settings = next(one for one in _of(manifests, "ConfigMap") if one["metadata"]["name"] == "mlflow")
    assert sources["MLFLOW_BACKEND_STORE_URI"] == {"secretKeyRef": {"name": "mlflow-database", "key": "uri"}}
    wanted = sources["ARTIFACTS"]["configMapKeyRef"]
    assert wanted["name"] == settings["metadata"]["name"]
    assert settings["data"][wanted["key"]].startswith("s3://")
    assert "$(ARTIFACTS)" in container["command"]


def test_every_secret_that_a_manifest_asks_for_is_told_of(manifests: list[Manifest]) -> None:
    told = set(re.findall(r"create secret generic (\S+)", (KUBERNETES / "README.md").read_text()))
    asked = {
        source["name"]
        for pod in _pods(manifests).values()
        for container in _containers(pod)
        for item in [*container.get("env", []), *container.get("envFrom", [])]
        for word, source in {**item, **item.get("valueFrom", {})}.items()
        if word in ("secretKeyRef", "secretRef")
    }
    assert {"mlflow-database", "mlflow-server", "mlflow-stage"} <= asked
    assert asked <= told


def test_every_key_of_a_secret_that_the_tracking_server_takes_is_told_of(manifests: list[Manifest]) -> None:
    server = next(one for one in _of(manifests, "Deployment") if one["metadata"]["name"] == "mlflow")
    pod = server["spec"]["template"]["spec"]
    text = (KUBERNETES / "README.md").read_text()
    for container in [*pod["initContainers"], *pod["containers"]]:
        for item in container["env"]:
            if reference := item.get("valueFrom", {}).get("secretKeyRef"):
                (line,) = re.findall(rf"kubectl -n posttrain create secret generic {reference['name']} .*", text)
                assert f"--from-literal={reference['key']}=" in line


def test_the_tracking_server_asks_for_a_user(manifests: list[Manifest]) -> None:
    server = next(one for one in _of(manifests, "Deployment") if one["metadata"]["name"] == "mlflow")
    pod = server["spec"]["template"]["spec"]
    (container,), (accounts,) = pod["containers"], pod["initContainers"]
    command = container["command"]
    assert command[command.index("--app-name") + 1] == "basic-auth"
    assert accounts["image"] == container["image"]
    settings = [{item["name"]: item.get("value") for item in one["env"]} for one in (accounts, container)]
    assert {one["MLFLOW_AUTH_CONFIG_PATH"] for one in settings} == {"/run/mlflow/basic_auth.ini"}
    assert settings[0]["POSTTRAIN_MLFLOW_PERMISSION"] == "READ"
    secret = [name for name, value in settings[0].items() if "PASSWORD" in name]
    assert len(secret) == 2
    assert not any(settings[0][name] for name in secret)
    assert not {name for name in settings[1] if "PASSWORD" in name}  # the server itself needs none


def test_stages_are_given_the_account_that_the_tracking_server_knows(manifests: list[Manifest]) -> None:
    server = next(one for one in _of(manifests, "Deployment") if one["metadata"]["name"] == "mlflow")
    (accounts,) = server["spec"]["template"]["spec"]["initContainers"]
    named = {
        item["valueFrom"]["secretKeyRef"]["key"]
        for item in accounts["env"]
        if item.get("valueFrom", {}).get("secretKeyRef", {}).get("name") == "mlflow-stage"
    }
    assert named == set(CREDENTIALS)
    (settings,) = [one for one in _of(manifests, "ConfigMap") if one["metadata"]["name"] == "posttrain"]
    given = settings["data"]["POSTTRAIN_POD_SECRETS"]
    assert "mlflow-stage" in given.split(",")
    kubeflow = (KUBERNETES / "README.md").read_text()
    (told,) = re.findall(r"kubectl -n kubeflow create secret generic mlflow-stage (.*)", kubeflow)
    assert all(f"--from-literal={name}=" in told for name in CREDENTIALS)


def test_the_tracking_server_answers_to_the_names_by_which_it_is_called(manifests: list[Manifest]) -> None:
    server = next(one for one in _of(manifests, "Deployment") if one["metadata"]["name"] == "mlflow")
    (container,) = server["spec"]["template"]["spec"]["containers"]
    variables = {item["name"]: item.get("value") for item in container["env"]}
    answered = variables["MLFLOW_SERVER_ALLOWED_HOSTS"].split(",")
    (called,) = [one["data"]["MLFLOW_TRACKING_URI"] for one in _of(manifests, "ConfigMap") if len(one["data"]) > 1]
    assert called.removeprefix("http://") in answered
    assert {"mlflow:5000", "mlflow.posttrain:5000"} <= set(answered)
    assert not any(name.startswith("*") for name in answered)


def test_gc_is_an_account_of_its_own_that_waits_to_be_wanted(manifests: list[Manifest]) -> None:
    job = next(one for one in _of(manifests, "CronJob") if one["metadata"]["name"] == "gc")
    assert job["spec"]["suspend"] is True
    assert job["spec"]["concurrencyPolicy"] == "Forbid"
    pods = _pods(manifests)
    assert pods["gc"]["serviceAccountName"] == "gc"
    assert "gc" in {one["metadata"]["name"] for one in _of(manifests, "ServiceAccount")}
    assert pods["gc"]["containers"][0]["image"] == pods["mlflow"]["containers"][0]["image"]
    command, *arguments = pods["gc"]["containers"][0]["command"]
    assert command == "posttrain"
    given = build_parser().parse_args(arguments)
    assert (given.delete, given.older_than, given.keep_last, given.without_mlflow) == (True, None, None, False)
    # what reaches the store and MLflow is chosen by this label
    label = job["spec"]["jobTemplate"]["spec"]["template"]["metadata"]["labels"]["posttrain.dev/role"]
    policies = [one for one in _of(manifests, "NetworkPolicy") if "Egress" in one["spec"]["policyTypes"]]
    chosen = {
        policy["metadata"]["name"]
        for policy in policies
        for expression in policy["spec"]["podSelector"].get("matchExpressions", [])
        if label in expression.get("values", [])
    }
    assert "stage-to-mlflow" in chosen
    assert chosen & {"to-aws", "to-google", "to-object-store"}


def _pods(manifests: list[Manifest]) -> dict[str, Any]:
    """Return name -> the specification of the pods that Deployments and CronJobs make."""
    pods = {one["metadata"]["name"]: one["spec"]["template"]["spec"] for one in _of(manifests, "Deployment")}
    for one in _of(manifests, "CronJob"):
        pods[one["metadata"]["name"]] = one["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    return pods


def _containers(pod: dict[str, Any]) -> list[Any]:
    return [*pod.get("initContainers", []), *pod["containers"]]


def _of(manifests: list[Manifest], kind: str) -> list[Manifest]:
    return [manifest for manifest in manifests if manifest["kind"] == kind]


def _number(quantity: str) -> float:
    """Return a quantity of Kubernetes in units, or memory in GiB."""
    sizes = {"Gi": 1, "Ti": 1024}
    return float(quantity[:-2]) * sizes[quantity[-2:]] if quantity[-2:] in sizes else float(quantity)
