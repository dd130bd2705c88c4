"""Responses of a run for people to read: chosen by stage, step, domain, verdict and words, sorted, at most so many."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from components.contract.artifacts import SAMPLES_FILE
from components.contract.errors import CorruptArtifact, InputError, did_you_mean
from components.contract.samples import Sample, read_samples
from components.contract.terminal import visible
from components.runtime.ledger.samples import stage_samples
from components.runtime.lineage.spool import ROOT as SPOOL
from components.runtime.store.partial_files import read_partial_files
from pipelines.runs.tables import stages_named

if TYPE_CHECKING:
    from components.runtime.ledger.ledger import RunRecord
    from components.runtime.store import Store

NEAREST = 6
"""Known steps named where a step has no samples."""


@dataclass(frozen=True)
class Wish:
    """Which samples are wanted."""

    step: int | None = None
    outcomes: frozenset[str] = frozenset()
    """Outcomes to keep; empty: all."""
    domain: str | None = None
    words: str = ""
    """A text that prompt or response contains, whatever its case."""
    prompt_id: str | None = None
    sort: str = "reward"
    """reward (worst first), best, length (longest first) or step."""
    limit: int = 10


@dataclass(frozen=True)
class StageSamples:
    """The samples of one stage."""

    stage: str
    group: str
    samples: list[Sample]
    checkpoint: int | None = None
    """Step of the partial checkpoint that they come from, while the stage runs."""
    unreadable: str = ""
    """Why they cannot be read."""


@dataclass
class Found:
    """The chosen samples, each with its stage, and what there was to choose from."""

    chosen: list[tuple[StageSamples, Sample]]
    stages: list[StageSamples]
    num_matching: int = 0
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return the samples as JSON for scripts."""
        rows = [
            {"stage": stage.stage, "checkpoint": stage.checkpoint, **sample.model_dump()}
            for stage, sample in self.chosen
        ]
        return {"samples": rows, "num_matching": self.num_matching, "notes": self.notes}


def find_samples(store: Store, run: RunRecord, stage: str | None, wish: Wish) -> Found:
    """Return the wanted samples of a run, or of its stages that are called `stage` or are of the group `stage`.

    Raises InputError, with what there is, for an unknown stage, and for a step or domain without samples.
    """
    stages = [kept for kept in _stages(store, run, stage) if kept.samples or kept.unreadable]
    notes = [f"{kept.stage}: {kept.unreadable}" for kept in stages if kept.unreadable]
    notes += [
        f"{kept.stage} runs: as of its checkpoint of step {kept.checkpoint}"
        for kept in stages
        if kept.checkpoint is not None
    ]
    pairs = [(kept, sample) for kept in stages for sample in kept.samples]
    if not pairs:
        where = f"stage {stage!r} of run" if stage else "run"
        raise InputError("; ".join([f"{where} {run.run_id} has kept no samples yet", *notes]))
    if stage is None and any(sample.outcome for _, sample in pairs):  # rows of data are shown on request
        pairs = [pair for pair in pairs if pair[1].outcome]
    _check(pairs, wish)
    matching = [pair for pair in pairs if _matches(pair[1], wish)]
    order = _sorted(matching, wish.sort)
    return Found(order[: wish.limit], stages, len(matching), notes)


def _stages(store: Store, run: RunRecord, wanted: str | None) -> Iterator[StageSamples]:
    names = stages_named(run, wanted)
    groups = {name: (run.planned.get(name) or run.stages.get(name) or {}).get("group") or name for name in names}
    for name in names:
        entry = run.stages.get(name)
        try:
            if entry is not None:
                yield StageSamples(name, groups[name], stage_samples(store, entry["outputs"]))
            elif kept := run.kept.get(name):  # an alarm ended it
                yield StageSamples(name, groups[name], stage_samples(store, kept))
            elif live := live_samples(store, run.run_id, name):
                yield StageSamples(name, groups[name], live[1], checkpoint=live[0])
        except (CorruptArtifact, InputError) as error:
            yield StageSamples(name, groups[name], [], unreadable=str(error))


def live_samples(store: Store, run_id: str, stage: str) -> tuple[int, list[Sample]] | None:
    """Return step and samples of the newest partial checkpoint of a stage that has not ended; None without one."""
    found = []
    for fingerprint in store.names(f"{SPOOL}/{run_id}/stages/{stage}/"):
        kept = read_partial_files(store, fingerprint, lambda path: posixpath.basename(path) == SAMPLES_FILE)
        if kept is not None:
            found.append((kept[0], [sample for data in kept[1] for sample in read_samples(data.split(b"\n"))]))
    return max(found, key=lambda item: item[0], default=None)


def _check(pairs: Sequence[tuple[StageSamples, Sample]], wish: Wish) -> None:
    steps = sorted({sample.step for _, sample in pairs if sample.step is not None})
    if wish.step is not None and wish.step not in steps:
        wanted = wish.step
        near = ", ".join(map(str, sorted(sorted(steps, key=lambda step: abs(step - wanted))[:NEAREST])))
        raise InputError(f"no samples of step {wanted}" + (f"; the nearest steps with some: {near}" if near else ""))
    domains = sorted({sample.domain for _, sample in pairs})
    if wish.domain is not None and wish.domain not in domains:
        raise InputError(f"no samples of domain {wish.domain!r}{did_you_mean(wish.domain, domains)}")


def _matches(sample: Sample, wish: Wish) -> bool:
    words = wish.words.casefold()
    return (
        (wish.step is None or sample.step == wish.step)
        and (not wish.outcomes or sample.outcome in wish.outcomes)
        and (wish.domain is None or sample.domain == wish.domain)
        and (wish.prompt_id is None or sample.prompt_id == wish.prompt_id)
        and (not words or any(words in text.casefold() for _, text in sample.pieces()))
    )


def _sorted(pairs: list[tuple[StageSamples, Sample]], sort: str) -> list[tuple[StageSamples, Sample]]:
    if sort == "length":
        return sorted(pairs, key=lambda pair: -pair[1].length)
    if sort == "step":
        return sorted(pairs, key=lambda pair: pair[1].step or 0)
    ordered = sorted(pairs, key=lambda pair: pair[1].badness)
    return ordered[::-1] if sort == "best" else ordered


def reward_text(sample: Sample) -> str:
    """Return a reward with its parts if there are several: "reward 0.9 = verified 1 + length -0.1"."""
    parts = {name: value for name, value in sample.parts.items() if value is not None}
    told = " + ".join(f"{visible(name)} {value:.4g}" for name, value in parts.items())
    return f"reward {sample.reward:.4g}" + (f" = {told}" if len(parts) > 1 else "")


def one_line(text: str) -> str:
    """Return a text in one line, safe for a terminal."""
    return visible(" ".join(text.split()))
