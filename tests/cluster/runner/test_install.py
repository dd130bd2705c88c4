"""The rights that the step install checks: the role of the manifests grants them, and a right cluster passes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import yaml

from tests.cluster.install import DRIVERS_DO, lacks
from tests.cluster.kubectl import KubectlFailed

ACCOUNTS = Path(__file__).parents[3] / "infra/kubernetes/base/accounts.yaml"


def granted(role: str) -> set[tuple[str, str]]:
    """Return what a role of the manifests allows: verb and resource, with its group as kubectl writes it."""
    documents = yaml.safe_load_all(ACCOUNTS.read_text(encoding="utf-8"))
    (rules,) = (item["rules"] for item in documents if item["kind"] == "Role" and item["metadata"]["name"] == role)
    return {
        (verb, f"{resource}.{group}" if group else resource)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


class ApiServer:
    """kubectl auth can-i of an API server with a role: exit code 1 and "no" for what it does not grant."""

    def __init__(self, rights: set[tuple[str, str]]) -> None:
        self.rights = rights

    def get(self, kind: str, name: str, namespace: str = "") -> dict[str, Any]:
        return {"kind": kind}

    def said(self, *words: str) -> str:
        if words[2:4] in self.rights:
            return "yes\n"
        raise KubectlFailed("kubectl auth: no")


def missing(rights: set[tuple[str, str]]) -> list[str]:
    session: Any = SimpleNamespace(kubectl=ApiServer(rights), namespace="posttrain")
    return list(lacks(session, "posttrain:engine"))


def test_the_role_grants_what_drivers_do() -> None:
    """It does not let them delete pods: a driver deletes its Job, and Kubernetes the pods."""
    role = granted("run-stages")
    assert ("delete", "pods") not in role and set(DRIVERS_DO) <= role
    assert missing(role) == []


def test_a_right_that_is_missing_is_named() -> None:
    role = granted("run-stages") - {("update", "leases.coordination.k8s.io")}
    assert missing(role) == ["posttrain:engine may not update leases.coordination.k8s.io in posttrain"]
