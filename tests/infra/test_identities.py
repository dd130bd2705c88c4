"""Identities: who terraform trusts exists and the other way round; who uses the store is told where it is."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from components.runtime.lineage.delivery.target import CREDENTIALS, VARIABLE
from pipelines.engines.kubeflow.compiler.settings import CONFIG_MAPS as KUBEFLOW_MAPS
from pipelines.engines.kubeflow.compiler.settings import SECRETS as KUBEFLOW_SECRETS
from pipelines.engines.kubeflow.compiler.settings import Settings
from pipelines.engines.shared.pod import CONFIG_MAP, MLFLOW_SECRET, PodSettings
from tests.infra.conftest import INFRA
from tests.infra.manifests import KUBERNETES, Manifest, of_kind, rendered, templates

pytestmark = pytest.mark.infra
TERRAFORM = INFRA / "terraform"
VALUES: dict[str, Any] = yaml.safe_load((INFRA / "airflow" / "values.yaml").read_text())
ROLES = {"aws": "eks.amazonaws.com/role-arn", "gcp": "iam.gke.io/gcp-service-account"}
"""Cloud -> the annotation by which an account has a role there."""
NAMES = {"${var.namespace}": "posttrain", "${var.name}": "posttrain"}
CLOUDS = ("aws", "gcp", "local")
PARTS = ("", "/kubeflow", "/airflow")
AIRFLOW = {
    "scheduler": "airflow-scheduler",
    "triggerer": "airflow-triggerer",
    "apiServer": "airflow-api-server",
    "workers": "airflow-worker",
}
"""Parts of the chart -> their accounts, for a release named airflow."""


def trusted(cloud: str) -> dict[str, str]:
    """Return namespace:account -> role, as identity.tf has it."""
    text = (TERRAFORM / cloud / "identity.tf").read_text()
    (block,) = re.findall(r"^  accounts = \{\n(.*?)^  \}", text, re.MULTILINE | re.DOTALL)
    found: dict[str, str] = {}
    for line in block.splitlines():
        role, accounts = re.fullmatch(r"    ([\w-]+) += \[(.*)\]", line).groups()  # type: ignore[union-attr]
        for account in re.findall(r'"(.*?)"', accounts):
            for placeholder, name in NAMES.items():
                account = account.replace(placeholder, name)
            assert account not in found, f"{account} is trusted by two roles"
            found[account] = f"posttrain-{role}"
    return found


def annotated(cloud: str) -> dict[str, str]:
    """Return namespace:account -> the role that the manifests and the values of Airflow's chart name."""
    found: dict[str, str] = {}
    for overlay in (cloud, f"{cloud}/kubeflow", f"{cloud}/airflow", *(["aws/autoscaler"] if cloud == "aws" else [])):
        for account in of_kind(rendered(overlay), "ServiceAccount"):
            name = f"{account['metadata']['namespace']}:{account['metadata']['name']}"
            if role := account["metadata"].get("annotations", {}).get(ROLES[cloud]):
                found[name] = _role(role)
    values = yaml.safe_load((KUBERNETES / "overlays" / cloud / "airflow" / "values.yaml").read_text())
    for part, settings in ((part, one) for part, one in values.items() if part in AIRFLOW):
        found[f"airflow:{AIRFLOW[part]}"] = _role(settings["serviceAccount"]["annotations"][ROLES[cloud]])
    return found


def _role(text: str) -> str:
    """Return the name of a role: of an ARN, or of an account of Google's."""
    return text.rpartition("/")[2].partition("@")[0]


@pytest.mark.parametrize("cloud", sorted(ROLES))
def test_every_account_that_terraform_trusts_exists_and_the_other_way_round(cloud: str) -> None:
    assert len(trusted(cloud)) >= 10
    assert annotated(cloud) == trusted(cloud)


def test_both_clouds_give_the_same_accounts_the_same_rights() -> None:
    lines = [re.findall(r"^    \w+ += \{ prefix = .*$", (TERRAFORM / cloud / "identity.tf").read_text(), re.MULTILINE)
             for cloud in sorted(ROLES)]  # fmt: skip
    assert lines[0] == lines[1] and len(lines[0]) == 6
    aws = {name: role for name, role in trusted("aws").items() if role != "posttrain-autoscaler"}
    assert trusted("gcp") == aws


@pytest.mark.parametrize("cloud", sorted(ROLES))
def test_accounts_are_looked_for_where_they_are(cloud: str) -> None:
    text = (TERRAFORM / cloud / "variables.tf").read_text()
    for variable in ("namespace", "name"):
        (block,) = re.findall(rf'^variable "{variable}" \{{\n(.*?)^\}}', text, re.MULTILINE | re.DOTALL)
        assert re.search(r'default += "posttrain"', block)
    values = yaml.safe_load((KUBERNETES / "overlays" / "aws" / "autoscaler" / "values.yaml").read_text())
    (account,) = of_kind(rendered("aws/autoscaler"), "ServiceAccount")
    assert values["rbac"]["serviceAccount"] == {"create": False, "name": account["metadata"]["name"]}


