"""Sections on what was done: the graph, the data, the training curves, lineage and how to repeat it."""

from __future__ import annotations

from typing import Any

from pipelines.report.collect import RunData, Stage, group_name
from pipelines.report.dag import draw_dag
from pipelines.report.html import Markup, duration, figure, grid, markup, section, short, table
from pipelines.report.svg import Axes, Series, histogram, legend, line_chart

TRAINING = ("pretrain", "sft", "rl", "replay")
CURVES = {
    "reward_mean": "reward",
    "pass_rate": "pass rate",
    "loss": "loss",
    "entropy": "entropy, nats",
    "start_kl_k3": "KL to the start, nats a token",
    "length_mean": "response length, tokens",
    "grad_norm": "gradient norm",
    "signal_share": "groups with signal",
    "clip_fraction": "clipped share",
    "truncated_share": "truncated responses",
    "learning_rate": "learning rate",
}
"""Metric name -> title, in the order of the page; a curve is shown where a stage logged it."""


def graph(data: RunData) -> Markup:
    """Return the DAG with times and cache hits."""
    cached = sum(stage.status == "cached" for stage in data.stages)
    lead = f"{len(data.stages)} stages, {cached} of them from the cache."
    return section("The run", f'<div class="scroll">{draw_dag(data.stages)}</div>', _failures(data.stages), lead=lead)


def _failures(stages: list[Stage]) -> str:
    told = ((stage.name, text) for stage in stages for text in [stage.error, *stage.unreadable] if text)
    return "".join(f"<p class=failure><b>{markup(name)}</b>: {markup(text)}</p>" for name, text in told)


def data_cards(data: RunData) -> Markup:
    """Return the card of every curated dataset: how many rows were dropped for what, histograms before and after."""
    seen: set[str] = set()
    parts = []
    for stage in data.of("curate"):
        card = stage.json("dataset", "card.json")
        digest = stage.entry["outputs"]["dataset"]["digest"] if stage.entry else ""
        if card and digest not in seen and group_name(stage) not in seen:
            seen |= {digest, group_name(stage)}
            parts.append(_card(stage, card, digest))
    return section("Data", *parts, lead="Each dataset as it was curated. Bars: before filtering, and after.")


def _card(stage: Stage, card: dict[str, Any], digest: str) -> str:
    facts = [f"{card['num_rows']} rows", f"kind: {card['kind']}"]
    facts += [f"{card['num_drawn']} drawn"]
    facts += [f"dropped as {reason.replace('_', ' ')}: {count}" for reason, count in card["drops"].items() if count]
    charts = []
    for name, pair in card["histograms"].items():
        bins = [f"{edge:g}" for edge in pair["edges"][: len(pair["after"])]]  # a bin goes by its lower edge
        groups = [(when, pair[when], colour) for when, colour in (("before", 5), ("after", 0)) if when in pair]
        charts.append(figure(histogram(groups, bins, Axes(width=260, height=150)), name.replace("_", " ")))
    head = f"<h3>{markup(group_name(stage))} {short(digest)}</h3>"
    return f'<div class="card">{head}<p>{markup("; ".join(facts))}</p>{grid(charts)}</div>'


def training(data: RunData) -> Markup:
    """Return the curves of every training stage, one line a seed."""
    groups: dict[str, list[Stage]] = {}
    for stage in data.of(*TRAINING):
        groups.setdefault(group_name(stage), []).append(stage)
    parts = [_curves(name, stages) for name, stages in groups.items()]
    return section("Training", *parts)


def _curves(name: str, stages: list[Stage]) -> str:
    histories = [(stage, stage.lines("metrics", "history.jsonl")) for stage in stages]
    figures = []
    for metric, title in CURVES.items():
        series = [
            Series(stage.name, [(row["step"], row[metric]) for row in rows if metric in row], None, colour)
            for colour, (stage, rows) in enumerate(histories)
        ]
        if any(len(item.points) > 1 for item in series):
            figures.append(figure(line_chart(series, Axes(x_label="step")), title))
    keys = legend([(stage.name, colour, False) for colour, stage in enumerate(stages)]) if len(stages) > 1 else ""
    return f"<h3>{markup(name)}</h3>{keys}{grid(figures)}" if figures else ""


def lineage(data: RunData) -> Markup:
    """Return which inputs, code and seed made each model."""
    rows = []
    for stage in data.stages:
        for port, output in (stage.entry or {}).get("outputs", {}).items():
            if output["type"] == "Model" and stage.entry:
                used = [_source(item) for items in stage.entry["inputs"].values() for item in items]
                model = [f"{stage.name}.{port}", short(output["digest"])]
                rows.append([*model, Markup(", ".join(used)), stage.entry["seed"]])
    code = data.run["code"]
    facts = [
        ["code", f"{code['version']}{' with uncommitted changes' if code['dirty'] else ''}"],
        ["lock file", short(code["lock"]) if code.get("lock") else "none"],
        ["plan", short(data.run["plan_digest"])],
        ["store", data.run["store"]],
    ]
    models = table(["model", "digest", "made from", "seed"], rows, numbers_from=3)
    return section("Lineage", models, table(["", ""], facts, numbers_from=2))


def _source(item: dict[str, Any]) -> str:
    return f"{markup(item['source'])} {short(item['digest'])}"


def reproduce(data: RunData) -> Markup:
    """Return the exact command and the recipe's text."""
    total = sum(stage.seconds for stage in data.stages if stage.status == "done")
    note = f"Stage time in all: {duration(total)}, at one torch thread a stage."
    recipe = f"<details><summary>the recipe</summary><pre>{markup(data.run['recipe_text'])}</pre></details>"
    return section("Reproduce", f"<pre>{markup(data.run['command'])}</pre>", f"<p>{note}</p>", recipe)
