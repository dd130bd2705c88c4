"""Tasks that differ by their arguments alone share one component, its container and its settings of the platform.

kfp writes all three for each task. Kubeflow's server keeps them in one object of Kubernetes, which has a limit (see
size.py); a component that several tasks refer to is there once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pipelines.engines.kubeflow.names import COMPONENT, task_name

SAME = "POSTTRAIN_TASKS"
"""Variable that tells containers apart whose components differ: Kubeflow's server keys components by their container
alone, and gives the first one's inputs to all that have the same."""
Dict = dict[str, Any]


def share(pipeline: Dict, platform: Dict) -> tuple[Dict, Dict]:
    """Return a pipeline and its platform without repetitions; tasks keep their names, and what they do."""
    executors = pipeline["deploymentSpec"]["executors"]
    configs = platform.get("platforms", {}).get("kubernetes", {}).get("deploymentSpec", {}).get("executors", {})
    names: dict[str, str] = {}
    kept: dict[str, str] = {}
    for name in _used(pipeline):
        component = pipeline["components"][name]
        if "executorLabel" not in component:
            names[name] = name
            continue
        label = component["executorLabel"]
        parts = [{**component, "executorLabel": ""}, executors[label], configs.get(label)]
        found = json.dumps(parts, sort_keys=True)
        if found not in kept:
            kept[found] = _free(_kind(name, configs.get(label)), kept.values())
        names[name] = kept[found]
    return _renamed(pipeline, platform, names)


def _used(pipeline: Dict) -> Iterator[str]:
    """Yield the components that tasks refer to, by the names of the tasks: protobuf's maps have no order."""
    components = sorted(pipeline["components"].items())
    for dag in (pipeline["root"]["dag"], *(one["dag"] for _, one in components if "dag" in one)):
        yield from (task["componentRef"]["name"] for _, task in sorted(dag["tasks"].items()))


def _kind(name: str, config: Mapping[str, Any] | None) -> str:
    """Return what a shared component is called: by our component, else as its task is."""
    labels = (config or {}).get("podMetadata", {}).get("labels", {})
    return f"comp-{task_name(labels[COMPONENT])}" if COMPONENT in labels else name


def _free(name: str, taken: Any) -> str:
    known, found, number = set(taken), name, 1
    while found in known:
        number += 1
        found = f"{name}-{number}"
    return found


def _renamed(pipeline: Dict, platform: Dict, names: Mapping[str, str]) -> tuple[Dict, Dict]:
    executors, components, settings = {}, {}, {}
    old = pipeline["deploymentSpec"]["executors"]
    kubernetes = platform.get("platforms", {}).get("kubernetes", {})
    configs = kubernetes.get("deploymentSpec", {}).get("executors", {})
    for before, name in names.items():
        component = pipeline["components"][before]
        if "dag" in component:
            components[name] = {**component, "dag": _pointed(component["dag"], names)}
        elif name not in components:
            label, target = component["executorLabel"], name.replace("comp-", "exec-", 1)
            components[name] = {**component, "executorLabel": target}
            executors[target] = old[label]
            if label in configs:
                settings[target] = configs[label]
    shared = {
        **pipeline,
        "components": components,
        "deploymentSpec": {**pipeline["deploymentSpec"], "executors": _told_apart(components, executors)},
        "root": {**pipeline["root"], "dag": _pointed(pipeline["root"]["dag"], names)},
    }
    if not configs:
        return shared, platform
    kubernetes = {**kubernetes, "deploymentSpec": {**kubernetes["deploymentSpec"], "executors": settings}}
    return shared, {**platform, "platforms": {**platform["platforms"], "kubernetes": kubernetes}}


def _told_apart(components: Dict, executors: Dict) -> Dict:
    """Return the executors such that components of one container are one component."""
    seen: dict[str, str] = {}
    found: Dict = {}
    for name in sorted(components):
        label = components[name].get("executorLabel")
        if label is None:
            continue
        executor = executors[label]
        text = json.dumps(executor, sort_keys=True)
        if seen.setdefault(text, label) != label:
            container = executor["container"]
            env = [*container.get("env", []), {"name": SAME, "value": name.removeprefix("comp-")}]
            executor = {**executor, "container": {**container, "env": env}}
        found[label] = executor
    return found


def _pointed(dag: Dict, names: Mapping[str, str]) -> Dict:
    tasks = {
        task: {**spec, "componentRef": {**spec["componentRef"], "name": names[spec["componentRef"]["name"]]}}
        for task, spec in dag["tasks"].items()
    }
    return {**dag, "tasks": tasks}
