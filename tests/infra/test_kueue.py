"""Kueue's queues: valid, and for every pool exactly one flavour whose quota its largest job fits into."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from pipelines.engines.shared import pool_parts
from pipelines.recipe.pools import Pool, load_pools
from tests.infra.manifests import KUBERNETES, Manifest, build, of_kind

pytestmark = pytest.mark.infra
SCHEMA = json.loads((Path(__file__).parent / "kueue.schema.json").read_text())
GIB = {"Gi": 1, "Ti": 1024}


def manifests() -> tuple[Manifest, ...]:
    return build("kueue")


def quotas() -> dict[str, dict[str, float]]:
    """Return flavour -> resource -> quota, memory in GiB."""
    (queue,) = of_kind(manifests(), "ClusterQueue")
    (group,) = queue["spec"]["resourceGroups"]
    for flavour in group["flavors"]:  # Kueue asks for all of them, in this order
        assert [one["name"] for one in flavour["resources"]] == group["coveredResources"]
    return {
        flavour["name"]: {one["name"]: _number(one["nominalQuota"]) for one in flavour["resources"]}
        for flavour in group["flavors"]
    }


def fits(pool: Pool, flavour: Manifest) -> bool:
    """Return whether a pool's pods may use a flavour, as Kueue sees it: labels of its nodes, and taints."""
    spec = flavour["spec"]
    selected = all(pool.node_selector.get(key, value) == value for key, value in spec["nodeLabels"].items())
    tolerated = {toleration.key for toleration in pool.tolerations}
    return selected and all(taint["key"] in tolerated for taint in spec.get("nodeTaints", []))


def test_every_field_is_known() -> None:
    for manifest in manifests():
        jsonschema.validate(manifest, SCHEMA)
    broken = copy.deepcopy(manifests()[0])
    broken["spec"]["resourceGroup"] = []
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(broken, SCHEMA)


def test_every_pool_with_nodes_of_its_own_has_one_flavour_that_its_largest_job_fits_into() -> None:
    flavours = {one["metadata"]["name"]: one for one in of_kind(manifests(), "ResourceFlavor")}
    assert quotas().keys() == flavours.keys()
    used: dict[str, dict[str, float]] = {}
    for name, pool in load_pools().items():
        if not pool.node_selector:
            assert pool.queue is None, f"{name}: Kueue would choose its nodes"
            continue
        (flavour,) = [found for found, manifest in flavours.items() if fits(pool, manifest)]
        wanted = {"cpu": pool.cpus, "memory": pool.memory_gib, "nvidia.com/gpu": pool.gpus}
        most = used.setdefault(flavour, dict.fromkeys(wanted, 0.0))
        used[flavour] = {word: max(most[word], amount * pool.nodes) for word, amount in wanted.items()}
    assert used == quotas()  # which is as many nodes as terraform lets a pool have


def test_pools_name_a_queue_that_is_there_and_takes_their_namespace() -> None:
    (local,), (cluster,) = of_kind(manifests(), "LocalQueue"), of_kind(manifests(), "ClusterQueue")
    named = {pool.queue for pool in load_pools().values() if pool.queue}
    assert named == {local["metadata"]["name"]}
    assert local["spec"]["clusterQueue"] == cluster["metadata"]["name"]
    selector = cluster["spec"]["namespaceSelector"]["matchLabels"]
    assert selector == {"kubernetes.io/metadata.name": local["metadata"]["namespace"]}


def test_all_kinds_of_work_are_admitted_as_a_whole() -> None:
    values = yaml.safe_load((KUBERNETES / "kueue" / "values.yaml").read_text())
    settings: dict[str, Any] = yaml.safe_load(values["managerConfig"]["controllerManagerConfigYaml"])
    kinds = {"batch/job", "jobset.x-k8s.io/jobset", "trainer.kubeflow.org/trainjob", "pod"}
    assert set(settings["integrations"]["frameworks"]) == kinds
    waiting = settings["waitForPodsReady"]
    assert waiting.keys() <= {"timeout", "blockAdmission", "requeuingStrategy", "recoveryTimeout"}
    assert re.fullmatch(r"\d+m", waiting["timeout"])
    versions = {manifest["apiVersion"] for manifest in manifests()}
    assert versions == {"kueue.x-k8s.io/v1beta2"}
    assert settings["apiVersion"].endswith("/v1beta2")


def test_what_a_pod_asks_for_is_in_the_quota_or_left_out_of_it() -> None:
    """Kueue admits nothing that asks for a resource of which it knows nothing."""
    values = yaml.safe_load((KUBERNETES / "kueue" / "values.yaml").read_text())
    left_out = yaml.safe_load(values["managerConfig"]["controllerManagerConfigYaml"])["resources"]
    prefixes = tuple(left_out["excludeResourcePrefixes"])
    (covered,) = {tuple(resources) for resources in quotas().values()}
    largest = load_pools()["h100x16"].model_dump(exclude_defaults=True)
    devices = {"vpc.amazonaws.com/efa": 32, "rdma/hca": 8, "hugepages-2Mi": "5120Mi"}
    pool = Pool.model_validate({**largest, "resources": devices, "ephemeral_storage": "1Ti"})
    for name in pool_parts.resources(pool)["requests"]:
        assert name in covered or name.startswith(prefixes)


def _number(quantity: Any) -> float:
    number, unit = re.fullmatch(r"(\d+)(Gi|Ti)?", str(quantity)).groups()  # type: ignore[union-attr]
    return float(number) * GIB.get(unit, 1)
