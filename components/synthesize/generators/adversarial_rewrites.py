"""Rewrites of labelled texts, gated by judges: those that a classifier gets wrong against those that it gets right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from components.contract.errors import InputError
from components.synthesize.asking import ask
from components.synthesize.config import GeneratorConfig, Kind
from components.synthesize.context import GeneratorContext
from components.synthesize.made import Dropped, Made
from components.synthesize.parsing import UNPARSED, unusable
from components.synthesize.ratings import mean_rating, rating_request
from components.synthesize.sifting import OVER_CAP, REPEATED
from components.synthesize.templates import check_template, fill
from components.synthesize.writers import Writers
from components.tasks.answers import extract_answer
from components.tasks.item import UNLABELLED, Item, item_id
from components.tasks.row_kinds.preferences import CHOSEN, LABEL_SOURCE, MARGIN, REJECTED

NO_CONTRAST, UNSCORED, UNRATED, POOR, OTHER_LENGTH = "no_contrast", "unscored", "unrated", "poor", "other_length"


class AdversarialRewritesConfig(GeneratorConfig):
    """What is asked for, which rewrites pass the gate, and what becomes of them."""

    judges: ClassVar[bool] = True
    rows: Literal["pairs", "rewrites"] = "pairs"
    """pairs: a rewrite that the classifier gets wrong before one that it gets right, which teach the writer. rewrites:
    those that pass the gate, with the label of their seed, which teach the classifier; no classifier is asked."""
    labels: tuple[str, ...] = Field(default=("y", "n"), min_length=2)
    """Labels of the classes; an item's answer is one of them."""
    request: str = "say {prompt}"
    """Asked of the writers; {prompt} is the item's text."""
    said: str = "<answer>{label}"
    """How the classifier says a label: a language model at `scorers`, asked which label is likeliest after a text."""
    domain: str | None = None
    """Domain of the rows; null keeps the item's."""
    question: str = (
        "{prompt}\nA rewrite: {response}\nHow faithful is it, from 1 to 5? Say why, then <answer> and the number alone."
    )
    """Asked of each judge about each rewrite; {prompt} and {response} are replaced."""
    low: int = 1
    """Lowest rating that a judge may give."""
    high: int = 5
    """Highest rating."""
    min_rating: float = 4.0
    """Least mean rating of a rewrite that passes."""
    max_length_gap: float | None = Field(default=0.5, ge=0)
    """Largest difference in characters between rewrite and text that passes, as a share of the text's."""
    max_per_prompt: int = Field(default=1, ge=1)
    """Most rows of a text under `rows: rewrites`, in the order drawn."""

    @property
    def kind(self) -> Kind:  # type: ignore[override]
        """Return preferences, or demonstrations of the classifier's task."""
        return "preferences" if self.rows == "pairs" else "demonstrations"

    @property
    def scorers(self) -> bool:  # type: ignore[override]
        """Return whether the classifier is asked."""
        return self.rows == "pairs"

    @property
    def labelled(self) -> bool:  # type: ignore[override]
        """Return whether rows have answers: requests to rewrite have none."""
        return self.rows == "rewrites"

    @model_validator(mode="after")
    def _is_whole(self) -> AdversarialRewritesConfig:
        check_template("request", self.request, needs=("prompt",))
        check_template("said", self.said, needs=("label",))
        check_template("question", self.question, needs=("prompt", "response"))
        if len(set(self.labels)) < len(self.labels) or not all(self.labels):
            raise InputError(f"labels {list(self.labels)}: expected different texts, none of them empty")
        if not self.low < self.high:
            raise InputError(f"low {self.low} is not below high {self.high}: ratings would tell nothing")
        if not self.low <= self.min_rating <= self.high:
            raise InputError(f"min_rating {self.min_rating:g} is not from low {self.low} to high {self.high}")
        return self


@dataclass(frozen=True)
class Rewrite:
    """One rewrite of an item's text that can be read."""

    response: str
    """What the writer wrote."""
    text: str
    """Its final answer: what the classifier reads."""
    writer: str


def adversarial_rewrites(
    items: Sequence[Item], writers: Writers, context: GeneratorContext, *, config: AdversarialRewritesConfig
) -> Iterator[Made | Dropped]:
    """Yield for each item a pair for the writer, or rows for the classifier, of rewrites that pass the gate.

    Gate: a length near the text's, and a mean rating of at least `min_rating`. Of a pair, chosen is the rewrite whose
    label is least likely among those that the classifier gets wrong, rejected the one whose label is likeliest among
    those that it gets right; `margin` is the difference in nats. With several classifiers log-probabilities are means.
    Source: Deng et al. 2025, DuoGuard (arXiv:2502.05163): misclassified rewrites are chosen, those classified right
    rejected; ratings and length differences are the release's. Reconstructed: thresholds, and which of several.
    """
    _check_labels(items, config)
    asked = [ask(item, "rewrite", config.request) for item in items]
    found, reasons = _read(items, writers, asked, context, config)
    passed, more = _gated(items, found, writers, context, config)
    yield from map(Dropped, (*reasons, *more))
    if config.rows == "rewrites":
        for item, own in zip(items, passed, strict=True):
            yield from [Dropped(OVER_CAP)] * max(0, len(own) - config.max_per_prompt)
            yield from (_lesson(item, one, config) for one in own[: config.max_per_prompt])
        return
    likely = iter(_likelihoods(passed, writers, config))
    for item, request, own in zip(items, asked, passed, strict=True):
        yield from _of_item(item, request.prompt, [(one, next(likely)) for one in own], writers, config)


