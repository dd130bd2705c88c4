"""Runs made up in memory, with files as evaluate and rl write them, for the report."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipelines.recipe.matrix import slug
from pipelines.report.collect import RunData, Stage

SAMPLES = 4
"""Responses to each prompt."""


@dataclass
class MadeRun:
    """A run that is put together stage by stage."""

    folder: Path
    run_id: str = "made-1"
    recipe: str = "made"
    stages: list[Stage] = field(default_factory=list)
    cells: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(
        self,
        group: str,
        component: str,
        labels: Mapping[str, Any] | None = None,
        *,
        source: str = "",
        params: Mapping[str, Any] | None = None,
        fingerprint: str = "",
        files: Mapping[str, str] | None = None,
        error: str | None = None,
        ended: bool = True,
        name: str = "",
    ) -> Stage:
        """Add a stage; `files` are those of its output metrics, `source` is the stage whose model it gets."""
        labels = dict(labels or {})
        own = name or group.split(".")[-1] + "".join(f"-{axis}-{slug(value)}" for axis, value in labels.items())
        place = self.folder / hashlib.sha256(f"{self.run_id}/{own}".encode()).hexdigest()
        place.mkdir(parents=True)
        for file, text in (files or {}).items():
            (place / file).write_text(text)
        entry = {
            "status": "done",
            "cache": "miss",
            "seconds": 1.5,
            "seed": int(labels.get("seed", 0)),
            "params": dict(params or {}),
            "component": component,
            "fingerprint": fingerprint or f"{self.run_id}/{own}",
            "inputs": {"model": [{"source": f"{source}.model", "digest": "ab" * 32}]} if source else {},
            "outputs": {"metrics": {"type": "Metrics", "digest": "cd" * 32, "uri": ""}},
            "metrics": {},
        }
        self.cells[own] = labels
        stage = Stage(
            own,
            component,
            group,
            labels,
            [source] if source in self.cells else [],
            entry if ended else None,
            error=error,
            files={"metrics": place} if ended else {},
            params=dict(params or {}),
            cells=self.cells,
        )
        self.stages.append(stage)
        return stage

    def evaluate(
        self, rates: Mapping[str, Sequence[int]], labels: Mapping[str, Any] | None = None, **fields: Any
    ) -> Stage:
        """Add an evaluation; `rates` has how many of four samples of each prompt were right, by domain."""
        metrics, rows = {}, []
        for domain, counts in rates.items():
            value = sum(counts) / (SAMPLES * len(counts))
            metrics[f"pass_at_1_{domain}"] = {"value": value, "low": value / 2, "high": value, "n": len(counts)}
            rows += [
                {
                    "prompt_id": f"{domain}-{place}",
                    "domain": domain,
                    "num_samples": SAMPLES,
                    "num_right": count,
                    "num_wrong": SAMPLES - count,
                    "num_failed": 0,
                }
                for place, count in enumerate(counts)
            ]
        files = {"metrics.json": json.dumps(metrics), "passrates.jsonl": lines(rows)}
        return self.add(fields.pop("group", "evaluate"), "evaluate", labels, files=files, **fields)

    def train(self, losses: Sequence[float], labels: Mapping[str, Any] | None = None, **fields: Any) -> Stage:
        """Add an SFT stage with a history of one loss for each step."""
        rows = [{"step": step, "loss": loss} for step, loss in enumerate(losses, start=1)]
        return self.add(fields.pop("group", "sft"), "sft", labels, files={"history.jsonl": lines(rows)}, **fields)

    @property
    def data(self) -> RunData:
        """Return the run as the report reads it."""
        run = {
            "run_id": self.run_id,
            "recipe": self.recipe,
            "summary": "A made-up run",
            "engine": "local",
            "seed": 0,
            "store": "file:///nowhere",
            "started": "2026-01-02T03:04:05Z",
            "plan_digest": "ef" * 32,
            "code": {"version": "0123abcd", "dirty": False, "lock": None},
            "command": f"posttrain run {self.recipe}",
            "recipe_text": f"name: {self.recipe}\n",
        }
        return RunData(run, {"status": "succeeded", "seconds": 3.0}, self.stages)


def lines(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as JSON lines."""
    return "".join(f"{json.dumps(row)}\n" for row in rows)
