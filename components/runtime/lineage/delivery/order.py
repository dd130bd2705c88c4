"""Order of delivery: causes before effects, independent of machine clocks.

A listing taken while jobs write may show an event and miss an earlier one. So while a run is open, a stage waits until
every stage that it reads from is listed as finished, and a registered model waits for its stage.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from graphlib import TopologicalSorter

from components.runtime.lineage.events import (
    Event,
    MetricChunk,
    ModelRegistered,
    ReportReady,
    RunFinished,
    RunResumed,
    RunStarted,
    StageAlarms,
    StageEvent,
    StageFailureEvent,
    StageFinished,
    StageStarted,
)

FINISHED = "/finished.json"
WITHIN_STAGE = {StageStarted: 0, MetricChunk: 1, StageAlarms: 2, StageFailureEvent: 3, StageFinished: 4}
PHASES = {RunStarted: 0, ModelRegistered: 2, ReportReady: 3, RunResumed: 4, RunFinished: 4}


def is_closed(keys: Iterable[str]) -> bool:
    """Return whether a run's last turn, judged by the keys of its events, is an end."""
    turns = sorted(key for key in keys if key.split("/")[2:3] == ["turns"])
    return bool(turns) and not turns[-1].endswith("-resumed.json")


def delivery_order(
    events: Mapping[str, Event], keys: Iterable[str], stage_names: Iterable[str], *, closed: bool
) -> list[str]:
    """Return the keys of `events` in delivery order, without those that must wait.

    `keys` are all keys of the run, delivered or not; `stage_names` are the stages that the run has.
    """
    finished = {key.split("/")[3] for key in keys if key.endswith(FINISHED)}
    upstream = _upstream(events.values(), set(stage_names))
    waiting = set() if closed else _waiting(upstream, finished)
    position = {stage: index for index, stage in enumerate(TopologicalSorter(upstream).static_order())}

    def ready(event: Event) -> bool:
        if isinstance(event, StageEvent):
            return event.stage not in waiting
        return not isinstance(event, ModelRegistered) or closed or event.stage in finished

    begun = _begun(events)

    def rank(key: str) -> tuple[object, ...]:
        event = events[key]
        if isinstance(event, StageEvent):
            return (1, position.get(event.stage, 0), begun[_group(key)], _group(key), WITHIN_STAGE[type(event)], key)
        return (PHASES[type(event)], 0, event.milliseconds, "", 0, key)

    return sorted((key for key, event in events.items() if ready(event)), key=rank)


def _upstream(events: Iterable[Event], stage_names: set[str]) -> dict[str, set[str]]:
    """Return stage -> the stages of the same run that it reads from, for every stage with an event."""
    graph: dict[str, set[str]] = {}
    for event in events:
        if isinstance(event, StageEvent):
            sources = graph.setdefault(event.stage, set())
            if isinstance(event, StageStarted | StageFinished):
                used = (item.source.rpartition(".")[0] for items in event.inputs.values() for item in items)
                sources.update(name for name in used if name in stage_names and name != event.stage)
    return graph


def _waiting(upstream: Mapping[str, set[str]], finished: set[str]) -> set[str]:
    """Return the stages of `upstream` that read, directly or not, from a stage that is not listed as finished."""
    waiting = {stage for stage, sources in upstream.items() if sources - finished}
    while more := {stage for stage, sources in upstream.items() if sources & waiting} - waiting:
        waiting |= more
    return waiting


def _group(key: str) -> str:
    """Return the folder of a stage event's key: one stage with one fingerprint."""
    return key.rpartition("/")[0]


def _begun(events: Mapping[str, Event]) -> dict[str, int]:
    """Return the earliest time of each group of stage events, so that a superseded attempt precedes its successor."""
    begun: dict[str, int] = {}
    for key, event in events.items():
        if isinstance(event, StageEvent):
            group = _group(key)
            begun[group] = min(begun.get(group, event.milliseconds), event.milliseconds)
    return begun
