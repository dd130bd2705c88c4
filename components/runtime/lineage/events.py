"""Lineage events: what a run reports to the tracking server, kept in the store until delivered.

An event is written once and never changed; it carries its own wall time, so redelivery writes the same bytes.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    SerializerFunctionWrapHandler,
    TypeAdapter,
    model_serializer,
)


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class UsedArtifact(_Frozen):
    """An input of a stage: which artifact, and where the job got it ("stage.port" or a URI)."""

    type: str
    digest: str
    source: str


class MadeArtifact(_Frozen):
    """An output of a stage."""

    type: str
    digest: str
    uri: str
    size: int = 0
    metadata: dict[str, Any] = Field(default_factory=dict)


class Code(_Frozen):
    """Which code ran: git commit or package version, uncommitted changes, SHA-256 of the lock file and of sources."""

    version: str | None = None
    dirty: bool = False
    lock: str | None = None
    files: dict[str, str] = Field(default_factory=dict)


class Producer(_Frozen):
    """The run and stage whose work a cache hit reuses."""

    run_id: str
    stage: str


class PlannedStage(_Frozen):
    """A stage of the run and the stages that it waits for; the other fields are as in the ledger."""

    name: str
    after: list[str] = Field(default_factory=list)
    component: str = ""
    group: str | None = None
    labels: dict[str, Any] = Field(default_factory=dict)
    pool: str = ""
    rate: dict[str, Any] | None = None
    needs_approval: bool = False


class _Event(_Frozen):
    run_id: str
    time: AwareDatetime
    """When it happened; MLflow gets this time whenever the event is delivered."""

    @property
    def milliseconds(self) -> int:
        """Return the event's time in milliseconds since the epoch, as MLflow counts it."""
        return epoch_milliseconds(self.time)


class RunStarted(_Event):
    """A run began: what was asked for, of which code."""

    kind: Literal["run_started"] = "run_started"
    recipe: str
    summary: str | None = None
    recipe_path: str | None = None
    recipe_text: str | None = None
    recipe_digest: str | None = None
    plan_digest: str | None = None
    params: dict[str, Any] = Field(default_factory=dict)
    overrides: Any = None
    seed: int | None = None
    store: str = ""
    engine: str | None = None
    command: Any = None
    trigger: dict[str, Any] | None = None
    """What started the run, if not a person; `text` says it in words."""
    fork: dict[str, Any] | None = None
    """Where the run parts from another one: run, stage and step; None for others."""
    moved: str | None = None
    """The run that this one goes on for, if any."""
    packages: list[dict[str, Any]] = Field(default_factory=list)
    """The user's packages that the recipe names: name and digest."""
    uploads: list[dict[str, Any]] = Field(default_factory=list)
    """Local data that was put into the store: path and digest."""
    recipe_commit: str | None = None
    """Commit of the repository that the recipe was read from, if git-sync brought it."""
    code: Code = Code()
    stages: list[PlannedStage] = Field(default_factory=list)


class RunResumed(_Event):
    """An ended run resumes."""

    kind: Literal["run_resumed"] = "run_resumed"


class RunFinished(_Event):
    """A run ended: for good, or until it is resumed or approved."""

    kind: Literal["run_finished"] = "run_finished"
    status: Literal["succeeded", "failed", "stopped", "waiting"]
    seconds: float | None = None


class StageStarted(_Event):
    """A stage began to work, or to reuse earlier work."""

    kind: Literal["stage_started"] = "stage_started"
    stage: str
    component: str
    fingerprint: str | None = None
    params: dict[str, Any] = Field(default_factory=dict)
    seed: int | None = None
    labels: dict[str, Any] = Field(default_factory=dict)
    group: str | None = None
    inputs: dict[str, list[UsedArtifact]] = Field(default_factory=dict)
    code: Code = Code()
    also_counted: dict[str, Any] = Field(default_factory=dict)
    """Other parts of the fingerprint: operators with their configs, verifiers, package versions, backends."""


