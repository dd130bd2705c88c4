"""Sections on what was done, of every run: the graph, lineage and how to repeat it."""

from __future__ import annotations

from collections.abc import Iterator

from components.contract.artifacts import ArtifactType
from components.runtime.alarms.words import since_text
from components.runtime.system.machine import machine_in_words
from pipelines.report.collect import RunData, Stage
from pipelines.report.content import (
    Cell,
    Digests,
    Drawing,
    PageSection,
    Paragraph,
    Part,
    Rows,
    Strong,
    Verbatim,
    duration,
)
from pipelines.report.dag import draw_dag
from pipelines.report.shards import folded
from pipelines.report.undone import undone


def graph(data: RunData) -> PageSection:
    """Return the DAG with times and cache hits."""
    cached = sum(stage.status == "cached" for stage in data.stages)
    shards = sum(bool(stage.shard_of) for stage in data.stages)
    beside = f" ({shards} of them shards)" if shards else ""
    lead = f"{len(data.stages)} stages{beside}, {cached} of them from the cache."
    parts = [Drawing(draw_dag(folded(data.stages))), *_failures(data.stages), *_questions(data)]
    return PageSection("The run", parts, lead)


def _failures(stages: list[Stage]) -> list[Paragraph]:
    told = ((stage.name, text) for stage in stages for text in [stage.error, *stage.unreadable] if text)
    return [Paragraph(text, "failure", of=name) for name, text in told]


def _questions(data: RunData) -> Iterator[Part]:
    """Yield what people decided, what stages wait for a person to decide, and how to."""
    for stage in data.stages:
        if stage.decision:
            yield Paragraph(stage.decision, of=stage.name)
        if stage.status == "waiting":
            yield Paragraph(f"waits for approval: {stage.question}", "waiting", of=stage.name)
            yield Verbatim(
                f"posttrain approve {data.run['run_id']} {stage.name}    # or with --reject\n{data.run['command']}"
            )


def alarms(data: RunData) -> PageSection:
    """Return what the stages raised while they ran; no section without any."""
    rows: list[list[Cell]] = [
        [Strong(stage.name), alarm["name"].replace("_", " "), since_text(alarm), alarm["text"], alarm["helps"]]
        for stage in data.stages
        for alarm in stage.alarms
    ]
    table = Rows(["stage", "alarm", "when", "what is wrong", "what usually helps"], rows, numbers_from=5)
    lasting = [f"{stage.name}: {a['name']}" for stage in data.stages for a in stage.alarms if a["cleared"] is None]
    red = [Paragraph(f"Not over at the end: {', '.join(lasting)}", "failure")] if lasting else []
    return PageSection("Alarms", [*red, table] if rows else [], "Signs in the histories that a training went wrong.")


def undone_work(data: RunData) -> PageSection:
    """Return what stages that ended well left undone; no section without any."""
    rows: list[list[Cell]] = [
        [Strong(stage.name), words, f"{count:,.0f}"]
        for stage in data.stages
        if stage.entry and not stage.error
        for words, count in undone(stage.component, stage.entry.get("metrics") or {})
    ]
    lead = "What stages that ended well skipped, lost, or could not verify: counts above 0."
    return PageSection("Left undone", [Rows(["stage", "what", "count"], rows, numbers_from=2)] if rows else [], lead)


def lineage(data: RunData) -> PageSection:
    """Return which inputs, code and seed made each model."""
    rows: list[list[Cell]] = []
    for stage in data.stages:
        for port, output in (stage.entry or {}).get("outputs", {}).items():
            if output["type"] == ArtifactType.MODEL and stage.entry:
                used = [(item["source"], item["digest"]) for items in stage.entry["inputs"].values() for item in items]
                cells: list[Cell] = [f"{stage.name}.{port}", _digest(output["digest"]), Digests(tuple(used))]
                rows.append([*cells, machine_in_words(stage.entry.get("machine", {})), stage.entry["seed"]])
    code = data.run["code"]
    facts: list[list[Cell]] = [
        ["code", f"{code['version']}{' with uncommitted changes' if code['dirty'] else ''}"],
        ["lock file", _digest(code["lock"]) if code.get("lock") else "none"],
        ["plan", _digest(data.run["plan_digest"])],
        ["store", data.run["store"]],
    ]
    facts += [["recipe's commit", str(commit)]] if (commit := data.run.get("recipe_commit")) else []
    facts += [[f"package {one['name']}", _digest(one["digest"])] for one in data.run.get("packages", ())]
    facts += [[f"uploaded {one['path']}", _digest(one["digest"])] for one in data.run.get("uploads", ())]
    models = Rows(["model", "digest", "made from", "made on", "seed"], rows, numbers_from=4)
    return PageSection("Lineage", [models, Rows(["", ""], facts, numbers_from=2)])


def _digest(digest: str) -> Digests:
    return Digests((("", digest),))


def reproduce(data: RunData) -> PageSection:
    """Return the exact command and the recipe's text."""
    total = sum(stage.seconds for stage in data.stages if stage.status == "done")
    note = f"Stage time in all: {duration(total)}, at one torch thread a stage."
    recipe = Verbatim(data.run["recipe_text"], "the recipe")
    return PageSection("Reproduce", [Verbatim(data.run["command"]), Paragraph(note), recipe])
