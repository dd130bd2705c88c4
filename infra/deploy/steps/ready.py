"""Waiting: until kinds are known and what runs is ready."""

from __future__ import annotations

from typing import Any

from infra.deploy.site import Site

READY_SECONDS = 900
KIND_SECONDS = 120


def wait_for_workloads(site: Site, namespace: str) -> None:
    """Wait until all that runs in a namespace is ready; StepFailed names the first that is not."""
    kinds = "deployments,statefulsets,daemonsets"
    names = site.kubectl("-n", namespace, "get", kinds, "-o", "name", "--ignore-not-found").stdout.split()
    for name in names:
        words = ("rollout", "status", name, f"--timeout={READY_SECONDS}s")
        site.kubectl("-n", namespace, *words, seconds=READY_SECONDS + 60)


def wait_for_kinds(site: Site, objects: list[dict[str, Any]]) -> None:
    """Wait until the API server serves the kinds that were just defined."""
    for one in objects:
        if one["kind"] == "CustomResourceDefinition":
            name = f"crd/{one['metadata']['name']}"
            words = ("wait", "--for=condition=established", f"--timeout={KIND_SECONDS}s", name)
            site.kubectl(*words, seconds=KIND_SECONDS + 30)