class MetricChunk(_Event):
    """Rows of a stage's history; rows are counted from 0, and each row of a stage is in exactly one chunk."""

    kind: Literal["metric_chunk"] = "metric_chunk"
    stage: str
    fingerprint: str
    start: int = Field(ge=0)
    rows: list[dict[str, FiniteFloat]]
    """{"step": s, name: value, ...} as the stage logged them."""


class RaisedAlarm(_Frozen):
    """An alarm of a stage."""

    name: str
    since: int
    """The step at which it began."""
    text: str
    helps: str = ""
    cleared: int | None = None
    """The step at which it was over; None while it lasts."""


class StageAlarms(_Event):
    """An alarm of a stage was raised or cleared: all of its alarms so far."""

    kind: Literal["stage_alarms"] = "stage_alarms"
    stage: str
    fingerprint: str
    alarms: list[RaisedAlarm]


class StageFailureEvent(_Event):
    """A stage ended without its outputs; it may be tried again."""

    kind: Literal["stage_failed"] = "stage_failed"
    stage: str
    fingerprint: str | None = None
    error: str


class StageFinished(_Event):
    """A stage ended: its whole ledger entry."""

    kind: Literal["stage_finished"] = "stage_finished"
    stage: str
    component: str
    fingerprint: str | None = None
    status: str
    cache: str = "none"
    started: AwareDatetime
    seconds: float | None = None
    params: dict[str, Any] = Field(default_factory=dict)
    seed: int | None = None
    labels: dict[str, Any] = Field(default_factory=dict)
    group: str | None = None
    inputs: dict[str, list[UsedArtifact]] = Field(default_factory=dict)
    outputs: dict[str, MadeArtifact] = Field(default_factory=dict)
    metrics: dict[str, FiniteFloat] = Field(default_factory=dict)
    gates: dict[str, Any] = Field(default_factory=dict)
    machine: dict[str, Any] = Field(default_factory=dict)
    """Where the stage ran; empty for events from before this was recorded."""
    fork: dict[str, Any] = Field(default_factory=dict)
    """The checkpoint that the stage went on from: run, stage, step, and the seconds before it; empty for others."""
    code: Code = Code()
    error: str | None = None
    failed: bool = False
    """Whether the stage failed and its run went on without it; its status is "skipped" then."""
    produced_by: Producer | None = None
    approval: dict[str, Any] = Field(default_factory=dict)
    """Who approved the stage, when, on which engine, of which inputs, and what there was to see; empty for others."""

    @model_serializer(mode="wrap")
    def _without_failed(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out an unset `failed`, `fork` and `approval`, so that other events keep their form."""
        plain: dict[str, Any] = dump(self)
        for name in ("failed", "fork", "approval"):
            if not getattr(self, name):
                plain.pop(name, None)
        return plain


class ModelRegistered(_Event):
    """A model got a version in the registry, and aliases that point to it."""

    kind: Literal["model_registered"] = "model_registered"
    name: str
    version: int
    digest: str
    stage: str
    aliases: list[str] = Field(default_factory=list)
    metrics: dict[str, FiniteFloat] = Field(default_factory=dict)


class ReportReady(_Event):
    """The run's report is an artifact with an index.html."""

    kind: Literal["report_ready"] = "report_ready"
    digest: str
    uri: str


StageEvent = StageStarted | MetricChunk | StageAlarms | StageFailureEvent | StageFinished
Event = Annotated[
    RunStarted | RunResumed | RunFinished | StageEvent | ModelRegistered | ReportReady, Field(discriminator="kind")
]
_ADAPTER: TypeAdapter[Any] = TypeAdapter(Event)


def parse_event(record: dict[str, Any]) -> Event:
    """Return the event that a spool record holds; raise pydantic's ValidationError if it is none."""
    return _ADAPTER.validate_python(record)


def epoch_milliseconds(moment: datetime) -> int:
    """Return milliseconds since the epoch."""
    return round(moment.timestamp() * 1000)


def moment(value: str | float | datetime) -> datetime:
    """Return a point in time from ISO 8601 text, seconds since the epoch or a datetime; no zone means UTC."""
    if isinstance(value, int | float):
        return datetime.fromtimestamp(value, UTC)
    parsed = datetime.fromisoformat(value) if isinstance(value, str) else value
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
