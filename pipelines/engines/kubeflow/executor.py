"""Kubeflow's message to a task's container, and the container's answer. Imports no kfp."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.contract.errors import InputError

METRICS = "system.Metrics"
"""Kubeflow's type of artifacts whose metadata are numbers that runs are compared by."""


@dataclass(frozen=True)
class ExecutorInput:
    """The message in the place of the argument "{{$}}"."""

    parameters: Mapping[str, Any]
    """Values of the task's inputs; numbers as JSON has them."""
    artifacts: Mapping[str, Mapping[str, Any]]
    """Output -> how Kubeflow calls it: name, type, and a URI of its own."""
    answer: Path | None
    """File for the answer; None if nothing reads one."""

    @classmethod
    def parse(cls, text: str) -> ExecutorInput:
        """Return the message; raise InputError for invalid text."""
        try:
            message = json.loads(text)
            outputs = message.get("outputs", {})
            artifacts = {name: found["artifacts"][0] for name, found in outputs.get("artifacts", {}).items()}
            answer = outputs.get("outputFile")
            return cls(
                message.get("inputs", {}).get("parameterValues", {}), artifacts, Path(answer) if answer else None
            )
        except (ValueError, KeyError, IndexError, AttributeError, TypeError) as error:
            raise InputError(f"--executor-input: not a message of Kubeflow ({error})") from None

    def has_metrics(self, output: str) -> bool:
        """Return whether Kubeflow shows an output's metadata as metrics, a row each."""
        kind = self.artifacts.get(output, {}).get("type") or {}
        return kind.get("schemaTitle") == METRICS

    def reply(self, metadata: Mapping[str, Mapping[str, Any]], results: Mapping[str, str] | None = None) -> None:
        """Write each output artifact's metadata, and the results; creates folders, since not all runners do."""
        if self.answer is None:
            return
        told = {
            name: {"artifacts": [{**self.artifacts[name], "metadata": dict(facts)}]}
            for name, facts in metadata.items()
            if name in self.artifacts
        }
        self.answer.parent.mkdir(parents=True, exist_ok=True)
        self.answer.write_text(json.dumps({"artifacts": told, "parameterValues": dict(results or {})}))


def write_file(path: str | Path, text: str) -> None:
    """Write a file and the folders that it lies in."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
