"""SvS's rollout: problems that the policy writes from its own right solutions join the problems that it was given."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from pydantic import Field, field_validator, model_validator

from components.contract.errors import InputError
from components.rl.configs import SlotConfig
from components.rl.step.context import SlotContext
from components.tasks.item import UNLABELLED, Item, item_id
from components.tasks.seeds import derive_rng
from components.tasks.sources.problem_writing import TEMPLATE, check_writing_template, writing_prompt

if TYPE_CHECKING:
    from components.rl.batch.batch import Batch, Prompt
    from components.rl.step.collector import Collector

WRITING, VARIANTS = "writing", "variants"
"""Domains of the prompts that ask for a problem, and of the problems written."""
ALIKE = 1e-9


class SelfPlayVariantsConfig(SlotConfig):
    """Which prompts are varied, and how often."""

    reads: ClassVar[frozenset[str]] = frozenset({"outcomes"})
    writes: ClassVar[frozenset[str]] = frozenset({"writing_s", "variant_rate_s"})
    low: float = Field(default=0.125, ge=0, le=1)
    """Lowest pass rate of a group whose right responses become problems."""
    high: float = Field(default=0.5, ge=0, le=1)
    """Highest pass rate of such a group."""
    num_variants: int = Field(default=8, ge=1)
    """Problems written from each right response."""
    max_solutions: int | None = Field(default=None, ge=1)
    """Most right responses of a group that problems are written from; null: all that differ."""
    max_problems: int | None = Field(default=None, ge=1)
    """Most written problems that a step solves, drawn by chance; those left out are not learned from. null: all."""
    copies: bool = False
    """Whether a problem with the very words of the one it varies is solved. By default it counts as never solved, so
    that writing it earns nothing: its pass rate is in the band already."""
    template: str = TEMPLATE
    """Asks for a problem; {solution} is replaced by a right response."""

    @field_validator("template")
    @classmethod
    def _complete(cls, value: str) -> str:
        return check_writing_template(value)

    @model_validator(mode="after")
    def _is_a_range(self) -> Self:
        if self.low > self.high:
            raise InputError(f"self_play_variants: low {self.low} is above high {self.high}")
        return self


@dataclass(frozen=True)
class Variants:
    """Problems that were written, and which rows wrote them."""

    prompts: tuple[Prompt, ...]
    """Each once, however many rows wrote it."""
    of_row: tuple[int | None, ...]
    """For each row that wrote, the place of its problem in `prompts`; None if it wrote none, or a copy."""


def self_play_variants(
    prompts: Sequence[Prompt], collector: Collector, context: SlotContext, *, config: SelfPlayVariantsConfig
) -> Batch:
    """Draw a group for each prompt, problems from right responses of groups in the range, and a group for each problem.

    All three kinds are groups of the batch. A written problem has the verifier and the answer of the one it varies,
    whatever its words: it is hostile text, a prompt and nothing else. Marks: `writing_s` is 1 at rows that wrote a
    problem, whose pass rate is `variant_rate_s` (0 where there is none, NaN if nothing could be verified); both are 0
    elsewhere. Rows that wrote have no outcome: reward variant_band values them. Metrics: `variants_written`,
    `variants_solved` (distinct problems), `variant_pass_rate`.
    Source: Liang et al. 2025, Beyond Pass@1: Self-Play with Variational Problem Synthesis (SvS), and its released
    config. Ours: `copies`, `max_solutions` and `max_problems`.
    """
    from components.rl.batch.joining import concatenate

    drawn = collector.draw(prompts, context.settings.group_size)
    asked, sources = _asked(drawn, collector, config)
    context.metrics.update(variants_written=0.0, variants_solved=0.0)
    if not asked:
        return _marked(drawn)
    written = collector.draw(asked, config.num_variants)
    found = _variants(written, sources, collector, config)
    chosen = _chosen(len(found.prompts), context, config)
    rates: dict[int, float] = {}
    parts = [_marked(drawn)]
    if chosen:
        solved = collector.draw([found.prompts[at] for at in chosen], context.settings.group_size)
        rates = dict(zip(chosen, _pass_rates(solved, collector), strict=True))
        verified = [rate for rate in rates.values() if not math.isnan(rate)]
        if verified:
            context.metrics["variant_pass_rate"] = sum(verified) / len(verified)
        parts.append(_marked(solved))
    context.metrics.update(variants_written=float(written.num_responses), variants_solved=float(len(chosen)))
    parts.insert(1, _writers(written, found.of_row, rates))
    return concatenate([part for part in parts if part.num_responses])


def _chosen(count: int, context: SlotContext, config: SelfPlayVariantsConfig) -> list[int]:
    """Return the places of the problems that are solved, in order."""
    if config.max_problems is None or count <= config.max_problems:
        return list(range(count))
    rng = derive_rng(context.seed, "self_play_variants", context.step)
    return sorted(rng.sample(range(count), config.max_problems))


def _writers(written: Batch, of_row: Sequence[int | None], rates: Mapping[int, float]) -> Batch:
    """Return the rows that wrote, marked with the pass rate of their problem, without those whose problem was left."""
    import torch

    rate_s = torch.tensor([0.0 if place is None else rates.get(place, 0.0) for place in of_row])
    marked = written.with_extras(writing_s=torch.ones(written.num_responses), variant_rate_s=rate_s)
    return marked.select(torch.tensor([place is None or place in rates for place in of_row]))


def _marked(batch: Batch) -> Batch:
    import torch

    nothing = torch.zeros(batch.num_responses)
    return batch.with_extras(writing_s=nothing, variant_rate_s=nothing.clone())


def _pass_rates(batch: Batch, collector: Collector) -> list[float]:
    """Return the share of right responses of each group; NaN where nothing could be verified."""
    from components.rl.batch.batch import FAILED, RIGHT

    outcomes = collector.outcomes(batch)
    right, verified = batch.group_sum((outcomes == RIGHT).long()), batch.group_sum((outcomes != FAILED).long())
    rate_s = right.double() / verified  # 0 / 0 is NaN
    return list(dict(zip(batch.group.tolist(), rate_s.tolist(), strict=True)).values())


def _asked(batch: Batch, collector: Collector, config: SelfPlayVariantsConfig) -> tuple[list[Prompt], list[Item]]:
    """Return the prompts that ask for problems, and the item that each of them varies."""
    from components.rl.batch.batch import RIGHT, Prompt

    rates, right = _pass_rates(batch, collector), (collector.outcomes(batch) == RIGHT).tolist()
    solutions: dict[int, dict[str, None]] = {}
    for row, group in enumerate(batch.group.tolist()):
        if right[row] and config.low - ALIKE <= rates[group] <= config.high + ALIKE:
            solutions.setdefault(group, {})[batch.texts[row]] = None
    found: dict[str, tuple[Prompt, Item]] = {}
    for group, texts in solutions.items():
        for text in list(texts)[: config.max_solutions]:
            asks = writing_prompt(config.template, text)
            name = item_id(WRITING, asks, "")
            item = Item(id=name, domain=WRITING, prompt=asks, answer="", verifier=UNLABELLED)
            prompt = Prompt(item, tuple(collector.encode_prompt(asks)))
            found.setdefault(name, (prompt, batch.prompts[group].item))
    return [prompt for prompt, _ in found.values()], [item for _, item in found.values()]


def _variants(
    written: Batch, sources: Sequence[Item], collector: Collector, config: SelfPlayVariantsConfig
) -> Variants:
    """Return the problems written, each with the answer, the verifier and its data of the item that it varies."""
    from components.rl.batch.batch import Prompt

    places: dict[str, int] = {}
    problems: list[Prompt] = []
    of_row: list[int | None] = []
    rows = zip(written.texts, written.group.tolist(), written.finished.tolist(), strict=True)
    for text, group, finished in rows:
        item, words = sources[group], text.strip()
        if not finished or not words or (words == item.prompt.strip() and not config.copies):
            of_row.append(None)
            continue
        name = item_id(VARIANTS, words, item.answer)
        if name not in places:
            places[name] = len(problems)
            changes = {"id": name, "domain": VARIANTS, "prompt": words, "messages": ()}
            problems.append(Prompt(item.model_copy(update=changes), tuple(collector.encode_prompt(words))))
        of_row.append(places[name])
    return Variants(tuple(problems), tuple(of_row))
