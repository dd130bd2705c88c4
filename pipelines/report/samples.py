"""The samples section: responses of a run, a bounded number, and models side by side on the same prompts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from components.contract.artifacts import SAMPLES_FILE
from components.contract.samples import Sample, read_samples, spread
from pipelines.report.collect import RunData, Stage
from pipelines.report.content import PageSection
from pipelines.report.evaluations import ResultTable
from pipelines.report.sample_content import Answers, Room, SampleBrowser, Shown, Versus, said, shown_sample

MAX_SAMPLES, MIN_OF_STAGE = 160, 6
PER_STEP = 4
MAX_PROMPTS, MAX_MODELS, PER_MODEL = 24, 12, 2
ROOM = 700_000
"""Characters of hidden text on a page."""
OPEN_PROMPT, OPEN_RESPONSE, OPEN_VERSUS = 400, 700, 300
"""Characters of a text that are open at first."""
LEAD = (
    "A few of the responses that stages kept, evenly from worst to best, each with its verdict and its reward. "
    "posttrain samples RUN:STAGE shows all of them, whole."
)


def sample_section(data: RunData, tables: Sequence[ResultTable]) -> PageSection:
    """Return the section; without samples it has no parts and is not shown."""
    kept = {stage.name: found for stage in data.ended if (found := _samples_of(stage))}
    if not kept:
        return PageSection("Samples", [])
    room = Room(ROOM)
    each = max(MIN_OF_STAGE, MAX_SAMPLES // len(kept))
    chosen = [(name, sample) for name, found in kept.items() for sample in _chosen(found, each)][: 2 * MAX_SAMPLES]
    shown = [_shown(name, sample, room) for name, sample in chosen]
    models = _models(kept, tables)
    total = sum(map(len, kept.values()))
    browser = SampleBrowser(shown, total, list(models)[:MAX_MODELS], list(_versus(models, room)))
    return PageSection("Samples", [browser], LEAD)


def _samples_of(stage: Stage) -> list[Sample]:
    """Return the samples in a stage's outputs; one whose file is no text has none."""
    for folder in stage.files.values():
        path = folder / SAMPLES_FILE
        if path.is_file():
            return list(read_samples(path.read_bytes().split(b"\n")))
    return []


def _chosen(samples: Sequence[Sample], count: int) -> list[Sample]:
    """Return up to `count` samples: of evenly spaced steps, or of every domain, each evenly from worst to best."""
    steps = dict.fromkeys(sorted({sample.step for sample in samples if sample.step is not None}))
    if steps:
        wanted = spread(list(steps), max(1, count // PER_STEP))
        groups = [[sample for sample in samples if sample.step == step] for step in wanted]
    else:
        groups = [[s for s in samples if s.domain == domain] for domain in dict.fromkeys(s.domain for s in samples)]
    of_each = max(1, count // len(groups))
    return [one for group in groups for one in spread(sorted(group, key=lambda sample: sample.badness), of_each)]


def _shown(stage: str, sample: Sample, room: Room) -> Shown:
    return shown_sample(stage, sample, room, prompt=OPEN_PROMPT, response=OPEN_RESPONSE)


def _models(kept: Mapping[str, list[Sample]], tables: Iterable[ResultTable]) -> dict[str, list[Sample]]:
    """Return measured model -> samples, in the order of the recipe; models of several seeds by their stages."""
    found = {}
    for table in tables:
        for item in table.evaluations:
            for stage in item.stages:
                if stage.name in kept:
                    name = item.model if len(item.stages) == 1 else f"{item.model} ({stage.name})"
                    found[name if name not in found else stage.name] = kept[stage.name]
    return found


def _versus(models: Mapping[str, list[Sample]], room: Room) -> Iterator[Versus]:
    """Yield the prompts that at least two models answered, those with different verdicts first, spread over domains."""
    answers: dict[str, dict[int, list[Sample]]] = {}
    for number, samples in enumerate(list(models.values())[:MAX_MODELS]):
        for sample in samples:
            if sample.prompt_id and sample.response is not None:
                answers.setdefault(sample.prompt_id, {}).setdefault(number, []).append(sample)
    shared = [found for found in answers.values() if len(found) > 1]
    domains = dict.fromkeys(_first(found).domain for found in shared)
    each = max(1, MAX_PROMPTS // len(domains)) if domains else 0
    for domain in domains:
        of_domain = [found for found in shared if _first(found).domain == domain]
        for found in sorted(of_domain, key=lambda one: not _differs(one))[:each]:
            yield _prompt(found, room)


def _first(found: Mapping[int, list[Sample]]) -> Sample:
    return next(iter(found.values()))[0]


def _differs(found: Mapping[int, list[Sample]]) -> bool:
    return len({tuple(sorted(sample.outcome or "" for sample in samples)) for samples in found.values()}) > 1


def _prompt(found: Mapping[int, list[Sample]], room: Room) -> Versus:
    first = _first(found)
    answers = [
        Answers(
            number, [_answer(sample, room) for sample in spread(sorted(samples, key=lambda s: s.badness), PER_MODEL)]
        )
        for number, samples in found.items()
    ]
    return Versus(said("user", first.prompt, room, OPEN_PROMPT), first.domain, _differs(found), answers)


def _answer(sample: Sample, room: Room) -> Shown:
    """Return a sample without its prompt, which stands above all answers."""
    alone = sample.model_copy(update={"prompt": "", "messages": [], "turns": []})
    found = shown_sample("", alone, room, prompt=OPEN_PROMPT, response=OPEN_VERSUS)
    return replace(found, said=found.said[1:])
