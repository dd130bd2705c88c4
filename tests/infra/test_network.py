"""Who reaches whom in a cluster: exactly what is listed here, by a model of the policies over rendered manifests."""

from __future__ import annotations

from itertools import product

import pytest

from pipelines.engines.shared.pod import PodSettings, pod_template
from pipelines.plan.plan import build_plan
from pipelines.recipe.pools import load_pools
from pipelines.recipe.recipe import load_recipe
from tests.infra.manifests import of_kind, rendered, templates
from tests.support.network import End, Network

pytestmark = pytest.mark.infra
JOBSET = "jobset.sigs.k8s.io/jobset-name"
ROLE = "posttrain.dev/role"
DRIVERS = ("engine", "reaper")
WORKERS = ("stage", "node-0", "node-1", *DRIVERS, "gc", "lineage")
FROM_KUBEFLOW = ("kubeflow-task", "kubeflow-driver")
OTHERS = (*FROM_KUBEFLOW, "kubeflow-other", "airflow", "stranger", "person", "kube-proxy")
PORTS = (22, 53, 80, 443, 5000, 5432, 6443, 9000, 10250, 29500)


def network(cloud: str) -> Network:
    """Return the policies of a cluster with everything applied."""
    found = [one for overlay in (cloud, f"{cloud}/kubeflow", f"{cloud}/airflow") for one in rendered(overlay)]
    policies = of_kind(tuple(found), "NetworkPolicy")
    assert len(policies) > 5
    people = {"posttrain.dev/reads-mlflow": "true"}
    (namespace,) = of_kind(tuple(found), "Namespace")
    labels = {namespace["metadata"]["name"]: namespace["metadata"]["labels"], "desks": people}
    return Network(policies, {"kubeflow": {}, "airflow": {}, "kube-system": {}, "default": {}, **labels})


def pods(cloud: str) -> list[End]:
    """Return the pods of a cluster: those of the manifests, those of stages as they are built, and those of others."""
    job = build_plan(load_recipe("quickstart"), "s3://bucket/store", "run-1").jobs[0]
    pool = load_pools()[job.resources.pool]
    stage = pod_template(job, pool, PodSettings())["metadata"]["labels"]
    found = {name: ("posttrain", template["metadata"]["labels"]) for name, template in templates(rendered(cloud))}
    found |= {"stage": ("posttrain", stage), "engine": ("posttrain", {**stage, ROLE: "engine"})}
    found |= {f"node-{number}": ("posttrain", {**stage, JOBSET: "rl-1"}) for number in (0, 1)}
    found |= {"kubeflow-task": ("kubeflow", {ROLE: "stage"}), "kubeflow-driver": ("kubeflow", {ROLE: "engine"})}
    found |= {"kubeflow-other": ("kubeflow", {"app": "minio"}), "airflow": ("airflow", {"component": "scheduler"})}
    found |= {"stranger": ("default", {ROLE: "stage", "app.kubernetes.io/name": "mlflow"}), "person": ("desks", {})}
    found |= {"dns": ("kube-system", {"k8s-app": "kube-dns"}), "kube-proxy": ("kube-system", {"k8s-app": "kube-proxy"})}
    # pods have addresses of the VPC on EKS, so that a block of it could let them in
    return [
        End(name, f"10.60.1.{number}", namespace, labels)
        for number, (name, (namespace, labels)) in enumerate(sorted(found.items()), 1)
    ]


OUTSIDE = [
    End("metadata", "169.254.169.254"),
    End("credentials", "169.254.170.23"),
    End("internet", "198.51.100.7"),
    End("office", "192.168.1.5"),
    End("vpc", "10.60.9.9"),
    End("beside", "10.70.0.3"),
]
"""The node's metadata, EKS's credential agent, any address, a private network, the Kubernetes API or a database of
AWS, and a database of Google's."""


def flows(cloud: str) -> set[tuple[str, str, int]]:
    """Return every connection that passes and has an end in the namespace posttrain; DNS is looked at by itself."""
    model, inside = network(cloud), pods(cloud)
    ends = [*inside, *OUTSIDE]
    ours = {end.name for end in inside if end.namespace == "posttrain"}
    return {
        (source.name, target.name, port)
        for source, target, port in product(ends, ends, PORTS)
        if source != target and {source.name, target.name} & ours and target.name != "dns"
        if model.passes(source, target, port)
    }


