"""The manifests: every overlay builds, is valid against the strict schemas, denies by default, and fits the pools."""

from __future__ import annotations

import re
import subprocess
from typing import Any

import pytest
import yaml

from pipelines.pools import load_pools
from tests.infra.conftest import INFRA

pytestmark = pytest.mark.infra
KUBERNETES = INFRA / "kubernetes"
OVERLAYS = sorted(path.name for path in (KUBERNETES / "overlays").iterdir())
Manifest = dict[str, Any]


@pytest.fixture(scope="module", params=OVERLAYS)
def manifests(request: pytest.FixtureRequest) -> list[Manifest]:
    """What an overlay is made into."""
    command = ["kubectl", "kustomize", str(KUBERNETES / "overlays" / request.param)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def test_there_are_overlays() -> None:
    assert OVERLAYS == ["aws", "local"]


@pytest.mark.parametrize("version", ["1.31", "1.32"])
def test_every_manifest_is_valid_to_the_letter(manifests: list[Manifest], version: str) -> None:
    import kubernetes_validate

    for manifest in manifests:
        kubernetes_validate.validate(manifest, version, strict=True)


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
    deployments = _of(manifests, "Deployment")
    assert deployments
    for deployment in deployments:
        pod = deployment["spec"]["template"]["spec"]
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
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
    for value in _texts(manifests):
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
    quota = next(one for one in _of(manifests, "ResourceQuota") if one["metadata"]["name"] == "all-stages")
    largest = max(pool.gpu_count for pool in load_pools().values())
    assert int(quota["spec"]["hard"]["requests.nvidia.com/gpu"]) >= largest


def _of(manifests: list[Manifest], kind: str) -> list[Manifest]:
    return [manifest for manifest in manifests if manifest["kind"] == kind]


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for one in value.values() for text in _texts(one)]
    if isinstance(value, list):
        return [text for one in value for text in _texts(one)]
    return [value] if isinstance(value, str) else []