def test_no_pod_uses_an_account_that_is_not_there() -> None:
    for cloud in CLOUDS:
        accounts = {one["metadata"]["name"] for one in of_kind(rendered(cloud), "ServiceAccount")}
        for name, template in templates(rendered(cloud)):
            if account := template["spec"].get("serviceAccountName"):
                assert account in accounts, name
        assert PodSettings().service_account in accounts


@pytest.mark.parametrize("cloud", CLOUDS)
def test_every_binding_binds_an_account_and_a_role_that_are_there(cloud: str) -> None:
    everything = [one for part in PARTS for one in rendered(cloud + part)]
    accounts = {
        (one["metadata"]["namespace"], one["metadata"]["name"]) for one in of_kind(tuple(everything), "ServiceAccount")
    }
    accounts |= {("airflow", name) for name in AIRFLOW.values()}
    roles = {one["metadata"]["name"] for one in of_kind(tuple(everything), "Role")} | {"pipeline-runner"}  # Kubeflow's
    bindings = of_kind(tuple(everything), "RoleBinding")
    assert len(bindings) >= 4
    for binding in bindings:
        assert binding["roleRef"]["name"] in roles
        for subject in binding["subjects"]:
            assert (subject.get("namespace", binding["metadata"]["namespace"]), subject["name"]) in accounts


@pytest.mark.parametrize("cloud", CLOUDS)
def test_one_config_map_tells_everybody_where_store_and_mlflow_are(cloud: str) -> None:
    found = {
        one["metadata"]["namespace"]: one["data"]
        for part in PARTS
        for one in of_kind(rendered(cloud + part), "ConfigMap")
        if one["metadata"]["name"] == CONFIG_MAP
    }
    assert found.keys() == {"posttrain", "kubeflow", "airflow"}
    assert found["posttrain"] == found["kubeflow"] == found["airflow"]
    assert {"POSTTRAIN_STORE", VARIABLE, "AWS_REGION"} <= found["posttrain"].keys()
    # a ConfigMap as a whole becomes variables: a key that is no name of one would be left out without a word
    assert all(re.fullmatch(r"[A-Z][A-Z0-9_]*", key) for key in found["posttrain"])
    server = found["posttrain"][VARIABLE].removeprefix("http://")
    assert server in _variable(cloud, "mlflow", "MLFLOW_SERVER_ALLOWED_HOSTS").split(",")


def test_stages_drivers_and_the_last_task_have_both() -> None:
    assert (PodSettings.read({}).config_maps, PodSettings.read({}).secrets) == ((CONFIG_MAP,), (MLFLOW_SECRET,))
    assert PodSettings.read({"POSTTRAIN_POD_SECRETS": "", "POSTTRAIN_POD_CONFIG_MAPS": ""}).secrets == ()
    kubeflow = Settings.read({})  # of all tasks: the first, drivers, stages, the last
    ((name, keys),), ((secret, named),) = kubeflow.config_maps, kubeflow.secrets
    assert (name, secret) == (CONFIG_MAP, MLFLOW_SECRET)
    (given,) = (one["data"] for one in of_kind(rendered("aws/kubeflow"), "ConfigMap"))
    assert set(keys) <= given.keys()
    assert {"POSTTRAIN_STORE", VARIABLE} <= set(keys)
    assert set(named) == set(CREDENTIALS)
    assert kubeflow.pods.config_maps == (CONFIG_MAP,)
    assert Settings.read({KUBEFLOW_MAPS: "", KUBEFLOW_SECRETS: ""}).secrets == ()
    values = {item["name"]: item["value"] for item in VALUES["env"]}
    assert PodSettings.read(values).config_maps == (CONFIG_MAP,)
    assert yaml.safe_load(VALUES["extraEnvFrom"]) == [{"configMapRef": {"name": CONFIG_MAP}}]
    assert not {"POSTTRAIN_STORE", VARIABLE} & values.keys()  # said once


@pytest.mark.parametrize("cloud", CLOUDS)
def test_what_uses_the_store_may_and_knows_where_it_is(cloud: str) -> None:
    roles = set(trusted("gcp" if cloud == "gcp" else "aws"))
    for name in ("gc", "lineage"):
        template = dict(templates(rendered(cloud)))[name]
        (container,) = template["spec"]["containers"]
        assert {"configMapRef": {"name": CONFIG_MAP}} in container["envFrom"]
        assert {"secretRef": {"name": MLFLOW_SECRET}} in container["envFrom"]
        assert f"posttrain:{template['spec']['serviceAccountName']}" in roles
        assert template["spec"]["serviceAccountName"] == name


def _variable(cloud: str, deployment: str, name: str) -> str:
    template: Manifest = dict(templates(rendered(cloud)))[deployment]
    (container,) = template["spec"]["containers"]
    (value,) = (item["value"] for item in container["env"] if item["name"] == name)
    return str(value)
