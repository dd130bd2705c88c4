"""Job: one stage of one run, as a container receives it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from components.contract.alarms import OnAlarm
from components.contract.backends import GROUPS, SEVERAL, Backend, Backends, given_backends
from components.contract.endpoints import Endpoint
from components.contract.licenses import LicenseGate
from components.contract.operator_files.library import UserCode

LATER_FIELDS = (
    "endpoints",
    "code",
    "on_alarm",
    "alarms",
    "written",
    "settings",
    "on_failure",
    "uploaded",
    "keep_partial",
    "fork",
    "licenses",
    "moved",
    "budget",
)


OnFailure = Literal["stop", "skip"]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class StageRef(_Frozen):
    """An input that another stage of the same run makes."""

    stage: str
    port: str


class UriRef(_Frozen):
    """An input that exists before the run: `artifact:<digest>`, or a path or URI (file, s3, hf)."""

    uri: str


class FirstOf(_Frozen):
    """A fallback: the first of several inputs that exists."""

    first_of: list[StageRef | UriRef] = Field(min_length=1)
    or_none: bool = False
    """Whether the stage goes on without this input where none of them is there."""
    picked_by: StageRef | None = None
    """A metric of an earlier stage: the position, from 1, of the input to take in place of the first that exists."""

    @model_serializer(mode="wrap")
    def _without_picking(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out an unset choice, so that fallbacks from before there were choices keep their form."""
        plain: dict[str, Any] = dump(self)
        if self.picked_by is None:
            plain.pop("picked_by", None)
        return plain


InputRef = StageRef | UriRef | FirstOf


def alternatives(references: Iterable[InputRef]) -> Iterator[StageRef | UriRef]:
    """Yield every input that the references may resolve to, the alternatives of a fallback one by one."""
    for reference in references:
        yield from reference.first_of if isinstance(reference, FirstOf) else (reference,)


def reference_text(reference: InputRef) -> str:
    """Return a reference as readable text: "rl.model", a URI, or "rl.model or else sft.model or else none"."""
    words = [f"{ref.stage}.{ref.port}" if isinstance(ref, StageRef) else ref.uri for ref in alternatives([reference])]
    if isinstance(reference, FirstOf) and reference.picked_by:
        return f"the one of {words[0]} ... {words[-1]} that {reference.picked_by.stage} picks"
    ends = ["none"] if isinstance(reference, FirstOf) and reference.or_none else []
    return " or else ".join([*words, *ends])


