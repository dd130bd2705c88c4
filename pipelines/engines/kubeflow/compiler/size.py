"""How large a compiled pipeline becomes as a Workflow of Argo, which is one object of Kubernetes.

After KFP 2.17's own compiler, backend/src/v2/compiler/argocompiler: every component, container and platform setting is
an argument of the workflow, once; every task is two of a DAG, its driver with the task in JSON and its executor with
its labels; and the DAG's own component holds all tasks once more. Imports no kfp.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

LIMIT_BYTES = 1024 * 1024
"""Of a Workflow: Argo's own limit, and near etcd's; what has happened is kept there too, compressed."""
ROOM_BYTES = 128 * 1024
"""Kept free for that: about 40 compressed bytes for each of a task's three nodes, and metadata."""
FIXED_BYTES = 6_200
"""Templates of both drivers and the entry point, metadata, and names of images."""
TEMPLATE_BYTES, METADATA_BYTES = 3_400, 450
"""Of one kind of executor, and of each of its labels and annotations: one for each number of them, with retries and
without."""
_RETRY = {
    f"retry-{word}": "600" for word in ("max-count", "backoff-duration", "backoff-factor", "backoff-max-duration")
}
_INPUT = "{{inputs.parameters.%s}}"

Spec = Mapping[str, Any]


def workflow_bytes(pipeline: Spec, platform: Spec, arguments: Mapping[str, Any] | None = None) -> int:
    """Return the size of the workflow that a run of a pipeline becomes, to a few percent."""
    kubernetes = platform.get("platforms", {}).get("kubernetes", {})
    configs = kubernetes.get("deploymentSpec", {}).get("executors", {})
    parameters, dags = _arguments(pipeline, configs), [pipeline["root"]["dag"]]
    dags += [one["dag"] for one in pipeline["components"].values() if "dag" in one]
    kinds: set[tuple[int, bool]] = set()
    tasks = [_task(pipeline, configs, name, task, kinds) for dag in dags for name, task in dag["tasks"].items()]
    given = {**_defaults(pipeline), **(arguments or {})}
    body = [parameters, tasks, {"name": "runtime-config", "value": _json({"parameterValues": given})}]
    templates = sum(TEMPLATE_BYTES + METADATA_BYTES * metadata for metadata, _ in kinds)
    return FIXED_BYTES + templates + len(_json(body).encode())


def fits(size: int) -> bool:
    """Return whether a workflow of this many bytes can be submitted, and followed to its end."""
    return size <= LIMIT_BYTES - ROOM_BYTES


def _arguments(pipeline: Spec, configs: Spec) -> list[Spec]:
    """Return what the workflow has once: components, containers and settings by content or name."""
    found = {"components-root": _json(pipeline["root"])}
    executors = pipeline["deploymentSpec"]["executors"]
    for name, component in pipeline["components"].items():
        label = component.get("executorLabel")
        key = _key(executors[label]["container"]) if label else name
        found.setdefault(f"components-{key}", _json(component))
        if label:
            found.setdefault(f"implementations-{key}", _json(executors[label]["container"]))
            if label in configs:
                found[f"kubernetes-{name}"] = _json(configs[label])
    return [{"name": name, "value": value} for name, value in found.items()]


def _task(pipeline: Spec, configs: Spec, name: str, task: Spec, kinds: set[tuple[int, bool]]) -> list[Spec]:
    """Return the two tasks of Argo that a task becomes; `kinds` gets the executor's template."""
    reference = task["componentRef"]["name"]
    label = pipeline["components"][reference].get("executorLabel")
    key = _key(pipeline["deploymentSpec"]["executors"][label]["container"]) if label else reference
    told = {"component": f"{{{{workflow.parameters.components-{key}}}}}", "task": _json(task), "task-name": name}
    told["parent-dag-id"] = _INPUT % "parent-dag-id"
    if label:
        told["container"] = f"{{{{workflow.parameters.implementations-{key}}}}}"
    if label in configs:
        told["kubernetes-config"] = f"{{{{workflow.parameters.kubernetes-{reference}}}}}"
    before = " && ".join(f"{other}.Succeeded" for other in task.get("dependentTasks", []))
    driver = _argo(f"{name}-driver", "system-container-driver", told, before)
    output = f"{{{{tasks.{name}-driver.outputs.parameters.%s}}}}"
    given = {"pod-spec-patch": output % "pod-spec-patch", "cached-decision": output % "cached-decision"}
    retries = task.get("retryPolicy")
    if label:
        metadata = configs.get(label, {}).get("podMetadata", {})
        labels, annotations = metadata.get("labels", {}), metadata.get("annotations", {})
        given |= _numbered("label", labels) | _numbered("annotation", annotations)
        given |= _RETRY if retries else {}
        kinds.add((len(labels) + len(annotations), bool(retries)))
    template = "metadata-1-5-retry-system-container-executor" if label else reference
    return [driver, _argo(name, template, given, f"{name}-driver.Succeeded")]


def _argo(name: str, template: str, parameters: Mapping[str, str], before: str) -> Spec:
    listed = [{"name": word, "value": value} for word, value in parameters.items()]
    return {"name": name, "template": template, "arguments": {"parameters": listed}, "depends": before}


def _numbered(kind: str, metadata: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for number, (name, value) in enumerate(metadata.items(), 1):
        found |= {f"pod-metadata-{kind}-key-{number}": name, f"pod-metadata-{kind}-val-{number}": value}
    return found


def _defaults(pipeline: Spec) -> dict[str, Any]:
    given = pipeline["root"].get("inputDefinitions", {}).get("parameters", {})
    return {name: item["defaultValue"] for name, item in given.items() if "defaultValue" in item}


def _key(container: Spec) -> str:
    return hashlib.sha256(_json(container).encode()).hexdigest()


def _json(value: Any) -> str:
    """Return JSON as Go writes it: short, sorted, without the signs of HTML."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
