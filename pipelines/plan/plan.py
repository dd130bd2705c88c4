"""Plan: a recipe resolved into jobs, ready for any engine."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace

from components.contract.artifacts import canonical_json
from components.contract.endpoints import Endpoint, endpoint_name
from components.contract.job import Job, UriRef, alternatives
from pipelines.plan.uploads import sent_inputs, sent_paths
from pipelines.recipe.recipe import Recipe
from pipelines.recipe.stage import Stage

NOT_OF_THE_WORK = {"run_id", "store", "code", "written", "budget"}
"""Of a job: with another budget a run goes on, and what it has spent counts."""


@dataclass(frozen=True)
class Plan:
    """The jobs of one run of a recipe."""

    recipe: Recipe = field(repr=False)
    run_id: str
    store: str
    """Store URI."""
    jobs: tuple[Job, ...] = field(repr=False)
    """In topological order; `job.after` names the stages that must end first."""

    @property
    def digest(self) -> str:
        """Return the SHA-256 hex of all jobs without run, store and names: equal plans request the same work.

        The operators' files are in it by the digests in their names.
        """
        plain = [job.model_dump(mode="json", exclude=NOT_OF_THE_WORK) for job in self.jobs]
        return hashlib.sha256(canonical_json(plain)).hexdigest()

    def stage(self, name: str) -> Stage:
        """Return the checked stage behind a job."""
        return next(stage for stage in self.recipe.stages if stage.name == name)

    def with_run_id(self, run_id: str) -> Plan:
        """Return the same plan for another run, such as a resumed one."""
        jobs = tuple(job.model_copy(update={"run_id": run_id}) for job in self.jobs)
        return replace(self, run_id=run_id, jobs=jobs)


def build_plan(recipe: Recipe, store_uri: str, run_id: str) -> Plan:
    """Return the plan of a recipe, without touching the store."""
    jobs = tuple(stage_job(stage, recipe, store_uri, run_id) for stage in recipe.stages)
    return Plan(recipe=recipe, run_id=run_id, store=store_uri, jobs=jobs)


def stage_job(stage: Stage, recipe: Recipe, store: str, run_id: str) -> Job:
    """Return the job of one stage of a recipe."""
    return Job(
        run_id=run_id,
        recipe=recipe.name,
        stage=stage.name,
        component=stage.component.name,
        params=stage.params,
        inputs=sent_inputs(stage, recipe.uploads),
        seed=stage.seed,
        store=store,
        resources=recipe.pools[stage.pool].resources(stage.pool, stage.backend),
        retry=stage.retry,
        timeout_seconds=stage.timeout_seconds,
        when=stage.when,
        gate=stage.gate,
        expect=stage.expect,
        approve=stage.approve,
        after=stage.after,
        labels=stage.labels,
        group=stage.group,
        register_as=stage.register_as,
        register_aliases=stage.register_aliases,
        endpoints=stage_endpoints(stage, recipe),
        code=stage.code,
        on_alarm=stage.on_alarm,
        alarms=stage.alarms,
        written=stage.written,
        settings=stage.settings,
        on_failure=stage.on_failure,
        uploaded=sent_paths(stage, recipe.uploads),
        keep_partial=stage.keep_partial,
        licenses=stage.licenses,
        fork=recipe.fork.of(stage.name) if recipe.fork else None,
        moved=recipe.moved,
        budget=recipe.budget,
    )


def stage_endpoints(stage: Stage, recipe: Recipe) -> dict[str, Endpoint]:
    """Return the endpoints that the inputs of a stage name."""
    references = alternatives(reference for port in stage.inputs.values() for reference in port)
    names = [endpoint_name(reference.uri) for reference in references if isinstance(reference, UriRef)]
    return {name: recipe.endpoints[name] for name in names if name is not None}
