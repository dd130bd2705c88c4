"""The local engine: one process per job on this machine; it orders, retries and displays jobs, and moves no data."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

from components.contract.errors import PosttrainError
from components.contract.job import Job
from components.contract.operators import Bound, operators_of, with_used
from components.contract.registry import components
from components.runtime.checkpoints.moves import take_back
from components.runtime.closure.locate import OURS
from components.runtime.gates.process import GATE_LIBRARY, GATES_PREPARED
from components.runtime.job.gating import needs_data_gates
from components.runtime.ledger.records import is_stored, stage_key
from components.runtime.lineage.heal import read_or_copy
from components.runtime.store import Store, open_store
from components.runtime.store.access import folder_beside, make_folder, top_of
from pipelines.engines.engine import Capabilities, Engine, RunOptions
from pipelines.engines.local.containers import Containers
from pipelines.engines.local.job_process import preload, run_attempt
from pipelines.engines.local.scheduler import Ending, Scheduler
from pipelines.engines.shared.launcher import container_environment, process_environment
from pipelines.plan.known import need_sound
from pipelines.plan.local_files import need_files
from pipelines.plan.plan import Plan
from pipelines.recipe.stage import Stage
from pipelines.runs.delivering import Deliverer
from pipelines.runs.runs import (
    EXIT_CODES,
    RunResult,
    RunWriter,
    exclusive,
    run_entry,
    unfinished_run,
)
from pipelines.runs.view import RunView

ROUNDS_AFTER_DAMAGE = 5
"""How often a run reruns a stage whose finished output was damaged."""


class LocalEngine(Engine):
    """Jobs are processes, or with --containers containers, on this machine."""

    name = "local"
    summary = "on this machine: processes, or containers with --containers"
    capabilities = Capabilities(
        approvals=True,
        retries=True,
        going_on=True,
        timeouts=True,
        folder_store=True,
        containers=True,
        core_limit=True,
        schedules=True,
        data_triggers=True,
        live_progress=True,
        cancellation=True,
    )

    def run(self, plan: Plan, store: Store, view: RunView, options: RunOptions) -> RunResult:
        """Run a plan here; resumes an unfinished run of it unless a new one is requested."""
        need_files(plan.recipe)
        need_sound(plan.recipe)
        containers = Containers.find(store.uri) if options.containers else None
        return run_plan(plan, view=view, options=options, containers=containers)


def run_plan(plan: Plan, *, view: RunView, options: RunOptions, containers: Containers | None = None) -> RunResult:
    """Run a plan to its end; resumes the newest unfinished run of the same plan unless a new one is requested.

    With `containers` each job runs in one. Raises InputError if another process holds the same run.
    """
    store = open_store(plan.store)
    unfinished = None if options.new else unfinished_run(store, plan.digest)
    plan = plan.with_run_id(unfinished) if unfinished else plan
    environment = container_environment() if containers else process_environment(os.environ)
    if containers is None:
        preload(heavy_modules(plan), environment, own_modules(plan.recipe.stages))
    cores = os.cpu_count() or 1
    with exclusive(store, plan.run_id):
        take_back(store, plan.run_id)
        writer, deliverer = RunWriter(store, plan.run_id), Deliverer(store, plan.run_id)
        writer.begin(run_entry(plan, engine="local", trigger=options.trigger))
        schedule = partial(
            Scheduler,
            plan.jobs,
            store=store,
            view=view,
            logs=log_folder(store, plan.run_id),
            environment=environment,
            cores=min(options.jobs or cores, cores),
            attempt=containers.run_attempt if containers else run_attempt,
            on_work=deliverer.start,
        )
        try:
            with view.showing():
                ending = _run_whole(schedule, plan, store)
        except KeyboardInterrupt:  # between two rounds, or while the view is drawn
            ending = Ending(stopped=True)
        page, trouble, problem, waiting = _end(writer, deliverer, ending)
    return RunResult(
        run_id=plan.run_id,
        status=ending.status,
        exit_code=EXIT_CODES[ending.status] or int(page is None),
        failures=ending.failed,
        page=page,
        lineage_problem=problem,
        lineage_waiting=waiting,
        lineage_on_the_way=deliverer.started,
        report_problem=trouble,
        refused=frozenset(ending.refused),
    )


def _end(writer: RunWriter, deliverer: Deliverer, ending: Ending) -> tuple[Path | None, str | None, str | None, int]:
    """Record how a run ended and wait for its lineage; return report, its problem, lineage's problem and what waits.

    Ctrl-C at this point leaves the rest of the lineage to its deliverer, which outlives this process.
    """
    try:
        page, trouble = end_with_report(writer, ending.status)
        return page, trouble, *deliverer.wait(worked=ending.executed > 0 or deliverer.started)
    except KeyboardInterrupt:
        page, trouble = end_with_report(writer, ending.status)
        return page, trouble, None, 0


def _run_whole(schedule: Callable[[], Scheduler], plan: Plan, store: Store) -> Ending:
    """Run all jobs; rerun them if one failed because an earlier stage's output was damaged and set aside."""
    ending = schedule().run()
    executed = ending.executed
    for _ in range(ROUNDS_AFTER_DAMAGE):
        if ending.stopped or not any(_lacks_input(store, job) for job in plan.jobs if job.stage in ending.failed):
            break
        ending = schedule().run()
        executed += ending.executed
    return replace(ending, executed=executed)


def _lacks_input(store: Store, job: Job) -> bool:
    """Return whether an earlier stage's output for a job is no longer in the store."""
    entries = [read_or_copy(store, stage_key(job.run_id, name)) for name in job.after]
    return any(entry is not None and not is_stored(store, entry) for entry in entries)


def end_with_report(writer: RunWriter, status: str) -> tuple[Path | None, str | None]:
    """Record how a run ended; return its report's page, or None and the reason."""
    try:
        return writer.end(status), None
    except PosttrainError as error:
        return None, str(error)


def heavy_modules(plan: Plan) -> set[str]:
    """Return the slow imports of a plan's jobs: their libraries, and that of the data gates."""
    used = [components().get(job.component) for job in plan.jobs]
    modules = {module for component in used for module in component.preloads}
    return modules | ({GATE_LIBRARY} if any(map(needs_data_gates, used)) else set())


def own_modules(stages: Iterable[Stage]) -> set[str]:
    """Return the modules of this tree that stages run: each of their jobs would import and examine them by itself."""
    found: set[str] = set()
    for stage in stages:
        used = stage.component
        sources = used.sources(stage.config) if used.sources else operators_of(stage.config, used.name)
        declared = components().entry(used.name).target
        found |= {declared.partition(":")[0], used.run.partition(":")[0], used.params.__module__}
        for bound in with_used(source for source in sources if isinstance(source, Bound)):
            found.update(bound.modules)
        found |= {GATES_PREPARED} if needs_data_gates(used) else set()
    return {module for module in found if module.partition(".")[0] == OURS}


def log_folder(store: Store, run_id: str) -> Path:
    """Return the folder of a run's stage logs: beside a directory store, else in the user's temporary folder."""
    return make_folder(folder_beside(store.uri) / "logs" / run_id, top_of(store.uri))
