"""A made-up run that leaves what real runs leave: ledger records, artifacts and lineage events."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import shutil
import signal
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from components.contract.artifacts import ArtifactType
from components.contract.context import Input
from components.contract.job import Job
from components.runtime.ledger.fingerprint import Fingerprint
from components.runtime.ledger.records import action_key, output_record, producer_key, stage_entry, stage_key
from components.runtime.lineage.delivery.deliver import deliver
from components.runtime.lineage.delivery.target import configure_client, prepare_database
from components.runtime.lineage.registry import register_model
from components.runtime.lineage.spool import Spool
from components.runtime.store import Store, open_store

if TYPE_CHECKING:  # MLflow takes seconds to import, in every worker
    from mlflow.tracking import MlflowClient

FORK = multiprocessing.get_context("fork")
WRITES = (
    "create_experiment",
    "create_run",
    "log_batch",
    "log_inputs",
    "log_outputs",
    "log_text",
    "log_artifact",
    "set_terminated",
    "update_run",
    "create_logged_model",
    "finalize_logged_model",
    "create_registered_model",
    "create_model_version",
    "set_registered_model_alias",
)
START = 1_790_000_000.0
CODE = {"version": "0123abcd" * 5, "dirty": False, "lock": "ab" * 32}

SAMPLES = [
    {"step": 2, "prompt_id": "p", "response": "four", "reward": 1.0, "outcome": "right", "verifier": "exact"},
    {"step": 1, "prompt_id": "q", "response": "six", "reward": 0.5, "outcome": "wrong", "verifier": "exact"},
    {"step": 2, "prompt_id": "q", "response": "five", "reward": None, "outcome": "failed", "verifier": "exact"},
]
"""Rows of the made-up rollouts."""


class Story:
    """Writes one run into a store, stage by stage, the way launcher and engine do."""

    def __init__(self, store: Store, run_id: str, *, recipe: str = "quick", seed: int = 7) -> None:
        self.store, self.run_id, self.recipe, self.seed = store, run_id, recipe, seed
        self.spool = Spool(store, run_id)
        self.clock = START
        self.made: dict[str, tuple[str, str]] = {}
        self._drafts = tempfile.TemporaryDirectory()

    def begin(
        self,
        *stages: str,
        summary: str = "A made-up run",
        rate: dict[str, Any] | None = None,
        fork: dict[str, Any] | None = None,
        **after: list[str],
    ) -> None:
        """Write run.json and its event; `after` is stage -> the stages that it waits for, `rate` is of their pool.

        `fork` is what the run goes on from.
        """
        entry = {
            "run_id": self.run_id,
            "recipe": self.recipe,
            "summary": summary,
            "recipe_text": f"name: {self.recipe}\n",
            "recipe_digest": "cd" * 32,
            "params": {"rl_steps": 80, "optimizer": {"name": "muon"}},
            "seed": self.seed,
            "store": self.store.uri,
            "engine": "local",
            "started": self.clock,
            "command": f"posttrain run {self.recipe}",
            "code": CODE,
            **({"fork": fork} if fork else {}),
            "stages": [
                {"name": name, "component": name, "after": after.get(name, []), **({"rate": rate} if rate else {})}
                for name in stages
            ],
        }
        self.store.put(f"ledger/{self.run_id}/run.json", entry)
        self.spool.run_started(entry)

    def job(self, stage: str, params: dict[str, Any] | None = None, **fields: Any) -> Job:
        """Return the job of a stage."""
        return Job(
            run_id=self.run_id,
            recipe=self.recipe,
            stage=stage,
            component=fields.pop("component", stage.rstrip("0123456789")),
            params=params or {},
            inputs={},
            seed=self.seed,
            store=self.store.uri,
            **fields,
        )

    def inputs(self, **ports: str) -> dict[str, list[Input]]:
        """Return inputs by port, each named as "stage.port" of this run."""
        found = {}
        for port, source in ports.items():
            type, digest = self.made[source]
            found[port] = [Input(type=ArtifactType(type), digest=digest, path=Path(), metadata={}, source=source)]
        return found

    def artifact(self, type: str, content: str, **metadata: Any) -> Any:
        """Commit an artifact with one small file and return its manifest."""
        folder = Path(self._drafts.name) / hashlib.sha256(f"{type}{content}".encode()).hexdigest()
        folder.mkdir(parents=True, exist_ok=True)
        name = {"Report": "index.html", "Rollouts": "rows.jsonl", "Metrics": "metrics.json"}.get(type, "content.json")
        (folder / name).write_text(content)
        return self.store.commit(ArtifactType(type), folder, metadata)

    def stage(
        self,
        name: str,
        outputs: dict[str, tuple[str, str]],
        *,
        inputs: dict[str, list[Input]] | None = None,
        params: dict[str, Any] | None = None,
        metrics: dict[str, float] | None = None,
        rows: int = 0,
        width: int = 3,
        chunk: int = 20,
        cache: str = "miss",
        code: str = "1",
        register_as: str | None = None,
        forked: dict[str, Any] | None = None,
        **fields: Any,
    ) -> str:
        """Run a stage to its end and return its fingerprint; `outputs` is port -> (type, content).

        `forked` is the record of the checkpoint that it went on from.
        """
        job, inputs = self.job(name, params, **fields), inputs or {}
        mark = self.mark(job, inputs, code)
        started = self.clock
        self.spool.stage_started(job, mark, inputs)
        history = [{"step": step, **{f"m{i}": step + i / 8 for i in range(width)}} for step in range(1, rows + 1)]
        for start in range(0, rows, chunk):
            self.spool.metrics(name, mark.digest, start, history[start : start + chunk])
        self.clock += 10
        made = {port: output_record(self.store, self.artifact(*output)) for port, output in outputs.items()}
        for port, output in made.items():
            self.made[f"{name}.{port}"] = (output["type"], output["digest"])
            self.store.put(producer_key(output["digest"], mark.digest), {"fingerprint": mark.digest, "port": port})
        action = {
            "fingerprint": mark.digest,
            "component": job.component,
            "parts": mark.parts,
            "outputs": made,
            "metrics": metrics or {},
            "gates": {},
            "seconds": 10.0,
            "run_id": self.run_id,
            "stage": name,
        }
        if not self.store.put(action_key(mark.digest), action):
            action = self.store.get(action_key(mark.digest))
        extra = {"produced_by": {"run_id": action["run_id"], "stage": action["stage"]}} if cache == "hit" else {}
        extra |= {"fork": forked} if forked else {}
        for output in made.values():
            if register_as and output["type"] == "Model":
                register_model(
                    self.store,
                    register_as,
                    output["digest"],
                    run_id=self.run_id,
                    stage=name,
                    metrics=metrics or {},
                    aliases=["candidate"],
                )
        entry = stage_entry(
            job,
            status="done",
            cache=cache,
            started=started,
            ended=self.clock,
            inputs=inputs,
            fingerprint=mark.digest,
            outputs=made,
            metrics=metrics or {},
            **extra,
        )
        self.store.put(stage_key(self.run_id, name), entry)
        self.spool.stage_finished(entry)
        return mark.digest

    def mark(self, job: Job, inputs: dict[str, list[Input]], code: str = "1") -> Fingerprint:
        """Return a fingerprint that depends on what real ones depend on."""
        parts = {
            "component": job.component,
            "params": job.params,
            "inputs": {port: [item.digest for item in items] for port, items in sorted(inputs.items())},
            "seed": job.seed,
            "code": {f"components/{job.component}/run.py": code * 64},
        }
        return Fingerprint(hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest(), parts)

    def end(self, status: str = "succeeded") -> None:
        """Write the report and the end of the run."""
        self.clock += 1
        self.spool.report_ready(self.artifact("Report", "<html></html>").digest)
        end = {"status": status, "ended": self.clock, "seconds": self.clock - START}
        self.store.put(f"ledger/{self.run_id}/end.json", end)
        self.spool.run_finished(status, ended=self.clock, seconds=end["seconds"])


def tell(store: Store, run_id: str, *, rows: int = 30, seed: int = 7, cache: str = "miss", salt: str = "") -> Story:
    """Write a run with data, training, evaluation and a registered model."""
    story = Story(store, run_id, seed=seed)
    story.begin("base", "prompts", "sft", "rl", "evaluate")
    story.stage("base", {"model": ("Model", f"base{salt}")}, rows=rows, metrics={"loss": 1.5}, cache=cache)
    story.stage("prompts", {"prompts": ("Dataset", f"rows{salt}")}, metrics={"num_rows": 12}, cache=cache)
    used = story.inputs(model="base.model", dataset="prompts.prompts")
    story.stage("sft", {"model": ("Model", f"sft{salt}")}, inputs=used, rows=rows, cache=cache)
    used = story.inputs(model="sft.model", dataset="prompts.prompts")
    outputs = {
        "model": ("Model", f"rl{salt}"),
        "checkpoints": ("Checkpoints", f"steps{salt}"),
        "rollouts": ("Rollouts", "".join(json.dumps(row) + "\n" for row in SAMPLES)),
    }
    params = {"method": "grpo", "optimizer": {"name": "adamw", "peak_learning_rate": 3e-4}}
    story.stage(
        "rl", outputs, inputs=used, rows=rows, params=params, metrics={"pass@1": 0.5}, cache=cache, register_as="tiny"
    )
    used = story.inputs(model="rl.model", dataset="prompts.prompts")
    story.stage("evaluate", {"metrics": ("Metrics", f"m{salt}")}, inputs=used, metrics={"pass@1": 0.61}, cache=cache)
    story.end()
    return story


def uri_of(database: Path) -> str:
    """Return the tracking URI of a SQLite file."""
    return f"sqlite:///{database}"


def in_child(work: Callable[[], None]) -> int:
    """Run `work` in a forked process (MLflow is imported already) and return its exit code."""

    def run() -> None:
        work()
        os._exit(0)

    process = FORK.Process(target=run)
    process.start()
    process.join()
    assert process.exitcode is not None
    return process.exitcode


def client_of(database: Path) -> MlflowClient:
    """Return a client of an MLflow database."""
    from mlflow.tracking import MlflowClient

    return MlflowClient(uri_of(database), registry_uri=uri_of(database))


def deliver_and_die(store: Store, run_id: str, uri: str, *, writes: int, before: bool) -> int:
    """Deliver in a process that is killed right before or after its write number `writes` to MLflow."""

    from mlflow.tracking import MlflowClient

    def work() -> None:
        left = writes

        def counted(original: Callable[..., Any]) -> Callable[..., Any]:
            def call(*arguments: Any, **options: Any) -> Any:
                nonlocal left
                left -= 1
                last = left == 0
                if last and before:
                    os.kill(os.getpid(), signal.SIGKILL)
                result = original(*arguments, **options)
                if last:
                    os.kill(os.getpid(), signal.SIGKILL)
                return result

            return call

        for name in WRITES:
            setattr(MlflowClient, name, counted(getattr(MlflowClient, name)))
        deliver(store, run_id, uri)

    return in_child(work)


def forget(store: Store, run_id: str, keys: Iterable[str]) -> None:
    """Take events out of the record of what was delivered."""
    for key in store.keys(f"delivered/{run_id}/"):
        record = store.get(key)
        store.put(key, {**record, "delivered": sorted(set(record["delivered"]) - set(keys))}, overwrite=True)


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file with MLflow's tables: making one takes seconds, copying it none."""
    configure_client()
    path = tmp_path_factory.mktemp("mlflow") / "empty.db"
    prepare_database(f"sqlite:///{path}")
    return path