class Resources(Backends):
    """What a job gets from its pool: machines, and what generates and trains on them."""

    pool: str = "cpu"
    cpus: int = Field(default=1, ge=1)
    """Cores that are set aside for the job."""
    threads: int = Field(default=1, ge=1)
    """Threads of the numerical libraries: digests repeat only at the same number."""
    memory_gib: float = Field(default=4, gt=0)
    gpus: int = Field(default=0, ge=0)
    nodes: int = Field(default=1, ge=1)
    gpu_memory_gib: float | None = Field(default=None, gt=0)
    """Memory of one GPU; None where the pool does not say it."""

    @model_validator(mode="after")
    def _gpus_are_shared_out(self) -> Resources:
        if reason := self.processes_refusal(self.gpus) or self.groups_refusal(self.gpus, self.nodes):
            raise ValueError(reason)
        return self

    @property
    def ranks_per_node(self) -> int:
        """Return how many processes train together on each node."""
        return (self.processes or self.gpus or 1) if self.trainer in SEVERAL else 1

    @property
    def world_size(self) -> int:
        """Return how many processes train together on all nodes."""
        return self.ranks_per_node * self.nodes if self.trainer in SEVERAL else 1

    @property
    def data_ranks(self) -> int:
        """Return among how many ranks batches are divided: those of one tensor or context group are one."""
        return self.world_size // (self.tensor_parallel * self.context_parallel)

    @property
    def sharded(self) -> bool:
        """Return whether no process holds the whole model: it is loaded shard by shard."""
        return self.trainer == "fsdp" and self.world_size > 1

    def backend_parts(self, used: Collection[Backend]) -> dict[str, Any]:
        """Return the fingerprint parts of the backends that a component uses; empty for the defaults.

        Recomputing activations changes no result, so it is not part of them.
        """
        parts: dict[str, Any] = {}
        if "sampler" in used and self.sampler != "native":
            parts["sampler"] = self.sampler
        if "trainer" in used and self.trainer != "torch":
            stage = {"zero_stage": self.zero_stage} if self.trainer == "deepspeed" else {}
            parts |= {"trainer": self.trainer, **stage, "processes": self.world_size}
            parts |= {"offload": self.offload} if self.offload != "none" else {}
            parts |= {"gather": self.gather} if self.gather != "auto" else {}
            parts |= {name: count for name in GROUPS if (count := getattr(self, name)) != 1}
        if self.deterministic and used:  # what was made otherwise is no answer to those who ask for it
            parts["deterministic"] = True
        return parts

    @model_serializer(mode="wrap")
    def _without_default_backends(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out unset values and default backends, so that jobs from before backends existed keep their form."""
        given, plain = given_backends(self), dump(self)
        if self.gpu_memory_gib is None:
            del plain["gpu_memory_gib"]
        return {name: value for name, value in plain.items() if name not in Backends.model_fields or name in given}


class Retry(_Frozen):
    """How often, and after what pause, a failed job is tried again."""

    retries: int = Field(default=0, ge=0, le=20)
    backoff_seconds: float = Field(default=2.0, ge=0)
    """Pause before the first retry; it doubles each time."""
    max_backoff_seconds: float = Field(default=300.0, ge=0)
    """The longest pause."""

    def pause_before(self, retry: int) -> float:
        """Return the seconds to wait before a retry; the first one is 1."""
        return min(self.backoff_seconds * 2.0 ** min(retry - 1, 64), self.max_backoff_seconds)


class Expectation(_Frozen):
    """A Great Expectations expectation on the rows of one dataset output."""

    port: str
    type: str
    kwargs: dict[str, Any] = Field(default_factory=dict)


class Approval(_Frozen):
    """A person decides before the stage runs."""

    message: str = "Continue?"
    timeout_seconds: float | None = None
    on_timeout: Literal["approve", "reject"] = "reject"


class Setting(_Frozen):
    """A parameter that the end of an earlier stage sets; the launcher reads it from the run's ledger."""

    path: list[str | int] = Field(min_length=1)
    """Place in the job's parameters."""
    stage: str
    metric: str = ""
    """The metric to read; empty where `failure` is set."""
    choices: list[Any] | None = None
    """The values that the metric is a position in, from 0; None: the metric is the value."""
    whole: bool = False
    """Whether the value is a whole number."""
    or_none: bool = False
    """Whether the parameter is null where the stage was skipped; else this stage is skipped, too."""
    failure: bool = False
    """Whether the value is why the stage failed, null if it did not."""

    @model_serializer(mode="wrap")
    def _without_failure(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out an unset `failure`, so that settings from before it existed keep their form."""
        plain: dict[str, Any] = dump(self)
        if not self.failure:
            plain.pop("failure", None)
        return plain


class Fork(_Frozen):
    """From where a stage goes on: a checkpoint that the same stage of another run kept."""

    run: str
    """The other run's id."""
    step: int = Field(ge=1)


class Budget(_Frozen):
    """What a run may spend on all its stages."""

    amount: float = Field(gt=0)
    currency: str = ""
    """As in the prices of pools; empty where those name none."""

    def __str__(self) -> str:
        return f"{self.amount:g} {self.currency}".rstrip()


class Job(_Frozen):
    """Everything that the launcher needs to run one stage on any engine."""

    run_id: str
    recipe: str
    stage: str
    component: str
    params: dict[str, Any]
    """Resolved parameters, as written in the recipe: no `${...}` left."""
    inputs: dict[str, list[StageRef | UriRef | FirstOf]]
    """Port name to its references; a port that takes one has a list of one. The launcher decides fallbacks."""
    seed: int
    store: str
    """Store URI: a directory path, or s3://bucket/prefix."""
    resources: Resources = Resources()
    retry: Retry = Retry()
    timeout_seconds: float | None = Field(default=None, gt=0)
    when: str | None = None
    """Expression over metrics of earlier stages; the stage is skipped when it is false."""
    gate: list[str] = Field(default_factory=list)
    """Expressions over this stage's own metrics, by name, and those of earlier stages, as stage.metric, that must hold
    after it ran."""
    expect: list[Expectation] = Field(default_factory=list)
    approve: Approval | None = None
    after: list[str] = Field(default_factory=list)
    """Stages that must have ended first: those behind `inputs`, `when` and explicit ordering."""
    labels: dict[str, str | int | float | bool] = Field(default_factory=dict)
    """Matrix cell and repeat round, for people and for grouping."""
    group: str | None = None
    """The stage of the recipe file that this one was unrolled from."""
    register_as: str | None = None
    """Name in the model registry under which the stage's Model output is registered."""
    register_aliases: list[str] = Field(default_factory=lambda: ["candidate"])
    """Aliases that the registered version gets: candidate, champion, or a team's own."""
    endpoints: dict[str, Endpoint] = Field(default_factory=dict)
    """Declarations of the endpoints that `inputs` name as endpoint:<name>."""
    code: list[UserCode] = Field(default_factory=list)
    """The user's files and packages with operators that `params` name, each by its digest."""
    on_alarm: OnAlarm = "warn"
    """What an alarm does while the stage runs: it is shown, or it ends the stage."""
    alarms: dict[str, float | None] = Field(default_factory=dict)
    """Alarm -> the bound that replaces the component's; None turns it off."""
    written: dict[str, str] = Field(default_factory=dict)
    """Dotted path of a parameter -> its name in the recipe, for what alarms say."""
    settings: list[Setting] = Field(default_factory=list)
    """Parameters that are known only in the run; `params` holds a valid value in their place until then."""
    on_failure: OnFailure = "stop"
    """What becomes of the run when the stage has failed for good: it stops, or goes on without the stage."""
    uploaded: dict[str, str] = Field(default_factory=dict)
    """Local path of `params` -> digest of the artifact with its files; empty where a stage sees the files."""
    keep_partial: int | None = Field(default=None, ge=1)
    """Steps between the checkpoints that outlive the stage, so that it can be forked there; no result depends on it."""
    licenses: LicenseGate | None = None
    """Licences that are refused, and what could not be checked before the run; no result depends on it."""
    fork: Fork | None = None
    """The checkpoint that the stage begins with; None: it begins at its first step."""
    moved: str | None = None
    """The run that this one goes on for: its unfinished stages have handed over their states."""
    budget: Budget | None = None
    """What the run may spend; no result depends on it."""

    @property
    def key_variables(self) -> list[str]:
        """Return the environment variables that hold the keys of the job's endpoints, sorted."""
        return sorted({endpoint.key_env for endpoint in self.endpoints.values() if endpoint.key_env})

    @model_serializer(mode="wrap")
    def _without_later_defaults(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out the defaults of later fields, so that jobs from before these existed keep their form."""
        plain: dict[str, Any] = dump(self)
        for name in LATER_FIELDS:
            if getattr(self, name) == Job.model_fields[name].get_default(call_default_factory=True):
                plain.pop(name, None)
        return plain
