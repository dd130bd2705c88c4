"""Forecast: what a plan would do now. Which stages are cached, why the others are not, and their likely cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from components.contract.artifacts import ArtifactType
from components.contract.errors import CorruptArtifact, InputError, StoreUnavailable
from components.contract.expressions import Expression
from components.contract.job import FirstOf, InputRef, Job, StageRef, UriRef, reference_text
from components.runtime.checkpoints.forks import kept_for
from components.runtime.checkpoints.marks import marked
from components.runtime.closure.rows import union
from components.runtime.closure.walk import Closures
from components.runtime.costs.amounts import Amount, Rate
from components.runtime.inputs.choice import Choice, State, choose
from components.runtime.inputs.inputs import uri_digest, uri_verifiers
from components.runtime.inputs.settle import settle
from components.runtime.ledger.fingerprint import Fingerprint, fingerprint
from components.runtime.ledger.operator_code import use_code
from components.runtime.ledger.records import action_key, is_stored
from components.runtime.store.s3_objects import objects_digest
from pipelines.plan.history import History, differences
from pipelines.plan.plan import Plan
from pipelines.recipe.pools import Pool
from pipelines.recipe.stage import Stage

if TYPE_CHECKING:
    from components.runtime.store import Store


class Outlook(StrEnum):
    """What will happen to a stage."""

    CACHED = "cached"
    RUN = "run"
    SKIP = "skip"


@dataclass(frozen=True)
class StageForecast:
    """What a plan would do with one stage."""

    job: Job
    pool: Pool
    outlook: Outlook
    reason: str
    fingerprint: str | None = None
    """None while the digest of some input is unknown."""
    action: Mapping[str, Any] | None = None
    """The record that a cached stage reuses."""
    seconds: float | None = None
    """Estimated time of its work, from earlier runs; None without a basis."""
    startup: float = 0.0
    """Estimated seconds of an attempt beside the work; they cost as much."""
    startup_measured: bool = False
    """Whether that comes from earlier runs on the engine; else it is assumed."""
    inputs: Mapping[str, Sequence[InputRef]] = field(default_factory=dict)
    """Port -> its input, where known: fallbacks that the run decides are left unchanged."""
    may_be_skipped: bool = False
    """Whether conditions decided only in the run may skip the stage."""

    @property
    def gpu_hours(self) -> float | None:
        """Return the stage's estimated GPU-hours, or None without a basis."""
        if self.outlook is not Outlook.RUN or not self.pool.gpu_count:
            return 0.0
        return None if self.amount is None else self.amount.gpu_hours

    @property
    def amount(self) -> Amount | None:
        """Return what the stage is estimated to take, or None without a basis."""
        if self.outlook is not Outlook.RUN:
            return Amount()
        return None if self.seconds is None else self._rate.amount(self.seconds + self.startup)

    @property
    def saved(self) -> Amount:
        """Return what the work took that a cached stage reuses."""
        return Amount() if self.action is None else self._rate.amount(float(self.action["seconds"]))

    @property
    def _rate(self) -> Rate:
        return self.pool.rate(self.job.resources.pool)


def forecast(plan: Plan, store: Store, engine: str = "local") -> tuple[StageForecast, ...]:
    """Return a forecast per job, in the plan's order; nothing is written, and no remote data is downloaded.

    `engine` is the one whose start-up counts.
    """
    return tuple(_Forecaster(plan, store, engine).all())