def _check_labels(items: Sequence[Item], config: AdversarialRewritesConfig) -> None:
    for item in items:
        if item.answer not in config.labels:
            raise InputError(
                f"generator adversarial_rewrites: the answer {item.answer!r:.40} of item {item.id} is none of labels "
                f"{list(config.labels)}"
            )


def _read(
    items: Sequence[Item],
    writers: Writers,
    asked: Sequence[Item],
    context: GeneratorContext,
    config: AdversarialRewritesConfig,
) -> tuple[list[list[Rewrite]], list[str]]:
    """Return the distinct rewrites of each item that have a fitting length, and why others are dropped."""
    found: list[list[Rewrite]] = []
    reasons: list[str] = []
    for item, texts in zip(items, writers.write(asked, context.drawing(config, "draw")), strict=True):
        own: dict[str, Rewrite] = {}
        for one in texts:
            text = "" if one is None else extract_answer(one.text)
            reason = unusable(one) or (REPEATED if text in own else _misfit(item.prompt, text, config))
            if reason or one is None:
                reasons.append(reason or "")
            else:
                own[text] = Rewrite(one.text, text, one.writer)
        found.append(list(own.values()))
    return found, reasons


def _misfit(prompt: str, text: str, config: AdversarialRewritesConfig) -> str | None:
    if not text or any("\ud800" <= sign <= "\udfff" for sign in text):  # half a pair, as an endpoint's JSON may hold
        return UNPARSED
    gap = abs(len(text) - len(prompt))
    return OTHER_LENGTH if config.max_length_gap is not None and gap > config.max_length_gap * len(prompt) else None


def _gated(
    items: Sequence[Item],
    found: Sequence[Sequence[Rewrite]],
    writers: Writers,
    context: GeneratorContext,
    config: AdversarialRewritesConfig,
) -> tuple[list[list[Rewrite]], list[str]]:
    """Return the rewrites that judges rate high enough, and why others are dropped."""
    requests = [
        rating_request(item, number, config.question, one.response, writers)
        for item, own in zip(items, found, strict=True)
        for number, one in enumerate(own)
    ]
    answers = iter(writers.write(requests, context.drawing(config, "rate", num_samples=1), judges=True))
    passed: list[list[Rewrite]] = []
    reasons = []
    for own in found:
        rated = [(one, mean_rating(next(answers), config.low, config.high)) for one in own]
        passed.append([one for one, rating in rated if rating is not None and rating >= config.min_rating])
        reasons += [
            UNRATED if rating is None else POOR for _, rating in rated if not (rating or 0) >= config.min_rating
        ]
    return passed, reasons


def _lesson(item: Item, one: Rewrite, config: AdversarialRewritesConfig) -> Made:
    domain = config.domain or item.domain
    row = item.model_copy(
        update={"id": item_id(domain, one.text, item.answer), "domain": domain, "prompt": one.text, "messages": ()}
    )
    return Made(row, fill(config.said, label=item.answer), {"quality": one.writer})


def _likelihoods(
    passed: Sequence[Sequence[Rewrite]], writers: Writers, config: AdversarialRewritesConfig
) -> list[dict[str, float] | None]:
    """Return the log-probability of each label after each rewrite, the mean of the classifiers; None if unscored."""
    pairs = [(one.text, fill(config.said, label=label)) for own in passed for one in own for label in config.labels]
    told = [scorer.score(pairs) for scorer in writers.scorers]
    means = [
        None if None in here else sum(one.logprob for one in here if one is not None) / len(here)
        for here in zip(*told, strict=True)
    ]
    rows = [means[at : at + len(config.labels)] for at in range(0, len(means), len(config.labels))]
    return [
        None
        if None in row
        else {label: value for label, value in zip(config.labels, row, strict=True) if value is not None}
        for row in rows
    ]


def _of_item(
    item: Item,
    request: str,
    scored: Sequence[tuple[Rewrite, dict[str, float] | None]],
    writers: Writers,
    config: AdversarialRewritesConfig,
) -> Iterator[Made | Dropped]:
    known = [(one, values) for one, values in scored if values is not None]
    yield from [Dropped(UNSCORED)] * (len(scored) - len(known))
    wrong = [(values[item.answer], one) for one, values in known if _guess(values) != item.answer]
    right = [(values[item.answer], one) for one, values in known if _guess(values) == item.answer]
    if not (wrong and right):
        yield from [Dropped(NO_CONTRAST)] * len(known)
        return
    yield from [Dropped(OVER_CAP)] * (len(known) - 2)
    hardest, easiest = min(wrong, key=lambda one: one[0]), max(right, key=lambda one: one[0])
    domain = config.domain or item.domain
    row = Item(id=item_id(domain, request, ""), domain=domain, prompt=request, answer="", verifier=UNLABELLED)
    pair = {CHOSEN: hardest[1].response, REJECTED: easiest[1].response, MARGIN: easiest[0] - hardest[0]}
    yield Made(row, None, {"quality": hardest[1].writer, **pair, LABEL_SOURCE: writers.scorers[0].name})


def _guess(values: dict[str, float]) -> str:
    """Return the likeliest label, the first of equal ones."""
    return max(values, key=lambda label: values[label])
