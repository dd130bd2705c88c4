"""Logged models and registered versions in MLflow, each looked up by our tags before it is created."""

from __future__ import annotations

from collections.abc import Iterable

from mlflow.entities import LoggedModel, LoggedModelOutput
from mlflow.entities.model_registry import ModelVersion
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import RESOURCE_ALREADY_EXISTS, RESOURCE_DOES_NOT_EXIST, ErrorCode
from mlflow.tracking import MlflowClient

from components.runtime.lineage.events import MadeArtifact, ModelRegistered, StageFinished, UsedArtifact
from components.runtime.lineage.names import flatten, mlflow_name, mlflow_value

RUN_ID = "posttrain.run_id"
DIGEST = "posttrain.digest"
VERSION = "posttrain.version"
REGISTERED = "posttrain.registered"
EXTERNAL = "mlflow.model.isExternal"
"""Tells MLflow that the weights are not in its own artifact store."""


class ModelWriter:
    """The models of one experiment, each one of our artifacts, identified in MLflow by its digest."""

    def __init__(self, client: MlflowClient, experiment: str) -> None:
        self._client, self._experiment = client, experiment

    def find(self, digest: str) -> str | None:
        """Return the id of the experiment's oldest logged model with this digest, or None."""
        found = self._search(digest)
        return found[0].model_id if found else None

    def find_or_import(self, item: UsedArtifact) -> str:
        """Return the id of an input's logged model; a model that no run made is logged without a source run."""
        found = self.find(item.digest)
        if found:
            return found
        tags = {DIGEST: item.digest, "posttrain.source": mlflow_value(item.source), EXTERNAL: "true"}
        return self._create(item.source, item.type, tags, {}, None)

    def log(self, output: MadeArtifact, event: StageFinished, port: str, run_id: str) -> str:
        """Return the id of the logged model of an output of the MLflow run `run_id`."""
        own = [model for model in self._search(output.digest) if model.source_run_id == run_id]
        for extra in own[1:]:  # a lost response may have left a second one
            self._client.delete_logged_model(extra.model_id)
        if own:
            return self._finalize(own[0])
        tags = {
            DIGEST: output.digest,
            RUN_ID: event.run_id,
            "posttrain.stage": event.stage,
            "posttrain.port": port,
            "posttrain.uri": output.uri,
            "posttrain.fingerprint": event.fingerprint or "",
            EXTERNAL: "true",
        }
        params = {mlflow_name(name): mlflow_value(value) for name, value in flatten(event.params)}
        return self._create(f"{event.stage}-{port}", output.type, tags, params, run_id)

    def link_outputs(self, run_id: str, models: Iterable[str]) -> None:
        """Make models outputs of a run; existing outputs stay unchanged."""
        wanted = set(models)
        if not wanted:
            return
        outputs = self._client.get_run(run_id).outputs
        known = {output.model_id for output in outputs.model_outputs} if outputs else set()
        if missing := sorted(wanted - known):
            self._client.log_outputs(run_id, [LoggedModelOutput(model_id, 0) for model_id in missing])

    def register(self, event: ModelRegistered, run_id: str) -> None:
        """Give a model its version under a registered name, and move aliases that point to an older one."""
        version = self._version(event) or self._create_version(event, run_id)
        for alias in event.aliases:
            held = self._alias_time(event.name, alias)
            if held is None or held < event.milliseconds:
                self._client.set_registered_model_alias(event.name, alias, str(version.version))

    def _search(self, digest: str) -> list[LoggedModel]:
        found = self._client.search_logged_models([self._experiment], f"tags.`{DIGEST}` = '{digest}'")
        return sorted(found, key=lambda model: (model.creation_timestamp, model.model_id))

    def _create(
        self, name: str, model_type: str, tags: dict[str, str], params: dict[str, str], run_id: str | None
    ) -> str:
        model = self._client.create_logged_model(self._experiment, _model_name(name), run_id, tags, params, model_type)
        return self._finalize(model)

    def _finalize(self, model: LoggedModel) -> str:
        if model.status != "READY":
            self._client.finalize_logged_model(model.model_id, "READY")
        return model.model_id

    def _version(self, event: ModelRegistered) -> ModelVersion | None:
        """Return the version of this event, or None: a run registers a model under a name once.

        The event of a run that reused another run's model refers to the version that the other run registered.
        """
        try:
            self._client.create_registered_model(event.name)
        except MlflowException as error:
            if error.error_code != ErrorCode.Name(RESOURCE_ALREADY_EXISTS):
                raise
        found = [
            version
            for version in self._client.search_model_versions(f"name = '{event.name}'")
            if version.tags.get(DIGEST) == event.digest
            and (version.tags.get(RUN_ID) == event.run_id or version.tags.get(VERSION) == str(event.version))
        ]
        found.sort(key=lambda version: int(version.version))
        for extra in found[1:]:
            self._client.delete_model_version(event.name, str(extra.version))
        return found[0] if found else None

    def _create_version(self, event: ModelRegistered, run_id: str) -> ModelVersion:
        tags = {
            RUN_ID: event.run_id,
            DIGEST: event.digest,
            "posttrain.stage": event.stage,
            VERSION: str(event.version),
            REGISTERED: str(event.milliseconds),
            "posttrain.metrics": mlflow_value(event.metrics),
        }
        model_id = self.find(event.digest)
        if model_id is None:
            source = UsedArtifact(type="Model", digest=event.digest, source=f"{event.run_id}:{event.stage}")
            model_id = self.find_or_import(source)
        return self._client.create_model_version(
            event.name,
            f"models:/{model_id}",
            run_id,
            tags,
            description=f"Stage {event.stage} of run {event.run_id}, artifact {event.digest}",
            model_id=model_id,
            await_creation_for=0,
        )

    def _alias_time(self, name: str, alias: str) -> int | None:
        """Return when the version that holds an alias was registered, or None if no version does."""
        try:
            version = self._client.get_model_version_by_alias(name, alias)
        except MlflowException as error:
            if error.error_code in (ErrorCode.Name(RESOURCE_DOES_NOT_EXIST), "INVALID_PARAMETER_VALUE"):
                return None
            raise
        return int(version.tags.get(REGISTERED, 0))


def _model_name(source: str) -> str:
    """Return a model name: MLflow refuses / : . % and quotes in it."""
    return "".join(letter if letter.isalnum() or letter in "_- " else "-" for letter in source)[:200] or "imported"
