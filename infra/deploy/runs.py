"""Whether runs are at work, which `make destroy` does not end."""

from __future__ import annotations

import json

from infra.deploy.site import Site

LABEL = "posttrain.dev/run"
AT_WORK = ("Pending", "Running")


def runs_at_work(site: Site) -> list[str]:
    """Return the runs of which a pod waits or works, with how many; nothing where there is no cluster."""
    if not site.cluster_is_there:
        return []
    told = site.kubectl("get", "pods", "--all-namespaces", "-l", LABEL, "-o", "json").stdout
    counts: dict[str, int] = {}
    for pod in json.loads(told).get("items", []):
        if pod.get("status", {}).get("phase") in AT_WORK:
            name = f"{pod['metadata']['labels'][LABEL]} ({pod['metadata']['namespace']})"
            counts[name] = counts.get(name, 0) + 1
    return [f"{name}: {count} pods" for name, count in sorted(counts.items())]