@pytest.fixture
def database(tmp_path: Path, empty_database: Path) -> Path:
    """A fresh MLflow database."""
    return Path(shutil.copy(empty_database, tmp_path / "mlflow.db"))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty directory store."""
    return open_store(str(tmp_path / "store"))


def rows_of(database: Path, query: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query on MLflow's database."""
    connection = sqlite3.connect(database)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


RUN = (
    "(select case r.lifecycle_stage when 'active' then r.name || '@' || r.start_time else 'deleted' end"
    " from runs r where r.run_uuid = {})"
)
MODEL = (
    "(select case m.lifecycle_stage when 'active' then m.name || '@' || t.tag_value else 'deleted' end"
    " from logged_models m join logged_model_tags t using (model_id)"
    " where m.model_id = {} and t.tag_key = 'posttrain.digest')"
)
QUERIES = {
    "runs": "select name, status, start_time, end_time, lifecycle_stage from runs",
    "tags": f"select {RUN.format('x.run_uuid')}, key, value from tags x where key != 'mlflow.parentRunId'",
    "parents": f"select {RUN.format('x.run_uuid')}, {RUN.format('x.value')} from tags x"
    " where key = 'mlflow.parentRunId'",
    "params": f"select {RUN.format('x.run_uuid')}, key, value from params x",
    "metrics": f"select {RUN.format('x.run_uuid')}, key, value, timestamp, step, is_nan from metrics x",
    "latest": f"select {RUN.format('x.run_uuid')}, key, value, timestamp, step from latest_metrics x",
    "datasets": "select name, digest, dataset_source from datasets",
    "dataset inputs": f"select d.name, {RUN.format('destination_id')} from inputs"
    " join datasets d on source_id = dataset_uuid",
    "model links": f"select source_type, {RUN.format('source_id')}, {MODEL.format('destination_id')} from inputs"
    " where source_type like 'RUN%'",
    "models": f"select {MODEL.format('x.model_id')}, model_type, status, lifecycle_stage,"
    f" {RUN.format('x.source_run_id')} from logged_models x",
    "model params": f"select {MODEL.format('x.model_id')}, param_key, param_value from logged_model_params x",
    "model tags": f"select {MODEL.format('x.model_id')}, tag_key, tag_value from logged_model_tags x"
    " where tag_key != 'mlflow.modelVersions'",  # a server adds it by itself
    "model metrics": f"select {MODEL.format('x.model_id')}, metric_name, metric_value, metric_timestamp_ms,"
    f" dataset_name, dataset_digest, {RUN.format('x.run_id')} from logged_model_metrics x",
    "versions": f"select name, version, {RUN.format('x.run_id')} from model_versions x",
    "version tags": "select name, version, key, value from model_version_tags",
    "aliases": "select name, alias, version from registered_model_aliases",
}


@pytest.fixture
def contents() -> Callable[[Path], dict[str, list[tuple[Any, ...]]]]:
    """Return a function that lists everything MLflow holds, without the ids that it draws and what was deleted."""

    def read(database: Path, query: str) -> list[tuple[Any, ...]]:
        ids = dict(rows_of(database, "select run_uuid, name from runs"))
        rows = (row for row in rows_of(database, query) if "deleted" not in row)
        return sorted((tuple(_named(cell, ids) for cell in row) for row in rows), key=repr)

    return lambda database: {name: read(database, query) for name, query in QUERIES.items()}


def _named(cell: Any, ids: dict[str, str]) -> Any:
    """Return a text with run names for the ids that MLflow draws: a description links to runs."""
    for run_id, name in ids.items() if isinstance(cell, str) else ():
        cell = cell.replace(run_id, name)
    return cell


@pytest.fixture(autouse=True)
def _fixed_code(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    from components.runtime.system.code import code_version

    monkeypatch.setenv("POSTTRAIN_CODE", json.dumps(CODE))
    code_version.cache_clear()
    yield
    code_version.cache_clear()