def _some(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


class _Forecaster:
    def __init__(self, plan: Plan, store: Store, engine: str) -> None:
        use_code(store)
        self._plan = plan
        self._store = store
        self._stages = {stage.name: stage for stage in plan.recipe.stages}
        self._history = History(store, plan.recipe.name)
        self._startup = self._history.startup(engine)
        self._closures = Closures()
        self._outside = cache(partial(uri_digest, store, endpoints=plan.recipe.endpoints))
        self._listed = cache(objects_digest)
        self._done: dict[str, StageForecast] = {}

    def all(self) -> list[StageForecast]:
        for job in self._plan.jobs:
            self._done[job.stage] = self._forecast(job, self._stages[job.stage])
        return list(self._done.values())

    def _forecast(self, job: Job, stage: Stage) -> StageForecast:
        pool = self._plan.recipe.pools[stage.pool]
        settled = settle(job, self._ended)
        job, config = settled.job, stage.config
        if job.params != stage.params:
            config = stage.component.params.model_validate(job.params)
        config = stage.component.settled(config, job.resources)
        choice = choose(job.inputs, stage.component, self._state)
        if reason := settled.skipped or self._skip_reason(job, choice):
            return StageForecast(job, pool, Outlook.SKIP, reason)
        digests, pending = self._digests(stage, choice.left)
        if job.settings:
            pending.append(f"parameters come from {_some(settled.waits_for)}, which will run")
        unlisted: list[str] = []
        mark = fingerprint(
            stage.component,
            config,
            digests,
            stage.seed,
            job.resources,
            verifiers=self._verifiers(stage, choice.left, pending=bool(pending)),
            closures=self._closures,
            objects=partial(self._objects, job.stage, unlisted),
        )
        mark = marked(self._store, job, stage.component, mark)
        pending += unlisted
        action = None if pending else self._action(mark)
        if action and is_stored(self._store, dict(action)):
            reason = f"made by {action['stage']} of run {action['run_id']}"
            return StageForecast(job, pool, Outlook.CACHED, reason, mark.digest, action, 0.0, inputs=choice.left)
        return StageForecast(
            job,
            pool,
            Outlook.RUN,
            self._miss_reason(job, mark, pending),
            None if pending else mark.digest,
            seconds=self._seconds(job, stage, choice.left),
            startup=self._startup.seconds(job.component),
            startup_measured=self._startup.is_measured,
            inputs=choice.left,
            may_be_skipped=choice.may_be_skipped or self._is_open(job),
        )

    def _seconds(self, job: Job, stage: Stage, left: Mapping[str, Sequence[InputRef]]) -> float | None:
        """Return the estimated time of a stage's work; of a fork that of the steps behind it."""
        inputs, pool = stage.component.inputs, job.resources.pool
        models = {
            port: [reference_text(ref) for ref in references]
            for port, references in left.items()
            if inputs[port].type is ArtifactType.MODEL and not any(isinstance(ref, FirstOf) for ref in references)
        }
        known = self._history.seconds(job.stage, job.component, self._plan.recipe.pools[stage.pool].rate(pool), models)
        if job.fork is None or known is None:
            return known
        return max(0.0, known - kept_for(self._store, job.fork, job.stage).kept.seconds)

    def _objects(self, stage: str, unlisted: list[str], uri: str) -> str:
        """Return the digest of objects; of those that cannot be listed from here, the last one, and note that."""
        try:
            return self._listed(uri)
        except StoreUnavailable:
            unlisted.append(f"{uri} cannot be listed from here")
            last = self._history.last_action(stage)
            known = last["parts"]["code"] if last else {}
            return next((digest for name, digest in known.items() if name.startswith(f"{uri} (")), "")

    def _action(self, mark: Fingerprint) -> Mapping[str, Any] | None:
        """Return what a fingerprint made; a damaged record counts as none: the run sets it aside."""
        with suppress(CorruptArtifact):
            return self._store.get(action_key(mark.digest))
        return None

    def _skip_reason(self, job: Job, choice: Choice) -> str | None:
        """Return why the stage will be skipped, if cached metrics already decide that."""
        if choice.skipped_by:
            port, stages = choice.skipped_by
            return f"input {port}: {' and '.join(stages)} will be skipped"
        if job.when is None:
            return None
        condition = Expression(job.when)
        sources = {name.partition(".")[0] for name in condition.names}
        if skipped := [name for name in sorted(sources) if self._done[name].outlook is Outlook.SKIP]:
            return f"when {job.when}: {skipped[0]} will be skipped"
        actions = {name: self._done[name].action for name in sources}
        if any(action is None for action in actions.values()):
            return None

        def metric(name: str) -> Any:
            source, _, key = name.partition(".")
            measured = (actions[source] or {})["metrics"]
            if key not in measured:
                raise InputError(f"when of {job.stage!r}: {source} measured no {key!r} (it has: {', '.join(measured)})")
            return measured[key]

        return None if condition.holds(metric) else f"when {job.when} does not hold"

    def _is_open(self, job: Job) -> bool:
        """Return whether metrics that do not exist yet decide about the stage."""
        names = Expression(job.when).names if job.when else ()
        return any(self._done[name.partition(".")[0]].action is None for name in names)

    def _ended(self, stage: str) -> Mapping[str, Any] | None:
        """Return how a stage will end, as far as that is known before the run."""
        upstream = self._done[stage]
        if upstream.outlook is Outlook.SKIP:
            return {"status": "skipped", "metrics": {}}
        return None if upstream.action is None else {"status": "done", "metrics": upstream.action["metrics"]}

    def _state(self, ref: StageRef) -> State:
        """Return what is known of an output before the run."""
        upstream = self._done[ref.stage]
        if upstream.outlook is Outlook.SKIP:
            return State.SKIPPED
        if upstream.action is not None:
            return State.THERE if ref.port in upstream.action["outputs"] else State.MISSING
        may_be_absent = self._stages[ref.stage].component.outputs[ref.port].optional
        may_be_absent |= self._stages[ref.stage].on_failure == "skip"
        return State.OPEN if upstream.may_be_skipped or may_be_absent else State.THERE

    def _digests(self, stage: Stage, left: Mapping[str, Sequence[InputRef]]) -> tuple[dict[str, list[str]], list[str]]:
        """Return each port's known digests, and the unknown ones described in words."""
        digests: dict[str, list[str]] = {}
        pending: list[str] = []
        for port, references in left.items():
            digests[port] = []
            for ref in references:
                if isinstance(ref, FirstOf):
                    pending.append(f"input {port} is not decided")
                elif not isinstance(ref, StageRef):
                    digest = self._outside(ref.uri, stage.component.inputs[port].type)
                    if digest is None:
                        pending.append(f"input {port}: {ref.uri} is read when the stage runs")
                    else:
                        digests[port].append(digest)
                elif (action := self._done[ref.stage].action) is None:
                    pending.append(f"input {port}: made by {ref.stage}, which will run")
                elif output := action["outputs"].get(ref.port):
                    digests[port].append(output["digest"])
                else:
                    pending.append(f"input {port}: {ref.stage} made no {ref.port}, and the stage will stop there")
        return digests, pending

    def _verifiers(self, stage: Stage, left: Mapping[str, Sequence[InputRef]], *, pending: bool) -> list[str] | None:
        """Return the verifiers that the rows of the inputs name; None if not all are known.

        For inputs not made yet, those of the last run are assumed.
        """
        if stage.component.verifies is None:
            return None
        if pending:
            last = self._history.last_action(stage.name)
            return last["parts"].get("verifiers") if last else None
        found: list[list[str] | None] = []
        for port in stage.component.verifies(stage.config):
            for ref in left.get(port, ()):  # nothing is pending, so no fallback is open
                if isinstance(ref, UriRef):
                    found.append(uri_verifiers(ref.uri))
                elif isinstance(ref, StageRef):
                    action = self._done[ref.stage].action or {"outputs": {}}
                    if output := action["outputs"].get(ref.port):
                        found.append(output.get("verifiers"))
        return union(found)

    def _miss_reason(self, job: Job, mark: Fingerprint, pending: list[str]) -> str:
        last = self._history.last_action(job.stage)
        if last is None:
            return "; ".join(["never run", *pending[-1:]]) if job.settings else "never run"
        changed = [] if job.settings else differences(last["parts"], mark.parts, inputs=not pending)
        return "; ".join([*changed, *pending]) or "its earlier result is gone from the store"
