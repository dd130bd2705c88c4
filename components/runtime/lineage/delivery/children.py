"""The MLflow runs of a run's stages: one for each stage and fingerprint. Imports MLflow."""

from __future__ import annotations

from dataclasses import dataclass

from mlflow.entities import Run
from mlflow.tracking import MlflowClient

from components.runtime.lineage.delivery.model_writer import RUN_ID
from components.runtime.lineage.events import RunStarted
from components.runtime.lineage.spool import NO_FINGERPRINT

STAGE = "posttrain.stage"
FINGERPRINT = "posttrain.fingerprint"


@dataclass
class Child:
    """The MLflow run of one stage with one fingerprint."""

    run_id: str
    stage: str
    started: int
    status: str
    """RUNNING, FINISHED, FAILED or KILLED."""
    described: bool = False
    """Whether this process has written its parameters and inputs."""


class Children:
    """The child runs of one parent run."""

    def __init__(self, client: MlflowClient, first: RunStarted, experiment: str) -> None:
        self._client, self._first, self._experiment = client, first, experiment
        self._children: dict[tuple[str, str], Child] = {}

    def found(self, identity: tuple[str, str], run: Run) -> None:
        """Take over a run that MLflow has; `identity` is its stage and fingerprint."""
        info = run.info
        self._children[identity] = Child(info.run_id, identity[0], info.start_time, info.status)

    def by_start(self) -> list[Child]:
        """Return all of them, the newest last."""
        return sorted(self._children.values(), key=lambda child: child.started)

    def child(self, parent: str, stage: str, fingerprint: str | None, started: int) -> Child:
        """Return the child run of a stage with a fingerprint, created if needed; end an older one left open."""
        identity = (stage, fingerprint or NO_FINGERPRINT)
        child = self._children.get(identity)
        if child is None:
            tags = {
                "mlflow.parentRunId": parent,
                RUN_ID: self._first.run_id,
                "posttrain.recipe": self._first.recipe,
                STAGE: stage,
                FINGERPRINT: identity[1],
            }
            run = self._client.create_run(self._experiment, started, tags, stage)
            child = self._children[identity] = Child(run.info.run_id, stage, started, "RUNNING")
        self.end_open(child.started, stage=stage, keep=child)
        return child

    def end_open(self, at: int, *, stage: str | None = None, keep: Child | None = None) -> None:
        """Mark open children that began by `at` as killed: nothing else will end them."""
        for child in self._children.values():
            late = child.status == "RUNNING" and child.started <= at
            if late and child is not keep and stage in (None, child.stage):
                self.end(child, "KILLED", at)

    def end(self, child: Child, status: str, at: int) -> None:
        """End a child run with a status of MLflow, at a time in milliseconds."""
        self._client.set_terminated(child.run_id, status, at)
        child.status = status
