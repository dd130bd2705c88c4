"""Runs: what every engine records at the beginning and the end, and how an interrupted run is found again."""

from __future__ import annotations

import secrets
import shlex
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from components.contract.errors import InputError
from components.runtime.checkpoints.moves import asked, note_arrival
from components.runtime.ledger.ledger import load_run
from components.runtime.ledger.notices import tell_failure
from components.runtime.ledger.records import end_key, run_key, save_job, utc
from components.runtime.ledger.sequence import number_run
from components.runtime.lineage.heal import read_or_heal
from components.runtime.lineage.spool import Spool
from components.runtime.store import Store, StoreLocked
from components.runtime.system.code import code_version
from pipelines.language.document import display_path
from pipelines.language.find import recipe_name
from pipelines.plan.plan import Plan
from pipelines.recipe.moved import MOVED
from pipelines.recipe.recipe import Recipe
from pipelines.triggers.record import Trigger

LEASE_PATIENCE_SECONDS = 45.0
LOCK_PATIENCE_SECONDS = 0.5
"""Testing whether a directory's lock is held takes the lock for an instant."""

EXIT_CODES = {"succeeded": 0, "failed": 1, "waiting": 3, "stopped": 130}
"""Status of a run -> exit code of the command that followed it."""


@dataclass(frozen=True)
class RunResult:
    """How a run ended."""

    run_id: str
    status: str
    """succeeded, failed, waiting (for approval) or stopped."""
    exit_code: int
    failures: dict[str, str]
    """Stage -> its error."""
    page: Path | None
    """The run's report, a local file; None if it could not be made."""
    lineage_problem: str | None
    """Why some lineage is not in MLflow yet; None if all is delivered or being delivered."""
    lineage_waiting: int = 0
    """Events being delivered to MLflow, or left to the next run, `posttrain ui` or `posttrain lineage sync`."""
    report_problem: str | None = None
    """Why there is no report page."""
    refused: frozenset[str] = frozenset()
    """Stages that fail again until the recipe or its data change: bad input, a gate that does not hold."""
    lineage_on_the_way: bool = True
    """Whether a process delivers them."""


def plan_key(plan_digest: str) -> str:
    """Return the key that leads from a plan to its newest run."""
    return f"plans/{plan_digest}.json"


def new_run_id(recipe: str) -> str:
    """Return a fresh run id: recipe, UTC time, four random digits; it sorts by time."""
    return f"{recipe}-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def unfinished_run(store: Store, plan_digest: str) -> str | None:
    """Return the newest run of the same plan if it has not succeeded: killed, stopped, failed or waiting.

    One that failed after it had gone on without a failed stage is not resumed: a new run tries such stages again.
    """
    newest = read_or_heal(store, plan_key(plan_digest))
    if newest is None:
        return None
    run_id: str = newest["run_id"]
    if (asked(store, run_id) or {}).get("as"):  # it goes on elsewhere
        return None
    end = read_or_heal(store, end_key(run_id))
    if end is None or end["status"] in ("stopped", "waiting"):
        return run_id
    return run_id if end["status"] == "failed" and not _left_out(store, run_id) else None


def _left_out(store: Store, run_id: str) -> bool:
    """Return whether a run went on without a stage that failed."""
    run = load_run(store, run_id)
    return not run.failed.keys() <= run.failures.keys()


@contextmanager
def exclusive(store: Store, run_id: str) -> Iterator[None]:
    """Lock a run for one engine; raise InputError if another process holds it.

    A bucket cannot detect a killed holder, only an expired lease, so this waits a while.
    """
    with ExitStack() as stack:
        lock = store.lock(
            f"run-{run_id}", wait_seconds=LEASE_PATIENCE_SECONDS if "://" in store.uri else LOCK_PATIENCE_SECONDS
        )
        try:
            stack.enter_context(lock)
        except StoreLocked as error:
            message = f"run {run_id} is going on already: {error}; --new starts another run beside it"
            raise InputError(message) from error
        yield


