"""A stage of a run, as its task sees it: the job in the store, and the report of its end to Kubeflow."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from components.contract.artifacts import ArtifactType
from components.contract.errors import PosttrainError, StageFailed
from components.contract.terminal import visible
from components.runtime.ledger.records import stage_key
from components.runtime.lineage.delivery.deliver import deliver
from components.runtime.lineage.delivery.target import tracking_uri
from pipelines.engines.driver.stage import DrivenStage
from pipelines.engines.kubeflow.executor import ExecutorInput, write_file
from pipelines.engines.kubeflow.names import identifier
from pipelines.engines.shared.mlflow_page import mlflow_address, run_address
from pipelines.runs.delivering import LINEAGE

DELIVERY_SECONDS = 20.0
"""How long another process that delivers this run gets to finish; the run's end brings what is left."""


@dataclass(frozen=True)
class StageRun(DrivenStage):
    """One stage of one run, with what Kubeflow is told of it."""

    def point(self, told: ExecutorInput, pointers: Iterable[tuple[str, str]]) -> None:
        """Write a pointer for each output, and give Kubeflow the same as the artifact's metadata.

        A Metrics artifact's metadata are its numbers alone: Kubeflow makes a row of each and compares runs by them.
        """
        entry = self.store.get(stage_key(self.run_id, self.stage)) or {}
        if self.job is not None and not entry:
            raise StageFailed(f"stage {self.stage!r} ended without a ledger entry in {self.store.uri}")
        link = self._mlflow()
        metadata: dict[str, dict[str, Any]] = {}
        for port, path in pointers:
            facts = self._facts(entry, port, link)
            metadata[identifier(port)] = _numbers(entry) if told.has_metrics(identifier(port)) else facts
            write_file(path, json.dumps(facts, indent=2, sort_keys=True) + "\n")
        told.reply(metadata)

    def _facts(self, entry: dict[str, Any], port: str, link: str | None) -> dict[str, Any]:
        facts: dict[str, Any] = {"run": self.run_id, "stage": self.stage, "port": port}
        output = entry.get("outputs", {}).get(port)
        if output is None:
            why = entry.get("error") or ("nothing was made for it" if entry else "the run's parameters leave it out")
            return {**facts, "skipped": why}
        facts |= {name: output[name] for name in ("type", "digest", "uri", "size")}
        facts |= {"cache": entry["cache"], "lineage": f"posttrain lineage {self.run_id}:{self.stage}.{port}"}
        facts |= {"mlflow": link} if link else {}
        return {**entry["metrics"], **facts} if output["type"] == ArtifactType.METRICS else facts

    def _mlflow(self) -> str | None:
        """Return the stage's page in MLflow, after bringing its lineage there; None where MLflow has no page."""
        base = mlflow_address(self.store)
        if base is None:
            return None
        try:
            if os.environ.get(LINEAGE, "live") == "live":
                deliver(self.store, self.run_id, tracking_uri(self.store), wait_seconds=DELIVERY_SECONDS)
        except PosttrainError as error:  # an unreachable tracking server fails no stage
            print(visible(f"lineage stays in the store for now: {error}"), flush=True)
        return run_address(self.store, base, self.run_id, self.stage, wait_seconds=0)


def _numbers(entry: Mapping[str, Any]) -> dict[str, float]:
    """Return a stage's headline metrics; the ledger holds finite numbers alone."""
    found = entry.get("metrics", {}).items()
    return {name: value for name, value in found if isinstance(value, int | float) and not isinstance(value, bool)}


def add_outputs(parser: argparse.ArgumentParser) -> None:
    """Add what tasks with outputs are told."""
    parser.add_argument("--executor-input", default="{}", help="what Kubeflow reports about the task, JSON")
    parser.add_argument("--pointer", nargs=2, action="append", default=[], metavar=("PORT", "FILE"))