def between_nodes() -> set[tuple[str, str, int]]:
    return {(one, other, port) for one, other in (("node-0", "node-1"), ("node-1", "node-0")) for port in PORTS}


def workers(cloud: str) -> set[str]:
    """Return the pods that use the store: what is listed, and what the manifests have of those that drive stages."""
    return {*WORKERS, *engines(cloud)}


def engines(cloud: str) -> set[str]:
    return {end.name for end in pods(cloud) if end.namespace == "posttrain" and end.labels.get(ROLE) == "engine"}


def to_mlflow(cloud: str) -> set[tuple[str, str, int]]:
    return {(name, "mlflow", 5000) for name in (*workers(cloud), *FROM_KUBEFLOW, "person")}


def to_kubernetes(cloud: str) -> set[tuple[str, str, int]]:
    """Return what drives stages -> the Kubernetes API, which may be anywhere but at addresses of the node."""
    anywhere = [end.name for end in OUTSIDE if not end.address.startswith("169.254")]
    return set(product(engines(cloud), (*anywhere, *OTHERS), (443, 6443)))


def test_a_cluster_on_aws_lets_exactly_this_pass() -> None:
    """S3, KMS and STS at public addresses; the database and the API in the VPC; nothing from outside.

    Pods of other namespaces have addresses of the VPC, too, and no policies of ours.
    """
    public = {(name, "internet", 443) for name in (*workers("aws"), "mlflow")}
    database = {("mlflow", name, 5432) for name in ("vpc", *OTHERS)}
    assert flows("aws") == to_mlflow("aws") | between_nodes() | public | to_kubernetes("aws") | database


def test_a_cluster_on_google_cloud_lets_exactly_this_pass() -> None:
    """Google's interfaces at public addresses, tokens from the node, the databases; nothing from outside."""
    used = {(name, "internet", 443) for name in (*workers("gcp"), "mlflow")}
    tokens = {(name, "metadata", 80) for name in workers("gcp")}
    database = {("mlflow", "beside", 5432)}
    assert flows("gcp") == to_mlflow("gcp") | between_nodes() | used | tokens | to_kubernetes("gcp") | database


def test_a_cluster_without_a_cloud_lets_exactly_this_pass() -> None:
    store = {(name, "object-store", 9000) for name in (*workers("local"), *FROM_KUBEFLOW, "mlflow", "airflow")}
    database = {("mlflow", "postgres", 5432)}
    assert flows("local") == to_mlflow("local") | between_nodes() | store | to_kubernetes("local") | database


@pytest.mark.parametrize("cloud", ["aws", "gcp", "local"])
def test_names_resolve_for_all_and_only_at_the_clusters_own_server(cloud: str) -> None:
    model, ends = network(cloud), {end.name: end for end in pods(cloud)}
    ours = [end for end in ends.values() if end.namespace == "posttrain"]
    assert len(ours) >= 7
    for pod, protocol in product(ours, ("UDP", "TCP")):
        assert model.passes(pod, ends["dns"], 53, protocol)
        assert not model.passes(pod, ends["dns"], 8053, protocol)
        for other in (ends["kube-proxy"], *OUTSIDE, *(end for end in ours if end != pod)):
            nodes = pod.name.startswith("node-") and other.name.startswith("node-")
            assert model.passes(pod, other, 53, protocol) == nodes


def test_a_label_of_a_pool_opens_nothing() -> None:
    """Policies go by labels that the file of pools cannot set."""
    from pydantic import ValidationError

    from pipelines.recipe.pools import Pool

    keys = {
        key
        for cloud in ("aws", "gcp", "local")
        for overlay in (cloud, f"{cloud}/kubeflow", f"{cloud}/airflow")
        for policy in of_kind(rendered(overlay), "NetworkPolicy")
        for selector in [policy["spec"]["podSelector"]]
        for key in [*selector.get("matchLabels", {}), *(one["key"] for one in selector.get("matchExpressions", []))]
    }
    assert keys == {ROLE, JOBSET, "app.kubernetes.io/name"}
    for key in keys:
        with pytest.raises(ValidationError, match="network policies"):
            Pool.model_validate({"cpus": 1, "memory_gib": 1, "labels": {key: "mlflow"}})
