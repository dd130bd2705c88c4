"""Stages of a recipe: the nodes of its unrolled graph, checked and in order."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from typing import Any

from components.contract.alarms import OnAlarm
from components.contract.backends import Backends
from components.contract.component import Component
from components.contract.job import Approval, Expectation, InputRef, OnFailure, Retry, Setting
from components.contract.licenses import LicenseGate
from components.contract.operator_files.library import UserCode
from components.contract.operators import Keys
from components.contract.params import Params
from pipelines.language.problems import Mark
from pipelines.recipe.draft import StageDraft
from pipelines.recipe.graph import remaining, replaced
from pipelines.recipe.matrix import Label


@dataclass(frozen=True)
class Stage:
    """One node of the unrolled graph, checked."""

    name: str
    component: Component
    params: dict[str, Any]
    """As written, with references resolved; passed to the job."""
    config: Params
    """The same, validated, with the component's defaults."""
    inputs: dict[str, list[InputRef]]
    without: dict[str, list[str]]
    """Port -> requested stages that are left out; a fallback replaces them."""
    seed: int
    pool: str
    backend: Backends | None
    """Sampler and trainer that override the pool's choice."""
    retry: Retry
    timeout_seconds: float | None
    when: str | None
    conditional: bool
    """Whether the recipe gives it a condition, even one decided before the run."""
    gate: list[str]
    expect: list[Expectation]
    approve: Approval | None
    after: list[str]
    labels: dict[str, Label]
    group: str | None
    register_as: str | None
    register_aliases: list[str]
    on_alarm: OnAlarm
    on_failure: OnFailure
    alarms: dict[str, float | None]
    """Bounds that replace those of the component's alarms; None turns one off."""
    written: dict[str, str]
    """Dotted path of a parameter that alarms mention -> its name for --set."""
    summary: str
    mark: Mark
    code: list[UserCode]
    """The user's files and packages with operators that `params` name."""
    settings: list[Setting] = field(default_factory=list)
    """Parameters that stages of a sweep set in the run."""
    keep_partial: int | None = None
    """Steps between the checkpoints that outlive it."""
    licenses: LicenseGate | None = None
    """What its end has to ask about licences."""
    shard_of: str = ""
    """The stage that this one is a shard of; the recipe's text knows only that one."""
    operator_marks: Mapping[Keys, Mark] = field(default_factory=dict, repr=False)
    """Where the operators stand that the recipe writes, by their path in `params`."""
    input_marks: Mapping[str, Mark] = field(default_factory=dict, repr=False)
    """Where the inputs stand, by port."""

    @property
    def title(self) -> str:
        """Return its name for people: the one in the file, then which round or cell of it this is."""
        if not self.labels or self.group is None:
            return self.name
        own = self.group.rpartition(".")[2]
        return " ".join([own, *(f"{axis}={value}" for axis, value in self.labels.items())])


@dataclass(frozen=True)
class LeftOut:
    """A stage known before the run not to run."""

    name: str
    reason: str


def stage_of(draft: StageDraft, left_out: Mapping[str, str]) -> Stage:
    """Return the stage of a draft without problems; left-out stages are not among its inputs."""
    assert draft.component is not None and draft.config is not None
    words, cell = draft.words, draft.cell
    labels: dict[str, Label] = {**cell.template.rounds, **cell.labels}
    return Stage(
        name=cell.name,
        component=draft.component,
        params=draft.params,
        config=draft.config,
        inputs=remaining(draft, left_out),
        without=replaced(draft, left_out),
        seed=cell.seed if words.seed is None else words.seed,
        pool=words.pool,
        backend=words.backend,
        retry=Retry(retries=words.retries, backoff_seconds=words.backoff),
        timeout_seconds=words.timeout,
        when=draft.when,
        conditional=words.when is not None,
        gate=draft.gate,
        expect=[Expectation(port=e.port, type=e.type, kwargs=e.kwargs) for e in words.expect],
        approve=None
        if words.approve is None
        else Approval(
            message=words.approve.message,
            timeout_seconds=words.approve.timeout,
            on_timeout=words.approve.on_timeout,
        ),
        after=[name for name in draft.needs if name not in left_out],
        labels=labels,
        group=cell.template.path if labels else None,
        register_as=words.registration.name if words.registration else None,
        register_aliases=words.registration.aliases if words.registration else ["candidate"],
        on_alarm=draft.on_alarm,
        on_failure=draft.on_failure or words.on_failure,
        alarms=words.alarms,
        written=draft.written,
        summary=words.summary,
        mark=draft.node.where,
        code=draft.code,
        settings=[setting for setting in draft.settings if setting.stage not in left_out],
        keep_partial=draft.keep_partial,
        licenses=draft.licenses,
        shard_of=draft.shard_of,
        operator_marks=draft.operators,
        input_marks=_input_marks(draft),
    )


def _input_marks(draft: StageDraft) -> dict[str, Mark]:
    node = draft.node.child("in")
    entries = node.value if node is not None and isinstance(node.value, dict) else {}
    return {name: child.mark for name, child in entries.items()}


def in_order(stages: Iterable[Stage]) -> tuple[Stage, ...]:
    """Return stages topologically sorted; among ready stages, in file order."""
    listed = list(stages)
    position = {stage.name: index for index, stage in enumerate(listed)}
    sorter = TopologicalSorter({stage.name: stage.after for stage in listed})
    sorter.prepare()
    ready: list[int] = []
    ordered: list[Stage] = []
    while sorter.is_active():
        for name in sorter.get_ready():
            heapq.heappush(ready, position[name])
        stage = listed[heapq.heappop(ready)]
        ordered.append(stage)
        sorter.done(stage.name)
    return tuple(ordered)
