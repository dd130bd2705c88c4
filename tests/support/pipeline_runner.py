"""Runs a compiled pipeline of Kubeflow: every container's command as a process of this machine, in the graph's order.

Placeholders are filled in as Kubeflow's driver and launcher do; retries, and what runs although a task failed, are as
the pipeline says. Images, nodes and pauses are not: those need a cluster.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from pathlib import Path
from threading import Event
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
_PARAMETER = re.compile(r"\{\{\$\.inputs\.parameters\['([^']+)'\]\}\}")
_ARTIFACT = re.compile(r"\{\{\$\.outputs\.artifacts\['([^']+)'\]\.path\}\}")
_RESULT = re.compile(r"\{\{\$\.outputs\.parameters\['([^']+)'\]\.output_file\}\}")

Spec = Mapping[str, Any]


@dataclass
class Task:
    """How one task went."""

    name: str
    state: str = "PENDING"
    attempts: int = 0
    log: str = ""
    results: dict[str, str] = field(default_factory=dict)
    artifacts: dict[str, dict[str, Any]] = field(default_factory=dict)
    written: dict[str, str] = field(default_factory=dict)
    """Output artifact -> the text of its file."""


@dataclass
class PipelineRun:
    """One run of a pipeline. Run again, it keeps the tasks that succeeded, as a retry in Kubeflow does."""

    pipeline: Spec
    folder: Path
    run_id: str
    arguments: Mapping[str, Any]
    environment: Mapping[str, str] = field(default_factory=dict)
    stop: Event = field(default_factory=Event)
    tasks: dict[str, Task] = field(default_factory=dict)
    state: str = "PENDING"
    python: str = sys.executable
    """What `python` is in the containers."""
    _process: subprocess.Popen[str] | None = None

    def run(self) -> str:
        """Run everything; return SUCCEEDED, FAILED or CANCELED."""
        self.state = "RUNNING"
        given = self.pipeline["root"]["inputDefinitions"]["parameters"]
        values = {name: item.get("defaultValue") for name, item in given.items()} | dict(self.arguments)
        self.state = self._dag(self.pipeline["root"]["dag"], values)
        return self.state

    def terminate(self) -> None:
        """Stop: the container that runs is ended, and no other one starts, not even the last."""
        self.stop.set()
        if self._process is not None:
            self._process.terminate()

    def _dag(self, dag: Spec, values: Mapping[str, Any]) -> str:
        tasks, states = dag["tasks"], {}
        order = TopologicalSorter({name: task.get("dependentTasks", []) for name, task in tasks.items()})
        for name in order.static_order():
            task = tasks[name]
            before = [states[other] for other in task.get("dependentTasks", [])]
            always = task.get("triggerPolicy", {}).get("strategy") == "ALL_UPSTREAM_TASKS_COMPLETED"
            if self.stop.is_set():
                states[name] = "CANCELED"
            elif not always and any(state != "SUCCEEDED" for state in before):
                states[name] = "SKIPPED"
            else:
                states[name] = self._task(name, task, values, states)
        bad = [state for state in states.values() if state in ("FAILED", "CANCELED")]
        return bad[0] if bad else "SUCCEEDED"

    def _task(self, name: str, task: Spec, values: Mapping[str, Any], states: Mapping[str, str]) -> str:
        component = self.pipeline["components"][task["componentRef"]["name"]]
        given = task.get("inputs", {}).get("parameters", {})
        inputs = {key: self._input(item, values, states) for key, item in given.items()}
        if "dag" in component:
            return self._dag(component["dag"], inputs)
        shown = self.tasks.setdefault(name, Task(name))
        if shown.state == "SUCCEEDED" and "triggerPolicy" not in task:
            return shown.state
        shown.attempts += 1  # Kubeflow's own retries are for pods that are lost, and none is here
        shown.state = "RUNNING"
        code = self._attempt(shown, component, inputs)
        shown.state = "SUCCEEDED" if code == 0 else "CANCELED" if self.stop.is_set() else "FAILED"
        return shown.state

    def _input(self, item: Spec, values: Mapping[str, Any], states: Mapping[str, str]) -> Any:
        if "runtimeValue" in item:
            constant = item["runtimeValue"]["constant"]
            return self.run_id if constant == "{{$.pipeline_job_uuid}}" else constant
        if "taskOutputParameter" in item:
            source = item["taskOutputParameter"]
            return self.tasks[source["producerTask"]].results[source["outputParameterKey"]]
        if "taskFinalStatus" in item:
            producer = item["taskFinalStatus"]["producerTask"]
            return {"state": states[producer], "pipelineTaskName": producer, "error": {"message": "a task failed"}}
        return values[item["componentInputParameter"]]

    def _attempt(self, task: Task, component: Spec, inputs: Mapping[str, Any]) -> int:
        container = self.pipeline["deploymentSpec"]["executors"][component["executorLabel"]]["container"]
        folder = self.folder / self.run_id / task.name / str(task.attempts)
        answer = folder / "executor_output.json"
        words = [*container["command"], *container["args"]]
        command = _filled(words, inputs, _message(task.name, component, inputs, answer), folder)
        own = {item["name"]: item["value"] for item in container.get("env", [])}
        environment = {**os.environ, **own, **self.environment}
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), environment.get("PYTHONPATH", "")])
        self._process = subprocess.Popen(
            [self.python if command[0] == "python" else command[0], *command[1:]],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        task.log += self._process.communicate()[0]
        if self._process.returncode == 0:
            task.results = {path.name: path.read_text() for path in (folder / "results").glob("*")}
            task.written = {path.name: path.read_text() for path in (folder / "artifacts").glob("*")}
            told = json.loads(answer.read_text())["artifacts"] if answer.exists() else {}
            task.artifacts = {name: item["artifacts"][0] for name, item in told.items()}
        return self._process.returncode


def load_pipeline(text: str) -> dict[str, Any]:
    """Return the pipeline of a compiled file, without what it says of the platform."""
    return next(yaml.load_all(text, yaml.CSafeLoader))


def _message(task: str, component: Spec, inputs: Mapping[str, Any], answer: Path) -> dict[str, Any]:
    """Return what the placeholder "{{$}}" becomes."""
    defined = component.get("outputDefinitions", {}).get("artifacts", {})
    artifacts = {
        name: {"artifacts": [{"name": name, "type": item["artifactType"], "uri": f"minio://kubeflow/{task}/{name}"}]}
        for name, item in defined.items()
    }
    return {"inputs": {"parameterValues": dict(inputs)}, "outputs": {"artifacts": artifacts, "outputFile": str(answer)}}


def _filled(words: list[str], inputs: Mapping[str, Any], message: dict[str, Any], folder: Path) -> list[str]:
    def value(found: re.Match[str]) -> str:
        item = inputs[found[1]]
        return item if isinstance(item, str) else json.dumps(item)

    def fill(text: str) -> str:
        if text == "{{$}}":
            return json.dumps(message)
        text = _PARAMETER.sub(value, text)
        text = _ARTIFACT.sub(lambda found: str(folder / "artifacts" / found[1]), text)
        return _RESULT.sub(lambda found: str(folder / "results" / found[1]), text)

    return [fill(word) for word in words]