def run_entry(plan: Plan, *, engine: str, trigger: Trigger | None = None) -> dict[str, Any]:
    """Return the ledger's record of a run's beginning, without times; `trigger` is what started it, if not a person."""
    recipe = plan.recipe
    return {
        "recipe": recipe.name,
        "summary": recipe.summary,
        "recipe_path": display_path(recipe.path),
        "recipe_text": recipe.text,
        "recipe_digest": recipe.digest,
        "plan_digest": plan.digest,
        "params": recipe.params,
        "overrides": list(recipe.overrides),
        "seed": recipe.seed,
        "engine": engine,
        "command": reproduce_command(recipe, engine),
        "stages": [
            {
                "name": job.stage,
                "component": job.component,
                "after": job.after,
                "group": job.group,
                "labels": job.labels,
                "pool": job.resources.pool,
                "rate": recipe.pools[job.resources.pool].rate(job.resources.pool).to_record(),
                "needs_approval": job.approve is not None,
                "params": job.params,
                "seed": job.seed,
                **({"shard_of": shard_of} if (shard_of := plan.stage(job.stage).shard_of) else {}),
            }
            for job in plan.jobs
        ],
        **({"trigger": trigger} if trigger else {}),
        **({"fork": recipe.fork.to_record()} if recipe.fork else {}),
        **({"moved": recipe.moved} if recipe.moved else {}),
        **({"budget": recipe.budget.model_dump(mode="json")} if recipe.budget else {}),
        **({"packages": _packages(recipe)} if recipe.trees else {}),
        **({"uploads": [one.model_dump(mode="json") for one in recipe.uploads]} if recipe.uploads else {}),
    }


def _packages(recipe: Recipe) -> list[dict[str, Any]]:
    """Return the packages of users that a recipe names: what, where it lay, and its digest in the store."""
    return [
        {"name": tree.name, "path": tree.path, "digest": tree.digest, "modules": list(tree.modules)}
        for tree in recipe.trees.values()
    ]


def reproduce_command(recipe: Recipe, engine: str) -> str:
    """Return the shell command that reproduces the results."""
    name = recipe_name(recipe.path) or display_path(recipe.path)
    wanted = [text for text in recipe.overrides if text.partition("=")[0].strip() != MOVED]
    parts = ["posttrain", "run", name, *(part for text in wanted for part in ("--set", text))]
    return shlex.join([*parts, *([] if engine == "local" else ["--engine", engine])])


class RunWriter:
    """Writes a run's beginning and end to the ledger and to the lineage spool."""

    def __init__(self, store: Store, run_id: str, *, started: float | None = None) -> None:
        """`started` is in seconds since the epoch, now by default."""
        self.store, self.run_id = store, run_id
        self._spool = Spool(store, run_id)
        self._started = time.time() if started is None else started

    def begin(self, entry: dict[str, Any]) -> None:
        """Record the start of a run, or its resumption if it was started before."""
        entry = {
            **entry,
            "run_id": self.run_id,
            "store": self.store.uri,
            "started": utc(self._started),
            "code": code_version(),
        }
        newest = {"run_id": self.run_id, "recipe": entry["recipe"]}
        self.store.put(plan_key(entry["plan_digest"]), newest, overwrite=True)  # first: a killed run must be found
        read_or_heal(self.store, run_key(self.run_id))
        number_run(self.store, self.run_id)
        if source := entry.get("moved"):
            note_arrival(self.store, source, self.run_id)
        if self.store.put(run_key(self.run_id), entry):
            self._spool.run_started(entry)
            return
        first = self.store.get(run_key(self.run_id))
        assert first is not None
        self._spool.run_started(first)  # a kill may have come between the record and its event
        if read_or_heal(self.store, end_key(self.run_id)):
            self._spool.run_resumed()

    def end(self, status: str) -> Path:
        """Record how the run ended and make its report; return the report's page. A resumed run records a new end."""
        from pipelines.report.page import build_report

        ended = time.time()
        seconds = ended - self._started + self._earlier_seconds()
        record: dict[str, Any] = {"status": status, "ended": utc(ended), "seconds": round(seconds, 3)}
        self.store.put(end_key(self.run_id), record, overwrite=True)
        if status == "failed":
            tell_failure(self.store, self.run_id, ended)
        try:
            report = build_report(self.store, self.run_id)
            self._spool.report_ready(report.digest)
        finally:  # a failed report, such as for a damaged artifact, must not leave the run open in MLflow
            self._spool.run_finished(status, ended=ended, seconds=record["seconds"])
        return self.store.fetch(report.digest) / "index.html"

    def _earlier_seconds(self) -> float:
        """Return the run's duration before this resumption, without pauses."""
        last = self.store.get(end_key(self.run_id))
        return float(last["seconds"]) if last and last["ended"] <= utc(self._started) else 0.0


def begin_run(store: Store, plan: Plan, *, engine: str, trigger: Trigger | None = None, **facts: Any) -> None:
    """Record or resume a run and its jobs in the store, for an engine whose stages read their jobs there.

    Raises InputError if the run began with another plan. `facts` hold the engine's own ids of the run.
    """
    known = read_or_heal(store, run_key(plan.run_id))
    if known is not None and known["plan_digest"] != plan.digest:
        raise InputError(
            f"run {plan.run_id} began with another plan: its recipe or its pools were edited since; start a new run"
        )
    for job in plan.jobs:
        save_job(store, job)
    RunWriter(store, plan.run_id).begin({**run_entry(plan, engine=engine, trigger=trigger), **facts})
